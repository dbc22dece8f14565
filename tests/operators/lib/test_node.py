"""The building blocks of lowerings: reshapes, uniform tensors, indexes, wider floats; exact."""

from collections.abc import Iterator

import numpy as np
import pytest

from ep_nnapi.graph.value import DType, Quantization, Value
from ep_nnapi.lowering.call import Call, apply
from ep_nnapi.nnapi.errors import Reason, Reject
from ep_nnapi.nnapi.spec import ADD, MUL, RELU, TRANSPOSE
from ep_nnapi.operators.lib.convolution import dilated_filter, filter_rows
from ep_nnapi.operators.lib.node import Node, int32, narrow, one_to_one, op, ops_of, widened, zeros
from tests.operators.lib.emitting import (
    constant,
    emitted,
    floats,
    node,
    ran,
    returned,
    value,
    written,
)


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.bool_])
@pytest.mark.parametrize("shape", [(6,), (3, 2), (1, 2, 3, 1), (2, 1, 3, 1, 1, 1)])
def test_reshapes_keep_the_order_of_elements(shape: tuple[int, ...], dtype: type):
    x = (10 * floats(2, 3)).astype(dtype)
    assert np.array_equal(written(Node.reshape, x, like=x.reshape(shape)), x.reshape(shape))


def test_a_shape_of_other_size_is_rejected():
    x = constant(floats(7))
    with pytest.raises(Reject, match=r"w has shape \[7\], which") as found:
        emitted(Node.reshaped, node([x]), x, (1,))
    assert found.value.reason is Reason.SHAPE


def test_a_tensor_in_its_own_shape_takes_no_operation():
    x = value("x", floats(2, 3))
    made = emitted(Node.reshaped, node([x]), x, (2, 3))
    assert (made.calls, made.returned) == ([], x)


def test_results_of_another_shape_are_reshaped_to_the_output():
    y = value("y", floats(2, 3))
    n = node([], [y])
    assert n.output_or_temp(y, (2, 3)) is y
    other = n.output_or_temp(y, (6,))
    assert (other.shape, other.name != "y") == ((6,), True)
    assert list(n.write_output(y, y)) == []
    assert [c.spec.name for c in n.write_output(other, y)] == ["RESHAPE"]


def test_uniform_tensors_are_constants_while_small():
    made = emitted(Node.full, node(), 2.5, (2, 3))
    assert made.calls == []
    assert made.returned.constant.array.tolist() == [[2.5] * 3] * 2


@pytest.mark.parametrize(("level", "operations"), [(3, []), (8, ["FILL"])])
def test_large_uniform_tensors_are_filled_where_the_level_can(level: int, operations: list[str]):
    made = emitted(Node.full, node(level=level), 1.0, (100, 100))
    assert made.names == operations
    assert made.returned.shape == (100, 100)


def test_booleans_become_numbers():
    x = np.array([True, False, True])
    assert returned(Node.as_number, x).tolist() == [1, 0, 1]
    assert written(Node.number_into, x, like=np.zeros(3, np.float32)).tolist() == [1, 0, 1]


def test_booleans_are_moved_as_numbers():
    x = np.array([[True, False], [True, True]])

    def move(a: Value, b: Value):
        yield apply(TRANSPOSE, a, perm=int32((1, 0)), out=b)

    assert np.array_equal(written(lambda n, a, b: n.of_any_type(a, b, move), x, like=x.T), x.T)


def test_negative_indexes_count_from_the_end():
    at = np.array([0, -1, 4, -5], np.int32)
    assert returned(lambda n, x: n.indices(x, 5), at).tolist() == [0, 4, 4, 0]
    assert emitted(Node.indices, node(), constant(at), 5).returned.constant.array.tolist() == [
        0,
        4,
        4,
        0,
    ]


@pytest.mark.parametrize("at", [5, -6])
def test_constant_indexes_outside_are_refused(at: int):
    with pytest.raises(Reject, match="outside a dimension of 5") as caught:
        emitted(Node.indices, node(), constant(np.array([at])), 5)
    assert caught.value.reason is Reason.CONSTANT


@pytest.mark.parametrize("level", [3, 4])
def test_numbers_are_added_to_integers_at_every_level(level: int):
    x = np.array([-7, 0, 1 << 20], np.int32)
    assert returned(lambda n, x: n.added(x, -3), x, level=level).tolist() == (x - 3).tolist()


def test_constants_are_recast_if_exact():
    w = constant(np.array([1.0, 2.0], np.float32))
    assert node().recast(w, DType.INT32).constant.array.dtype == np.int32
    with pytest.raises(Reject, match="INT32 does not hold"):
        node().recast(constant(np.array([0.5], np.float32)), DType.INT32)


def test_int64_is_stored_as_int32():
    x = Value("x", DType.INT64, (2,))
    assert narrow(x).dtype is DType.INT32
    assert narrow(value("y", floats(2))).dtype is DType.FLOAT


def test_both_tensors_are_quantized_or_neither():
    x = value("x", floats(2))
    node().require_same_quantization(x, x)
    with pytest.raises(Reject) as caught:
        node().require_same_quantization(
            x, Value("y", DType.UINT8, (2,), Quantization((0.1,), (3,)))
        )
    assert caught.value.reason is Reason.QUANTIZATION


# Signs at levels with and without ABS and NEG: exact, as only signs change

X = floats(2, 3)


@pytest.mark.parametrize("level", [1, 3, 8])
def test_absolute_values_match(level: int):
    assert np.array_equal(written(Node.absolute, X, like=X, level=level), np.abs(X))
    assert np.array_equal(returned(Node.absolute_of, X, level=level), np.abs(X))


@pytest.mark.parametrize("level", [1, 3, 8])
def test_negations_match(level: int):
    assert np.array_equal(written(Node.negative, X, like=X, level=level), -X)
    assert np.array_equal(returned(Node.negative_of, X, level=level), -X)


def test_signs_are_copied():
    size = floats(2, 3, low=0.5, high=1)
    assert np.array_equal(written(Node.signed_like, size, X, like=X), np.copysign(size, X))


# Constant filters dilated and cut, against numpy


def test_a_dilated_filter_has_zeros_between_its_taps():
    w = constant(floats(2, 1, 2, 2))
    found = dilated_filter(node(), w, (2, 3), ((1, 0), (0, 2)))
    array = found.constant.array
    assert found.shape == array.shape == (2, 1, 4, 6)
    assert np.array_equal(array[:, :, 1::2, 0:4:3], w.constant.array)
    assert np.count_nonzero(array) == w.constant.array.size


def test_a_quantized_filter_is_padded_with_its_zero_point():
    w = constant(np.full((1, 1, 2, 2), 9, np.uint8), Quantization((0.5,), (3,)), dtype=DType.UINT8)
    array = dilated_filter(node(), w, (2, 2)).constant.array
    assert array.tolist() == [[[[9, 3, 9], [3, 3, 3], [9, 3, 9]]]]


def test_an_undilated_filter_is_returned_as_it_is():
    w = value("w", floats(1, 1, 2, 2))
    assert dilated_filter(node(), w, (1, 1)) is w


def test_a_computed_filter_cannot_be_dilated_or_cut():
    w = value("w", floats(2, 1, 2, 2))
    for change in (lambda: dilated_filter(node(), w, (2, 2)), lambda: filter_rows(node(), w, 0, 1)):
        with pytest.raises(Reject, match="w must be constant") as caught:
            change()
        assert caught.value.reason is Reason.CONSTANT


def test_rows_keep_their_scales():
    q = Quantization((0.1, 0.2, 0.3), (0, 0, 0), 0)
    w = constant(np.arange(6, dtype=np.int8).reshape(3, 2), q)
    found = filter_rows(node(), w, 1, 3)
    assert found.constant.array.tolist() == [[2, 3], [4, 5]]
    assert found.quantization == Quantization((0.2, 0.3), (0, 0), 0)


SHAPE = (2, 3)


@widened
def squares(n: Node) -> Iterator[Call]:
    """x0 squared plus x1, which overflows float16 in between."""
    square = yield from n.compute(MUL, n.input(0), n.input(0))
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


def test_operators_are_declared_with_their_first_version():
    relu = one_to_one("Relu", RELU, since=6)

    @op("Pad", since=2)
    def pad(n):
        """Padded."""
        yield from ()

    assert (relu.op_type, relu.since) == ("Relu", 6)
    assert (pad.op_type, pad.doc) == ("Pad", "Padded.")
    made = list(relu.lower(node([X], [value("y", floats(2, 3))])))
    assert [c.spec for c in made] == [RELU]


def test_modules_list_their_operators_in_order():
    from ep_nnapi.operators import activation

    found = ops_of(activation)
    assert [o.op_type for o in found[:2]] == ["Relu", "Clip"]


def test_constants_of_operands():
    assert int32((1, 2)).array.dtype == np.int32
    assert zeros(3, DType.FLOAT).array.tolist() == [0, 0, 0]
