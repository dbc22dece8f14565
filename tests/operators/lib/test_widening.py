"""Lowerings of float16 nodes that compute in float32, between casts."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ep_nnapi.graph.value import DType, Value
from ep_nnapi.lowering.call import Call, apply
from ep_nnapi.nnapi.spec import ADD, MUL
from ep_nnapi.operators.lib.emit import compute
from ep_nnapi.operators.lib.node import Node
from ep_nnapi.operators.lib.widening import widened
from tests.operators.lib.emitting import constant, emitted, floats, node, ran, value

SHAPE = (2, 3)


@widened
def squares(n: Node) -> Iterator[Call]:
    """x0 squared plus x1, which overflows float16 in between."""
    square = yield from compute(n, MUL, n.input(0), n.input(0))
    yield apply(ADD, square, n.input(1), out=n.output())


def half(name: str) -> Value:
    return Value(name, DType.FLOAT16, SHAPE)


def test_the_wrapped_function_keeps_its_docstring() -> None:
    assert squares.__doc__ == "x0 squared plus x1, which overflows float16 in between."


def test_float32_nodes_are_lowered_as_they_are() -> None:
    x, y = (value(name, np.zeros(SHAPE, np.float32)) for name in "xy")
    assert emitted(squares, node([x, x], [y])).names == ["MUL", "ADD"]


def test_float16_nodes_are_computed_in_float32() -> None:
    x, z, y = half("x"), half("z"), half("y")
    made = emitted(squares, node([x, z], [y]), inputs=[x, z])
    assert made.names == ["CAST", "CAST", "MUL", "ADD", "CAST"]
    given = np.full(SHAPE, 300, np.float16)  # its square is above 65504, the largest float16
    found = ran(made, y, {"x": given, "z": np.full(SHAPE, -60000, np.float16)}, 3)
    np.testing.assert_array_equal(found, np.full(SHAPE, 30000, np.float16))


def test_constants_are_cast_when_the_model_is_written() -> None:
    x, y = half("x"), half("y")
    w = constant(floats(*SHAPE).astype(np.float16))
    made = emitted(squares, node([x, w], [y]), inputs=[x])
    assert made.names == ["CAST", "MUL", "ADD", "CAST"]
    given = floats(*SHAPE, low=-9, high=9).astype(np.float16)
    exact = given.astype(np.float64) ** 2 + w.constant.array
    np.testing.assert_array_equal(ran(made, y, {"x": given}, 3), exact.astype(np.float16))


def test_inputs_of_other_types_stay() -> None:
    @widened
    def chosen(n: Node) -> Iterator[Call]:
        yield apply(ADD, n.input(0), n.input(0), out=n.output())
        assert n.input(1).dtype is DType.INT32
        assert not n.has(2)

    index = Value("i", DType.INT32, SHAPE)
    made = emitted(chosen, node([half("x"), index, None], [half("y")]))
    assert made.names == ["CAST", "ADD", "CAST"]


def test_an_output_that_is_left_out_or_of_another_type_is_not_cast() -> None:
    @widened
    def several(n: Node) -> Iterator[Call]:
        yield apply(ADD, n.input(0), n.input(0), out=n.output(0))
        assert not n.has_output(1)
        assert n.output(2).dtype is DType.INT32

    outputs = [half("y"), None, Value("i", DType.INT32, SHAPE)]
    assert emitted(several, node([half("x")], outputs)).names == ["CAST", "ADD", "CAST"]
