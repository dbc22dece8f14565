"""Elements taken from and put at indexes, constant and computed, against numpy: exact."""

import numpy as np
import pytest

from ep_nnapi.nnapi.errors import Reason, Reject
from ep_nnapi.operators.slicing import constant_indices, element_positions, row_positions
from tests.operators.lib import emitting
from tests.operators.lib.emitting import constant, returned, value
from tests.oracle import (
    FL,
    accepts,
    boolean,
    emitted,
    f16,
    f32,
    i32,
    i64,
    ints,
    matches,
    node,
    on_cpu,
    rejects,
)

# data, indexes, axis
GATHERS = {
    "scalar": ((4, 5), np.array(2), 0),
    "scalar, last": ((2, 3, 4), np.array(-1), 2),
    "scalar of row": ((5,), np.array(3), 0),
    "scalar, rank 5": ((2, 3, 2, 4, 2), np.array(-2), 3),
    "row": ((4, 5), ints(0, 2, 2, -1), 0),
    "table": ((4, 5), ints(0, 2, 2, -1, 3, 1).reshape(2, 3), 1),
    "image": ((2, 3, 4, 5), ints(2, 0), 1),
    "to rank 5": ((2, 3, 4), ints(*range(8)).reshape(2, 2, 2) % 3, 1),
    "from rank 5": ((2, 1, 3, 2, 2), ints(2, 1), 2),
}


@pytest.mark.parametrize("given", [f32, f16, i32, boolean])
@pytest.mark.parametrize(("shape", "index", "axis"), GATHERS.values(), ids=GATHERS)
def test_gather_matches(shape, index, axis, given):
    matches(node("Gather", given(*shape), index.astype(np.int64), axis=axis), FL[8])


@pytest.mark.parametrize("target", [FL[3], FL[4], FL[8]], ids=["3", "4", "8"])
@pytest.mark.parametrize("of", [i32, i64])
@pytest.mark.parametrize("shape", [(3,), (2, 3), ()])
def test_gather_by_computed_indexes_matches(shape, of, target):
    matches(node("Gather", f32(4, 5), of(*shape, low=-4, high=3), axis=0), target)
    matches(node("Gather", f32(2, 4, 3), of(*shape, low=-4, high=3), axis=1), target)


def test_gather_from_a_table_of_long_integers_matches():
    table = np.arange(20, dtype=np.int64).reshape(4, 5)
    matches(node("Gather", table, i64(3, low=0, high=3)), FL[4])
    table[0, 0] = 2**31
    rejects(node("Gather", table, i64(3)), FL[8], Reason.CONSTANT, "INT32 does not hold")


def test_gather_levels():
    one = node("Gather", f32(4, 5), np.array(1), axis=1)
    assert emitted(one, FL[2]) == ["STRIDED_SLICE"]
    row = node("Gather", f32(4, 5), ints(1, 3))
    assert emitted(row, FL[3]) == ["GATHER"]
    rejects(row, FL[2], Reason.LEVEL, "GATHER")
    counted = node("Gather", f32(4, 5), i32(3))
    assert emitted(counted, FL[4]) == ["LESS", "ADD", "SELECT", "GATHER"]
    assert emitted(counted, FL[3]) == ["LESS", "CAST", "ADD", "CAST", "SELECT", "GATHER"]


def test_gather_outside_is_refused():
    rejects(
        node("Gather", f32(4, 5), ints(1, 4)), FL[8], Reason.CONSTANT, "outside a dimension of 4"
    )
    rejects(node("Gather", f32(4, 5), np.array(-5)), FL[8], Reason.CONSTANT, "outside")


# data, indexes' shape, axis
ELEMENTS = [
    ((4,), (6,), 0),
    ((4, 5), (2, 5), 0),
    ((4, 5), (3, 7), 1),
    ((2, 3, 4), (2, 3, 2), -1),
    ((2, 3, 2, 2, 2), (1, 4, 2, 1, 2), 1),
]


@pytest.mark.parametrize(("shape", "of", "axis"), ELEMENTS, ids=str)
def test_gather_elements_matches(shape, of, axis):
    size = shape[axis]
    index = np.random.default_rng(0).integers(-size, size, of)
    by = {"axis": axis}
    matches(node("GatherElements", f32(*shape), index, **by), FL[3], oracle=on_cpu)
    matches(node("GatherElements", i32(*shape), index, **by), FL[6], oracle=on_cpu)
    computed = node("GatherElements", f32(*shape), i64(*of, low=-size, high=size - 1), **by)
    matches(computed, FL[6], oracle=on_cpu)  # the evaluator wants equal sizes but for the axis


def test_gather_elements_levels():
    computed = node("GatherElements", f32(4, 5), i32(2, 5, low=0, high=3))
    rejects(computed, FL[3], Reason.LEVEL, "MUL")
    rejects(node("GatherElements", f32(4), ints(9)), FL[8], Reason.CONSTANT, "outside")


@pytest.mark.parametrize("shape", [(3,), (2, 5, 1), (2, 6)])
def test_element_indices_of_another_shape_are_refused(shape: tuple[int, ...]):
    """Of the same rank, and beside the axis no larger."""
    accepts(node("GatherElements", f32(4, 5), i32(7, 5), axis=0), FL[8])
    index = i32(*shape)
    rejects(node("GatherElements", f32(4, 5), index, axis=0), FL[8], Reason.SHAPE, "does not fit")


# data, indexes' shape, batch_dims
NDS = [
    ((4, 5), (3, 1), 0),
    ((4, 5), (3, 2), 0),
    ((2, 3, 4), (2, 2, 2), 0),
    ((2, 3, 4), (2, 5, 1), 1),
    ((2, 3, 4, 2), (2, 3, 1), 2),
    ((2, 3, 2, 2, 2), (4, 3), 0),
]


@pytest.mark.parametrize(("shape", "of", "batch"), NDS, ids=str)
def test_gather_nd_matches(shape, of, batch):
    size = min(shape[batch : batch + of[-1]])
    index = np.random.default_rng(0).integers(-size, size, of)
    matches(node("GatherND", f32(*shape), index, batch_dims=batch), FL[3])
    positive = i64(*of, low=0, high=size - 1)
    matches(node("GatherND", f32(*shape), positive, batch_dims=batch), FL[6])


def test_gather_nd_levels():
    matrix = node("GatherND", f32(4, 5), i32(3, 2, low=0, high=3))
    accepts(matrix, FL[4])
    deep = node("GatherND", f32(4, 5), i32(3, 2, 2, low=0, high=3))
    rejects(deep, FL[5], Reason.LEVEL, "RESHAPE of TENSOR_INT32")
    rejects(node("GatherND", f32(4, 5), ints(9, 9)), FL[8], Reason.CONSTANT, "outside [4, 5]")


@pytest.mark.parametrize(("time", "batch"), [(0, 1), (1, 0)])
@pytest.mark.parametrize("shape", [(4, 4), (4, 4, 3), (4, 4, 1, 2, 3)], ids=str)
def test_reverse_sequence_matches(shape, time, batch):
    lengths = np.array([4, 1, 3, 2], np.int64)
    matches(node("ReverseSequence", f32(*shape), lengths, time_axis=time, batch_axis=batch), FL[3])


def test_reverse_sequence_by_computed_lengths_is_refused():
    case = node("ReverseSequence", f32(4, 4), i64(4))
    rejects(case, FL[8], Reason.CONSTANT, "x1 must be constant")


@pytest.mark.parametrize("length", [-1, 5])
def test_lengths_beyond_the_sequence_are_refused(length):
    case = node("ReverseSequence", f32(4, 1), np.array([length]))
    rejects(case, FL[8], Reason.CONSTANT, "x1 has a length outside 0 to 4")


@pytest.mark.parametrize(("shape", "of", "axis"), [((5,), (3,), 0), ((4, 5), (2, 5), 0)])
def test_scatter_elements_matches(shape, of, axis):
    size = shape[axis]
    index = np.stack([np.random.default_rng(0).permutation(size)] * 9, 1)[: of[0], : of[-1]]
    index = (index if len(of) == 2 else index[:, 0]) - size // 2
    given = (f32(*shape), index, f32(*index.shape))
    matches(node("ScatterElements", *given, axis=axis), FL[3])
    matches(node("Scatter", *given, axis=axis, opset=10), FL[3], oracle=on_cpu)


@pytest.mark.parametrize("at", [0, 2, -1, -5])
@pytest.mark.parametrize(("shape", "axis"), [((5,), 0), ((4, 5), 1), ((2, 3, 5, 2, 2), 2)], ids=str)
def test_a_slice_that_is_replaced_whole_is_not_gathered(shape, axis, at):
    one = tuple(1 if i == axis else size for i, size in enumerate(shape))
    given = (f32(*shape), np.full(one, at), f32(*one))
    matches(node("ScatterElements", *given, axis=axis), FL[2])  # which has no GATHER


def test_a_slice_outside_is_refused():
    case = node("ScatterElements", f32(4, 5), np.full((4, 1), 5), f32(4, 1), axis=1)
    rejects(case, FL[8], Reason.CONSTANT, "index 5 is outside a dimension of 5")


def test_scatter_nd_matches():
    rows = ints(2, 0).reshape(2, 1)
    matches(node("ScatterND", f32(4, 5), rows, f32(2, 5)), FL[3])
    points = ints(2, 0, 1, -1).reshape(2, 2)
    matches(node("ScatterND", f32(4, 5), points, f32(2)), FL[3])
    matches(node("ScatterND", f32(2, 2, 2, 2, 2), ints(1, 0).reshape(1, 2), f32(1, 2, 2, 2)), FL[3])


def test_scatter_refusals():
    rows = ints(2, 0).reshape(2, 1)
    rejects(node("ScatterND", f32(4, 5), rows, f32(2, 5)), FL[2], Reason.LEVEL, "GATHER")
    computed = node("ScatterND", f32(4, 5), i64(2, 1), f32(2, 5))
    rejects(computed, FL[8], Reason.CONSTANT, "x1 must be constant")
    adding = node("ScatterND", f32(4), ints(1).reshape(1, 1), f32(1), reduction="add")
    rejects(adding, FL[8], Reason.ATTRIBUTE, "reduction is 'add'")
    whole = node("ScatterND", f32(2, 3), np.zeros((1, 0), np.int64), f32(1, 2, 3))
    rejects(whole, FL[8], Reason.SHAPE, "has 0 indexes for rank 2")


SIZES = (3, 4, 5)


def index_of(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int32)


def test_indexes_at_the_limit_count_from_the_end() -> None:
    index = constant(index_of(-4, -1, 0, 3))
    assert constant_indices(emitting.node([None, index]), index, 4) == [0, 3, 0, 3]


@pytest.mark.parametrize("number", [-5, 4])
def test_indexes_just_past_it_are_refused(number: int) -> None:
    index = constant(index_of(0, number))
    with pytest.raises(Reject, match="w has an index outside a dimension of 4") as caught:
        constant_indices(emitting.node([None, index]), index, 4)
    assert caught.value.reason is Reason.CONSTANT


def drawn(axis: int) -> np.ndarray:
    """Indexes along one axis, fewer than the tensor has along the others."""
    shape = (2, 3, 2)
    size = SIZES[axis]
    return np.random.default_rng(axis).integers(-size, size, shape).astype(np.int32)


@pytest.mark.parametrize("axis", range(3))
@pytest.mark.parametrize("known", [False, True])
def test_positions_of_elements(axis: int, known: bool) -> None:
    index, x = drawn(axis), value("x", np.zeros(SIZES, np.float32))
    where = list(np.indices(index.shape))
    where[axis] = index % SIZES[axis]
    exact = np.ravel_multi_index(tuple(where), SIZES)
    if known:
        w = constant(index)
        made = emitting.emitted(element_positions, emitting.node([x, w]), x, w, axis)
        assert made.calls == []
        found = made.returned.constant.array
    else:
        found = returned(lambda n, i: element_positions(n, x, i, axis), index)
    np.testing.assert_array_equal(found, exact)


@pytest.mark.parametrize("known", [False, True])
def test_positions_of_rows(known: bool) -> None:
    """Rows of two indexes into the first two dimensions, each row in its own block of 100."""
    rows = np.array([[0, 0], [2, 3], [-1, -4], [-3, 1]], np.int32)
    offsets = 100 * np.arange(4, dtype=np.int32)
    exact = np.ravel_multi_index(tuple((rows % SIZES[:2]).T), SIZES[:2]) + offsets
    if known:
        w = constant(rows)
        found = emitting.emitted(
            row_positions, emitting.node([w]), w, SIZES[:2], offsets
        ).returned.constant.array
    else:
        found = returned(lambda n, i: row_positions(n, i, SIZES[:2], offsets), rows)
    np.testing.assert_array_equal(found.reshape(-1), exact)


@pytest.mark.parametrize("row", [(3, 0), (-4, 0), (0, 4), (0, -5)])
def test_constant_rows_past_the_limit_are_refused(row: tuple[int, int]) -> None:
    w = constant(np.array([row], np.int32))
    with pytest.raises(Reject, match=r"w has an index outside \[3, 4\]") as caught:
        emitting.emitted(row_positions, emitting.node([w]), w, SIZES[:2], np.zeros(1, np.int32))
    assert caught.value.reason is Reason.CONSTANT
