"""Equality of a model and its rewritten form, by ONNX's reference evaluator."""

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from tests import onnx_graph


def model_of(
    text: str,
    shapes: Mapping[str, Sequence[int]],
    outputs: Mapping[str, Sequence[int]],
    constants: Mapping[str, np.ndarray] | None = None,
    *,
    opset: int = 21,
) -> onnx.ModelProto:
    """A float32 model of nodes as text; those without a name get that of their output."""
    nodes = onnx_graph.nodes_of(text)
    for node in nodes:
        node.name = node.name or node.output[0]
    model = onnx_graph.model_of(nodes, shapes, outputs, constants or {}, opset)
    onnx.checker.check_model(model, full_check=True)
    return model


def same(a: onnx.ModelProto, b: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> None:
    """Both give the same bits."""
    onnx.checker.check_model(b, full_check=True)
    want = ReferenceEvaluator(a).run(None, dict(feeds))
    for got, right in zip(ReferenceEvaluator(b).run(None, dict(feeds)), want, strict=True):
        np.testing.assert_array_equal(got, right)
        assert got.dtype == right.dtype


def types(model: onnx.ModelProto) -> list[str]:
    return [n.op_type for n in model.graph.node]
