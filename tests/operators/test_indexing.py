"""Elements that indexes name: exact, so every comparison is for equality."""

import numpy as np
import pytest

from ep_nnapi.nnapi.errors import Reason
from tests.oracle import (
    FL2,
    FL3,
    FL4,
    FL5,
    FL6,
    FL8,
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
    matches(node("Gather", given(*shape), index.astype(np.int64), axis=axis), FL8)


@pytest.mark.parametrize("target", [FL3, FL4, FL8], ids=["3", "4", "8"])
@pytest.mark.parametrize("of", [i32, i64])
@pytest.mark.parametrize("shape", [(3,), (2, 3), ()])
def test_gather_by_computed_indexes_matches(shape, of, target):
    matches(node("Gather", f32(4, 5), of(*shape, low=-4, high=3), axis=0), target)
    matches(node("Gather", f32(2, 4, 3), of(*shape, low=-4, high=3), axis=1), target)


def test_gather_from_a_table_of_long_integers_matches():
    table = np.arange(20, dtype=np.int64).reshape(4, 5)
    matches(node("Gather", table, i64(3, low=0, high=3)), FL4)
    table[0, 0] = 2**31
    rejects(node("Gather", table, i64(3)), FL8, Reason.CONSTANT, "INT32 does not hold")


def test_gather_levels():
    one = node("Gather", f32(4, 5), np.array(1), axis=1)
    assert emitted(one, FL2) == ["STRIDED_SLICE"]
    row = node("Gather", f32(4, 5), ints(1, 3))
    assert emitted(row, FL3) == ["GATHER"]
    rejects(row, FL2, Reason.LEVEL, "GATHER")
    counted = node("Gather", f32(4, 5), i32(3))
    assert emitted(counted, FL4) == ["LESS", "ADD", "SELECT", "GATHER"]
    assert emitted(counted, FL3) == ["LESS", "CAST", "ADD", "CAST", "SELECT", "GATHER"]


def test_gather_outside_is_refused():
    rejects(node("Gather", f32(4, 5), ints(1, 4)), FL8, Reason.CONSTANT, "outside a dimension of 4")
    rejects(node("Gather", f32(4, 5), np.array(-5)), FL8, Reason.CONSTANT, "outside")


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
    matches(node("GatherElements", f32(*shape), index, **by), FL3, oracle=on_cpu)
    matches(node("GatherElements", i32(*shape), index, **by), FL6, oracle=on_cpu)
    computed = node("GatherElements", f32(*shape), i64(*of, low=-size, high=size - 1), **by)
    matches(computed, FL6, oracle=on_cpu)  # the evaluator wants equal sizes but for the axis


def test_gather_elements_levels():
    computed = node("GatherElements", f32(4, 5), i32(2, 5, low=0, high=3))
    rejects(computed, FL3, Reason.LEVEL, "MUL")
    rejects(node("GatherElements", f32(4), ints(9)), FL8, Reason.CONSTANT, "outside")


@pytest.mark.parametrize("shape", [(3,), (2, 5, 1), (2, 6)])
def test_element_indices_of_another_shape_are_refused(shape: tuple[int, ...]):
    """Of the same rank, and beside the axis no larger."""
    accepts(node("GatherElements", f32(4, 5), i32(7, 5), axis=0), FL8)
    index = i32(*shape)
    rejects(node("GatherElements", f32(4, 5), index, axis=0), FL8, Reason.SHAPE, "does not fit")


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
    matches(node("GatherND", f32(*shape), index, batch_dims=batch), FL3)
    positive = i64(*of, low=0, high=size - 1)
    matches(node("GatherND", f32(*shape), positive, batch_dims=batch), FL6)


def test_gather_nd_levels():
    matrix = node("GatherND", f32(4, 5), i32(3, 2, low=0, high=3))
    accepts(matrix, FL4)
    deep = node("GatherND", f32(4, 5), i32(3, 2, 2, low=0, high=3))
    rejects(deep, FL5, Reason.LEVEL, "RESHAPE of TENSOR_INT32")
    rejects(node("GatherND", f32(4, 5), ints(9, 9)), FL8, Reason.CONSTANT, "outside [4, 5]")


@pytest.mark.parametrize(("time", "batch"), [(0, 1), (1, 0)])
@pytest.mark.parametrize("shape", [(4, 4), (4, 4, 3), (4, 4, 1, 2, 3)], ids=str)
def test_reverse_sequence_matches(shape, time, batch):
    lengths = np.array([4, 1, 3, 2], np.int64)
    matches(node("ReverseSequence", f32(*shape), lengths, time_axis=time, batch_axis=batch), FL3)


def test_reverse_sequence_by_computed_lengths_is_refused():
    case = node("ReverseSequence", f32(4, 4), i64(4))
    rejects(case, FL8, Reason.CONSTANT, "x1 must be constant")


@pytest.mark.parametrize("length", [-1, 5])
def test_lengths_beyond_the_sequence_are_refused(length):
    case = node("ReverseSequence", f32(4, 1), np.array([length]))
    rejects(case, FL8, Reason.CONSTANT, "x1 has a length outside 0 to 4")
