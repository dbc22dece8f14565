"""Clip replaced by Max and Min with the same limits, which computes the same numbers."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from onnx import ModelProto, NodeProto, helper


def clips_as_min_and_max(model: ModelProto, names: Collection[str]) -> ModelProto | None:
    """Returns the model with the named Clips as Max, then Min; None if none of them is a Clip.

    Clips of opset 11 and later, whose limits are inputs. Max with the lower limit comes first: if
    the limits are in the wrong order, the upper one wins in both forms.
    """
    rewritten = ModelProto()
    rewritten.CopyFrom(model)
    nodes = [part for node in model.graph.node for part in _parts(node, names)]
    if len(nodes) == len(model.graph.node) and all(
        a == b for a, b in zip(nodes, model.graph.node, strict=True)
    ):
        return None
    del rewritten.graph.node[:]
    rewritten.graph.node.extend(nodes)
    return rewritten


def _parts(node: NodeProto, names: Collection[str]) -> Iterator[NodeProto]:
    limits = [*node.input[1:], "", ""][:2]
    if node.op_type != "Clip" or node.name not in names or not any(limits):
        yield node
        return
    value, last = node.input[0], node.output[0]
    given = [
        (op_type, limit) for op_type, limit in zip(("Max", "Min"), limits, strict=True) if limit
    ]
    for i, (op_type, limit) in enumerate(given):
        out = last if i == len(given) - 1 else f"{last}_{op_type}"
        yield helper.make_node(op_type, [value, limit], [out], f"{node.name}/{op_type}")
        value = out
