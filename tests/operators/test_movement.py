"""Tensors in another shape or order: any type, any rank, and what each level lacks."""

import numpy as np
import pytest
from onnx import TensorProto, helper

from ep_nnapi.nnapi.errors import Reason
from tests.oracle import (
    FL,
    NCHW3,
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
    rejects,
)

SHAPES = {
    "flat": ((2, 3, 4), (24,)),
    "kept and rest": ((2, 3, 4), (0, -1)),
    "rank 5": ((2, 3, 4), (2, 1, 3, 2, 2)),
    "from rank 6": ((2, 3, 1, 2, 1, 2), (4, -1)),
    "scalar": ((1, 1), ()),
    "from scalar": ((), (1, 1)),
    "same": ((2, 3), (2, 3)),
}


@pytest.mark.parametrize("given", [f32, f16, i32, boolean])
@pytest.mark.parametrize(("shape", "to"), SHAPES.values(), ids=SHAPES)
def test_reshape_matches(shape, to, given):
    matches(node("Reshape", given(*shape), ints(*to)), FL[8])


@pytest.mark.parametrize("axis", [0, 1, 2, 3, -1])
def test_flatten_matches(axis):
    matches(node("Flatten", f32(2, 3, 4), axis=axis), FL[1])
    matches(node("Flatten", f32(2, 3, 1, 2, 2), axis=axis), FL[1])


@pytest.mark.parametrize("opset", [11, 13])
def test_squeeze_and_unsqueeze_match(opset):
    for axes in ([0], [0, 2], [-1]):
        given = {"axes": axes} if opset < 13 else {}
        more = [] if opset < 13 else [ints(*axes)]
        matches(node("Squeeze", f32(1, 2, 1, 1), *more, opset=opset, **given), FL[1])
        matches(node("Unsqueeze", f32(2, 3), *more, opset=opset, **given), FL[1])
    matches(node("Squeeze", f32(1, 2, 1), opset=opset), FL[1])


def test_unsqueeze_of_integers_and_booleans():
    matches(node("Unsqueeze", i32(2, 3), ints(0, 2)), FL[3])
    assert emitted(node("Unsqueeze", i32(2, 3), ints(0, 2)), FL[5]) == ["EXPAND_DIMS"] * 2
    assert emitted(node("Unsqueeze", i32(2, 3), ints(0, 2)), FL[6]) == ["RESHAPE"]
    matches(node("Unsqueeze", boolean(2, 3), ints(1)), FL[3])


@pytest.mark.parametrize(
    ("given", "level", "operation"),
    [
        (f32(2, 3), FL[1], "RESHAPE"),
        (f32(1, 2, 1, 2, 3), FL[1], "RESHAPE"),
        (f16(2, 3), FL[3], "RESHAPE"),
        (i32(2, 3), FL[3], "CAST"),
        (i32(2, 3), FL[6], "RESHAPE"),
        (boolean(2, 3), FL[3], "LOGICAL_OR"),
        (f32(), FL[1], "RESHAPE"),
    ],
    ids=str,
)
def test_identity_matches(given, level, operation):
    assert emitted(node("Identity", given), level) == [operation]
    matches(node("Identity", given), level)


def test_integers_lose_dimensions_from_level_6_on():
    case = node("Reshape", i32(2, 3), ints(6))
    accepts(case, FL[6])
    rejects(case, FL[5], Reason.LEVEL, "RESHAPE of TENSOR_INT32 needs feature level 6")
    rejects(node("Identity", i32(3)), FL[2], Reason.LEVEL, "CAST")


def test_long_integers_are_refused():
    rejects(node("Reshape", i64(2, 3), ints(6)), FL[8], Reason.DTYPE, "x0 is INT64")


@pytest.mark.parametrize("opset", [7, 10, 12, 13, 22])
def test_dropout_matches(opset):
    matches(node("Dropout", f32(2, 3), opset=opset), FL[1])


def test_dropout_in_training_is_refused():
    ratio, yes, no = np.array(0.5, np.float32), np.array(True), np.array(False)
    matches(node("Dropout", f32(2, 3), ratio, no), FL[2])
    rejects(
        node("Dropout", f32(2, 3), ratio, yes), FL[8], Reason.ATTRIBUTE, "training_mode is true"
    )
    rejects(
        node("Dropout", f32(2, 3), ratio, boolean()), FL[8], Reason.CONSTANT, "must be constant"
    )
    rejects(node("Dropout", f32(2, 3), outputs=2), FL[4], Reason.ATTRIBUTE, "mask is used")


def test_what_takes_more_bytes_than_nnapi_counts_is_refused():
    accepts(node("Identity", f32(32768, 32767)), FL[8])
    rejects(node("Identity", f32(32768, 32768)), FL[8], Reason.SIZE, "x0 has 4294967296 bytes")


PERMS = [
    ((2, 3), (1, 0)),
    ((2, 3, 4), (2, 0, 1)),
    ((2, 3, 4, 5), (0, 2, 3, 1)),
    ((2, 3, 4, 5), (3, 2, 1, 0)),
    ((2, 2, 3, 4, 5), (0, 2, 1, 3, 4)),
    ((2, 3, 4, 1, 5), (4, 3, 2, 1, 0)),
    ((1, 2, 3, 2, 3, 2), (0, 1, 4, 2, 5, 3)),
    ((1, 2, 3, 2, 3, 2), (0, 1, 3, 5, 2, 4)),
    ((2, 3, 2, 3, 2, 3), (5, 4, 3, 2, 1, 0)),
    ((2, 1, 1, 1, 3, 1), (1, 0, 2, 3, 4, 5)),
    ((3,), (0,)),
]


@pytest.mark.parametrize("given", [f32, f16, i32, boolean])
@pytest.mark.parametrize(("shape", "perm"), PERMS, ids=str)
def test_transpose_matches(shape, perm, given):
    matches(node("Transpose", given(*shape), perm=perm), FL[8])


def test_transpose_reverses_by_default():
    matches(node("Transpose", f32(2, 3, 4)), FL[2])
    matches(node("Transpose", f32(2, 3, 2, 3, 2)), FL[2])
    matches(node("Transpose", f32()), FL[2])


def test_transpose_levels():
    inner = node("Transpose", f32(2, 2, 3, 4, 5), perm=(0, 2, 1, 3, 4))
    accepts(inner, FL[2])
    rejects(inner, FL[1], Reason.LEVEL, "TRANSPOSE")
    integers = node("Transpose", i32(2, 3), perm=(1, 0))
    accepts(integers, FL[6])
    rejects(integers, FL[5], Reason.LEVEL, "RESHAPE of TENSOR_INT32")


def test_transpose_beyond_rank_4_swaps_as_little_as_it_can():
    window = node("Transpose", f32(1, 2, 3, 2, 3, 4), perm=(0, 1, 3, 2, 4, 5))
    assert emitted(window, FL[2]) == ["RESHAPE", "TRANSPOSE", "RESHAPE"]
    pixels = node("Transpose", f32(2, 2, 2, 3, 3), perm=(0, 3, 1, 4, 2))
    assert emitted(pixels, FL[2]).count("TRANSPOSE") == 2


CONCATS = [
    ([(2, 3), (2, 4)], 1),
    ([(2, 3), (1, 3)], 0),
    ([(2, 3, 4), (2, 1, 4), (2, 2, 4)], -2),
    ([(1, 2, 2, 2, 2), (1, 2, 2, 3, 2)], 3),
    ([(3,), (2,)], 0),
    ([(2, 3)], 1),
]


@pytest.mark.parametrize("given", [f32, f16, boolean])
@pytest.mark.parametrize(("shapes", "axis"), CONCATS, ids=str)
def test_concat_matches(shapes, axis, given):
    matches(node("Concat", *(given(*s) for s in shapes), axis=axis), FL[8])


def test_concat_with_constants_and_repeats_matches():
    constant = np.ones((2, 3), np.float32)
    matches(node("Concat", constant, f32(2, 3), constant, axis=0), FL[1])


def test_concat_of_integers_takes_equal_shapes():
    equal = node("Concat", i32(2, 3), i32(2, 3), i32(2, 3), axis=1)
    matches(equal, FL[6])
    rejects(equal, FL[5], Reason.LEVEL, "needs feature level 6")
    unequal = node("Concat", i32(2, 3), i32(2, 4), axis=1)
    rejects(unequal, FL[8], Reason.DTYPE, "CONCATENATION.inputs takes")


def test_concat_whose_size_is_only_declared_is_rejected_if_it_is_another():
    """Before opset 11, shape inference takes no negative axis."""
    declared = [[helper.make_tensor_type_proto(TensorProto.FLOAT, (3, n, 1))] for n in (14, 7)]
    parts = f32(3, 7, 1), f32(3, 7, 1)
    right, wrong = (
        node("Concat", *parts, axis=-2, opset=10, output_types=types) for types in declared
    )
    accepts(right, FL[8])
    rejects(wrong, FL[8], Reason.SHAPE, "y0 has shape [3, 7, 1]; the parts along axis 1 have")


SPLITS = {
    "equal": ((6, 4), 0, (2, 2, 2), ["SPLIT"]),
    "unequal": ((2, 6), 1, (1, 2, 3), ["SLICE"] * 3),
    "whole": ((2, 6), 1, (6,), ["RESHAPE"]),
    "rank 5": ((1, 2, 6, 2, 2), 2, (3, 3), ["RESHAPE", "SLICE", "RESHAPE"] * 2),
}


@pytest.mark.parametrize(("shape", "axis", "parts", "operations"), SPLITS.values(), ids=SPLITS)
@pytest.mark.parametrize("opset", [2, 11, 13, 18])
def test_split_matches(shape, axis, parts, operations, opset):
    count = len(parts)
    if opset < 13:
        case = node("Split", f32(*shape), axis=axis, split=parts, outputs=count, opset=opset)
    else:
        case = node("Split", f32(*shape), ints(*parts), axis=axis, outputs=count, opset=opset)
    assert emitted(case, FL[3]) == operations
    matches(case, FL[3])
    matches(case, FL[2])


@pytest.mark.parametrize("given", [f32, f16, i32, boolean])
def test_split_of_any_type_matches(given):
    matches(node("Split", given(2, 6), ints(1, 5), axis=1, outputs=2), FL[8])
    matches(node("Split", given(2, 6), axis=1, outputs=3, opset=18, num_outputs=3), FL[8])


def test_split_18_with_a_smaller_last_part():
    matches(node("Split", f32(7, 2), outputs=3, opset=18, num_outputs=3), FL[8])


def test_split_levels():
    case = node("Split", f32(6, 4), ints(3, 3), outputs=2)
    accepts(case, FL[2])
    rejects(case, FL[1], Reason.LEVEL, "STRIDED_SLICE")


LAST = 2**63 - 1
SLICES = {
    "front": ((5, 4), [0], [3], [0], [1]),
    "negative": ((5, 4), [-3], [-1], [1], [1]),
    "to the end": ((5, 4), [1, 1], [LAST, LAST], None, None),
    "stepped": ((7, 5), [1, 0], [6, 5], [0, 1], [2, 3]),
    "reversed": ((5, 4), [-1], [-LAST], [0], [-1]),
    "reversed part": ((9, 4), [7], [1], [0], [-2]),
    "all": ((5, 4), [0], [9], [0], [1]),
    "rank 4": ((2, 3, 4, 5), [1, 1], [3, 4], [1, -1], [1, 2]),
    "rank 5": ((2, 3, 4, 2, 2), [1], [3], [2], [1]),
    "rank 5, three axes": ((3, 2, 4, 2, 4), [1, 0, 3], [3, 3, 0], [0, 2, 4], [1, 2, -1]),
    "rank 6": ((3, 2, 3, 2, 3, 2), [1, 1, 1], [3, 3, 3], [0, 2, 4], None),
}


@pytest.mark.parametrize(("shape", "starts", "ends", "axes", "steps"), SLICES.values(), ids=SLICES)
@pytest.mark.parametrize("given", [f32, i32, boolean, f16])
def test_slice_matches(shape, starts, ends, axes, steps, given):
    inputs = [ints(*v) if v is not None else None for v in (starts, ends, axes, steps)]
    while inputs[-1] is None:
        inputs.pop()
    case = node("Slice", given(*shape), *inputs)
    matches(case, FL[8])
    if given is f32:
        matches(case, FL[2])


def test_slice_1_matches():
    case = node("Slice", f32(5, 4), starts=[-3, 0], ends=[-1, 9], axes=[0, 1], opset=9)
    reference = [case.draw()["x0"][-3:-1]]
    matches(case, FL[2], reference=reference)


def test_slice_limits():
    case = node("Slice", f32(5, 4), ints(1), ints(3))
    assert emitted(case, FL[3]) == ["SLICE"]
    assert emitted(case, FL[2]) == ["STRIDED_SLICE"]
    rejects(case, FL[1], Reason.LEVEL, "STRIDED_SLICE")
    (of_no_elements,) = accepts(node("Slice", f32(5), ints(3), ints(3)), FL[8])
    assert not of_no_elements.calls


def test_slice_by_a_computed_bound_is_refused():
    case = node("Slice", f32(5, 4), i64(1), ints(3))
    rejects(case, FL[8], Reason.CONSTANT, "x1 must be constant")


EXPANDS = [
    ((1, 3), (2, 3)),
    ((3, 1), (2, 3, 4)),
    ((), (2, 3)),
    ((4,), (2, 3, 4)),
    ((2, 3), (2, 3)),
    ((1, 2, 1, 2, 1), (3, 2, 3, 2, 3)),
    ((2, 1), (2, 2, 2, 2, 2)),
]


@pytest.mark.parametrize("given", [f32, f16, i32, boolean])
@pytest.mark.parametrize(("shape", "to"), EXPANDS, ids=str)
def test_expand_matches(shape, to, given):
    matches(node("Expand", given(*shape), ints(*to)), FL[8])


TILES = [
    ((2, 3), (2, 1)),
    ((2, 3), (1, 3)),
    ((2, 1, 3), (2, 2, 2)),
    ((2, 1, 2, 1, 2), (2, 1, 3, 2, 1)),
    ((3,), (1,)),
]


@pytest.mark.parametrize("given", [f32, f16, i32, boolean])
@pytest.mark.parametrize(("shape", "repeats"), TILES, ids=str)
def test_tile_matches(shape, repeats, given):
    matches(node("Tile", given(*shape), ints(*repeats)), FL[8])


def test_tile_and_expand_levels():
    for case in (node("Tile", f32(2, 3), ints(2, 2)), node("Expand", f32(1, 3), ints(2, 3))):
        accepts(case, FL[3])
        rejects(case, FL[2], Reason.LEVEL, "TILE")
    booleans = node("Expand", boolean(2, 1), ints(2, 3))
    assert emitted(booleans, FL[3]) == ["LOGICAL_AND"]
    integers = node("Expand", i32(3), ints(2, 3))
    assert emitted(integers, FL[4]) == ["EXPAND_DIMS", "TILE"]


@pytest.mark.parametrize("target", [FL[1], FL[3], NCHW3, FL[8]], ids=["1", "3", "NCHW", "8"])
@pytest.mark.parametrize("channels", [4, 12])
def test_depth_to_space_matches(channels, target):
    x = f32(2, channels, 2, 3)
    matches(node("DepthToSpace", x, blocksize=2), target)
    matches(node("DepthToSpace", x, blocksize=2, opset=1), target)
    if target is not FL[1] or channels == 4:
        matches(node("DepthToSpace", x, blocksize=2, mode="CRD"), target)
    matches(node("SpaceToDepth", f32(2, 3, 4, 6), blocksize=2), target)


def test_depth_to_space_of_one_channel_needs_no_order():
    one = node("DepthToSpace", f32(1, 9, 2, 3), blocksize=3, mode="CRD")
    assert emitted(one, FL[1]) == ["DEPTH_TO_SPACE"]
    several = node("DepthToSpace", f32(1, 18, 2, 3), blocksize=3, mode="CRD")
    assert emitted(several, FL[3]) == ["GATHER", "DEPTH_TO_SPACE"]
    matches(several, FL[2])
    rejects(several, FL[1], Reason.LEVEL, "TRANSPOSE")


def test_slice_that_is_declared_larger_is_refused():
    """ONNX's inference says nothing of ends that count from before the first element."""
    declared = helper.make_tensor_type_proto(TensorProto.FLOAT, (1,))
    attributes = {"starts": [-1], "ends": [-255], "axes": [0], "opset": 9}
    case = node("Slice", f32(1), output_types=[declared], **attributes)
    rejects(case, FL[8], Reason.SHAPE, "declared as [1]; the slice has shape [0]")


def test_parts_that_are_not_the_whole_are_refused():
    """ONNX's inference does not compare `num_outputs` with the outputs."""
    case = node("Split", f32(6), outputs=2, axis=0, num_outputs=3)
    rejects(case, FL[8], Reason.SHAPE, "the parts have sizes [2, 2] of 6")
