"""Control flow: IF and WHILE as ONNX's If and Loop.

Tensors keep their shapes in a loop, and the outputs of both branches have the same shapes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import GraphProto, TensorProto, ValueInfoProto, helper

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.host.engines.graph import OnnxGraph
from ep_nnapi.nnapi.host.engines.operation import Op
from ep_nnapi.nnapi.host.engines.row import row
from ep_nnapi.nnapi.host.engines.scope import Inexpressible, is_coded, require
from ep_nnapi.nnapi.model import Model


def if_(op: Op) -> None:
    """Runs one of two models. Source: NDK ANEURALNETWORKS_IF."""
    given = [op.scope.value(i, real=False) for i in op.indexes("inputs")]
    condition = _flag(op.scope.graph, op.stored("condition"))
    outputs = op.indexes("outputs")
    branches = {
        f"{which}_branch": _branch(op, _model(op, f"{which}_model"), given)
        for which in ("then", "else")
    }
    names = op.scope.graph.many("If", len(outputs), condition, **branches)
    for index, name in zip(outputs, names, strict=True):
        op.scope.define(index, name, real=False)


def _branch(op: Op, model: Model, given: Sequence[str]) -> GraphProto:
    """A subgraph without inputs, which reads the values of the graph around it."""
    graph, outputs = OnnxGraph(op.scope.graph), op.indexes("outputs")
    inner = op.inline(model, graph, given, [op.scope.shape(i) for i in op.indexes("inputs")])
    require(inner.shapes == [op.scope.shapes.get(i) for i in outputs], "a branch has another shape")
    made = [graph.node("Identity", name) for name in inner.values]
    return graph.proto([], [_declared(op, i, n) for i, n in zip(outputs, made, strict=True)])


def while_(op: Op) -> None:
    """Runs a model while another one says so; constant inputs are read from the graph around it.

    Source: NDK ANEURALNETWORKS_WHILE.
    """
    condition, body = _model(op, "condition_model"), _model(op, "body_model")
    inputs = op.indexes("inputs")
    carried = inputs[: len(body.outputs)]
    shapes = [op.scope.shape(i) for i in inputs]
    start = [op.scope.value(i, real=False) for i in inputs]
    graph = OnnxGraph(op.scope.graph)
    state = [graph.name() for _ in carried]
    rest = start[len(carried) :]
    after = op.inline(body, graph, [*state, *rest], shapes)
    require(after.shapes == shapes[: len(carried)], "a tensor changes its shape in the loop")
    again = op.inline(condition, graph, [*after.values, *rest], shapes)
    made = [graph.node("Identity", name) for name in after.values]
    going = _flag(graph, *again.values)
    counter_and_condition = (TensorProto.INT64, TensorProto.BOOL)
    proto = graph.proto(
        [
            *(helper.make_tensor_value_info(graph.name(), t, ()) for t in counter_and_condition),
            *(_declared(op, i, n) for i, n in zip(carried, state, strict=True)),
        ],
        [
            helper.make_tensor_value_info(going, TensorProto.BOOL, ()),
            *(_declared(op, i, n) for i, n in zip(carried, made, strict=True)),
        ],
    )
    outer = op.scope.graph
    first = _flag(outer, *op.inline(condition, outer, start, shapes).values)
    names = outer.many("Loop", len(carried), "", first, *start[: len(carried)], body=proto)
    for index, name in zip(op.indexes("outputs"), names, strict=False):
        op.scope.define(index, name, real=False)


def _model(op: Op, name: str) -> Model:
    """The model that an operand holds."""
    value = op.operand(name).value
    if not isinstance(value, Model):
        raise Inexpressible(f"operand {name} is no model")
    return value


def _flag(graph: OnnxGraph, value: str) -> str:
    """A condition, stored as BOOL8 [1], as ONNX takes it: of rank 0."""
    return graph.node("Reshape", value, graph.ints(()))


def _declared(op: Op, index: int, name: str) -> ValueInfoProto:
    """The declaration of a subgraph's value that has the type and shape of an operand."""
    operand = op.scope.operand(index)
    dtype = np.dtype(np.float32) if operand.type.numpy.kind == "f" else operand.type.numpy
    if is_coded(operand):
        dtype = np.dtype(np.uint8)
    code = helper.np_dtype_to_tensor_dtype(dtype)
    return helper.make_tensor_value_info(name, code, op.scope.shape(index))


ROWS = (row(spec.IF, if_), row(spec.WHILE, while_))
