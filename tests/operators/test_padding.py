"""Elements around a tensor: constant ones, or its own mirrored, repeated and wrapped."""

import numpy as np
import pytest

from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.nnapi.immutable import replace
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

PADS = {
    "around": ((3, 3), (1, 0, 2, 1)),
    "image": ((1, 2, 3, 4), (0, 0, 1, 1, 0, 0, 1, 2)),
    "cut": ((4, 5), (-1, 1, 0, -2)),
    "rank 5": ((1, 2, 3, 2, 3), (0, 0, 1, 0, 0, 0, 0, 1, 0, 0)),
    "none": ((2, 3), (0, 0, 0, 0)),
}


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
@pytest.mark.parametrize(("shape", "pads"), PADS.values(), ids=PADS)
@pytest.mark.parametrize("target", [FL[3], FL[8]], ids=["3", "8"])
def test_pad_matches(shape, pads, mode, target):
    case = node("Pad", f32(*shape), ints(*pads), mode=mode)
    if mode != "constant" and min(pads) < 0:
        accepts(case, target)  # the evaluator and the CPU provider disagree on these
    else:
        matches(case, target, oracle=on_cpu)


@pytest.mark.parametrize(("shape", "pads"), PADS.values(), ids=PADS)
def test_pad_with_a_number_matches(shape, pads):
    number = np.array(1.5, np.float32)
    matches(node("Pad", f32(*shape), ints(*pads), number), FL[3], oracle=on_cpu)
    if min(pads) < 0:
        return  # the evaluator cuts nothing
    matches(node("Pad", f16(*shape), ints(*pads), number.astype(np.float16)), FL[3])
    matches(node("Pad", boolean(*shape), ints(*pads), np.array(True)), FL[3])


def test_pad_2_matches():
    case = node("Pad", f32(2, 3), pads=[1, 0, 2, 1], value=2.0, opset=2)
    x = case.draw()["x0"]
    matches(case, FL[3], reference=[np.pad(x, [(1, 2), (0, 1)], constant_values=2)])


def test_pad_along_some_axes_matches():
    axes = np.array([-1, 0], np.int64)
    matches(node("Pad", f32(2, 3, 4), ints(1, 2, 0, 1), None, axes, opset=18), FL[2])


@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
def test_a_scalar_has_nothing_to_pad(mode):
    case = node("Pad", f32(), ints(), mode=mode)  # the CPU provider refuses to run it
    matches(case, FL[8], reference=[case.draw()["x0"]])


def test_pad_levels():
    zeros = node("Pad", f32(2, 3), ints(1, 0, 2, 1))
    assert emitted(zeros, FL[3]) == emitted(zeros, replace(FL[2], profiled=True)) == ["PAD"]
    rejects(zeros, FL[1], Reason.LEVEL, "PAD")
    ones = node("Pad", f32(2, 3), ints(1, 0, 2, 1), np.array(1, np.float32))
    assert emitted(ones, FL[3]) == ["PAD_V2"]
    rejects(ones, FL[2], Reason.LEVEL, "PAD_V2")
    mirrored = node("Pad", f32(2, 3), ints(1, 0, 1, 1), mode="reflect")
    assert emitted(mirrored, FL[8]) == ["MIRROR_PAD"]
    assert emitted(mirrored, FL[3]) == ["GATHER", "GATHER"]
    rejects(mirrored, FL[2], Reason.LEVEL, "GATHER")


@pytest.mark.parametrize("rank", range(1, 6))
def test_level_2_pads_tensors_of_rank_4(rank):
    """Android 9 accepts the others, and refuses to run them."""
    case = node("Pad", f32(*range(2, 2 + rank)), ints(1, *[0] * (rank - 1), 2, *[0] * (rank - 1)))
    names = ["PAD"] if rank == 4 else ["RESHAPE", "PAD", "RESHAPE"]
    assert emitted(case, FL[2]) == names
    matches(case, FL[2])


def test_pad_refusals():
    rejects(node("Pad", f32(2, 3), i64(4)), FL[8], Reason.CONSTANT, "x1 must be constant")
    wide = node("Pad", f32(2, 3, 2, 3, 2), ints(1, 0, 1, 0, 1, 0, 0, 0, 0, 0))
    rejects(wide, FL[8], Reason.RANK, "folds to 5 axes")
    rejects(node("Pad", i32(2, 3), ints(1, 0, 1, 0)), FL[8], Reason.DTYPE, "TENSOR_INT32")


def test_pads_of_another_number_than_two_for_each_axis_are_refused():
    """ONNX's inference checks the number of pads that are a list."""
    case = node("Pad", f32(), np.array(9))
    rejects(case, FL[8], Reason.SHAPE, "1 pads are given for 0 axes")


def test_no_pad_value_is_refused():
    empty = np.zeros(0, np.float32)
    case = node("Pad", f32(2, 3), ints(1, 0, 1, 0), empty)
    rejects(case, FL[8], Reason.SHAPE, "has shape [0]; it must be one number")


@pytest.mark.parametrize("mode", ["constant", "edge"])
def test_pads_that_remove_all_elements_are_refused(mode):
    case = node("Pad", f32(2, 3), ints(-2, 0, 3, 0), mode=mode)
    rejects(case, FL[8], Reason.SHAPE, "pads remove all elements of x0")
