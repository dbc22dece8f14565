"""Small models of float inputs and outputs: how much of one is taken, and what it computes."""

from collections.abc import Sequence
from enum import StrEnum

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import ep_nnapi
from ep_nnapi.sessions.cpu import session_of
from tests.end_to_end.sessions import CPU, NAME, quiet

RNG = np.random.default_rng(0)


class Taken(StrEnum):
    """Share of a model that is assigned to the provider."""

    ALL = "all"
    SOME = "some"
    NONE = "none"


def taken(model: bytes, **options: object) -> Taken:
    report = ep_nnapi.check(model, **options)
    if report.taken == report.nodes:
        return Taken.ALL
    return Taken.SOME if report.taken else Taken.NONE


def close(model: bytes, feeds: dict[str, np.ndarray], atol: float = 1e-5, **options) -> None:
    """A stock session with the provider computes what one on the CPU does."""
    ep_nnapi.register()
    providers = [(NAME, {k: str(v) for k, v in options.items()}), CPU]
    got = onnxruntime.InferenceSession(model, quiet(), providers=providers).run(None, feeds)
    want = session_of(model, quiet()).run(None, feeds)
    for a, b in zip(got, want, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a, b, rtol=0, atol=atol)


def model_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: dict[str, Sequence[int | str] | None],
    outputs: dict[str, Sequence[int | str] | None],
    constants: dict[str, np.ndarray] | None = None,
    opset: int = 17,
) -> bytes:
    """A model of float inputs and outputs; a shape that is None is not given."""

    def infos(shapes: dict[str, Sequence[int | str] | None]) -> list[onnx.ValueInfoProto]:
        return [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()]

    tensors = [numpy_helper.from_array(np.asarray(a), n) for n, a in (constants or {}).items()]
    graph = helper.make_graph(list(nodes), "case", infos(inputs), infos(outputs), tensors)
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


def node(op_type: str, inputs: str, outputs: str, **attributes: object) -> onnx.NodeProto:
    return helper.make_node(op_type, inputs.split(), outputs.split(), **attributes)


def drawn(*shape: int, low: float = -1.0, high: float = 1.0) -> np.ndarray:
    return RNG.uniform(low, high, shape).astype(np.float32)
