"""Resizing, beside ONNX Runtime's CPU provider: the evaluator computes positions in float64."""

import numpy as np
import pytest
from onnx import AttributeProto, TensorProto, helper

from ep_nnapi.nnapi.errors import Reason
from tests.cases import each
from tests.oracle import (
    FL,
    NCHW3,
    accepts,
    emitted,
    evaluated,
    f16,
    f32,
    i32,
    matches,
    node,
    on_cpu,
    rejects,
)

WEIGHTS = 1e-5  # weights of positions up to 30, which float32 holds within 2e-6
CROP = "tf_crop_and_resize"
TRANSFORMS = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"]
SCALES = {
    "twice": (2.0, 2.0),
    "thrice, 1.5": (3.0, 1.5),
    "0.6, 0.25": (0.6, 0.25),
    "2.3, 1": (2.3, 1.0),
    "1, 0.7": (1.0, 0.7),
}


LONG = {"transform": "coordinate_transformation_mode", "rounding": "nearest_mode"}


def resized(x, *, roi=None, scales=None, sizes=None, opset=19, **attributes):
    """`transform` and `rounding` are attributes with longer names."""
    given = (
        roi,
        None if scales is None else np.array(scales, np.float32),
        *(() if sizes is None else (np.array(sizes, np.int64),)),
    )
    named = {LONG.get(name, name): value for name, value in attributes.items()}
    return node("Resize", x, *given, opset=opset, **named)


@pytest.mark.parametrize("transform", TRANSFORMS)
@each("rounding", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
@each("scales", SCALES.values())
def test_nearest_matches(scales, rounding, transform):
    by = {"mode": "nearest", "rounding": rounding, "transform": transform}
    case = resized(f32(1, 2, 7, 8), scales=(1, 1, *scales), **by)
    matches(case, FL[8], oracle=on_cpu)
    matches(case, FL[3], oracle=on_cpu)


@pytest.mark.parametrize("transform", [*TRANSFORMS, "half_pixel_symmetric"])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
@each("scales", SCALES.values())
def test_interpolation_matches(scales, mode, transform):
    case = resized(f32(1, 2, 7, 8), scales=(1, 1, *scales), mode=mode, transform=transform)
    matches(case, FL[8], oracle=on_cpu, atol=WEIGHTS)
    matches(case, FL[3], oracle=on_cpu, atol=WEIGHTS)


def test_symmetric_centres_match_unless_rounding_errors_choose():
    by = {"mode": "nearest", "transform": "half_pixel_symmetric"}
    for size, scale in ((8, 0.25), (9, 0.35), (11, 0.7), (8, 2.3), (8, 2.0)):
        matches(resized(f32(1, 1, size), scales=(1, 1, scale), **by), FL[3], oracle=on_cpu)
    tie = resized(f32(1, 1, 7), scales=(1, 1, 0.6), **by)
    rejects(tie, FL[8], Reason.ATTRIBUTE, "between two elements")


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@each("size", [(14, 16), (5, 3), (1, 1), (7, 20)])
def test_sizes_match(size, mode, transform):
    case = resized(f32(2, 3, 7, 8), sizes=(2, 3, *size), mode=mode, transform=transform)
    for target in (FL[8], FL[3], NCHW3):
        matches(case, target, oracle=on_cpu, atol=WEIGHTS)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("opset", [10, 11, 13, 18, 19])
def test_every_opset_matches(opset, mode):
    scales = np.array([1, 1, 2, 3], np.float32)
    given = (scales,) if opset == 10 else (np.array([], np.float32), scales)
    case = node("Resize", f32(1, 2, 4, 5), *given, opset=opset, mode=mode)
    matches(case, FL[8], oracle=on_cpu, atol=WEIGHTS)


@pytest.mark.parametrize("scales", [(1, 1, 2, 2), (1, 1, 2, 1.5)], ids=["image", "taps"])
def test_infinite_pixels_on_the_border_match(scales):
    """There both neighbours are one pixel, which 0 times would make NaN."""
    x = np.arange(15, dtype=np.float32).reshape(1, 1, 3, 5)
    x[0, 0, 1, 1], x[0, 0, 1, 4], x[0, 0, 2, 2] = np.inf, np.inf, -np.inf
    case = node("Resize", f32(1, 1, 3, 5), np.array(scales, np.float32), opset=10, mode="linear")
    for device in ("nnapi-reference", "host-cpu"):
        matches(case, FL[8], oracle=on_cpu, atol=WEIGHTS, feeds={"x0": x}, on=device)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("scales", [(1, 1, 2, 2), (1, 1, 2.5, 0.5), (1, 1, 0.6, 0.6)])
def test_upsample_matches(scales, mode):
    x = f32(1, 2, 5, 6)
    before_centres = node("Resize", x, np.array(scales, np.float32), opset=10, mode=mode)
    matches(before_centres, FL[8], oracle=on_cpu, atol=WEIGHTS)
    if min(scales) >= 1:
        by_attribute = node("Upsample", x, opset=8, mode=mode, scales=[float(s) for s in scales])
        matches(by_attribute, FL[8], oracle=on_cpu, atol=WEIGHTS)
        by_input = node("Upsample", x, np.array(scales, np.float32), opset=9, mode=mode)
        matches(by_input, FL[8], oracle=on_cpu, atol=WEIGHTS)


@pytest.mark.parametrize(
    ("shape", "scales"),
    [
        ((5,), (2,)),
        ((3, 5), (2, 1)),
        ((3, 4, 5), (1, 1, 2)),
        ((2, 3, 4, 5), (1, 2, 2, 1)),
        ((2, 3, 4, 5), (2, 1, 1, 2)),
        ((2, 2, 3, 4, 5), (1, 1, 2, 2, 2)),
        ((2, 2, 3, 4, 5), (1, 1, 1, 0.5, 3)),
    ],
)
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_other_axes_and_ranks_match(mode, shape, scales):
    matches(resized(f32(*shape), scales=scales, mode=mode), FL[8], atol=WEIGHTS)


def test_an_empty_list_of_axes_is_all_of_them():
    case = resized(f32(1, 2, 6, 8), scales=[1.0, 1.0, 0.5, 2.0], mode="linear")
    (made,) = case.model.graph.node
    made.attribute.append(helper.make_attribute("axes", [], attr_type=AttributeProto.INTS))
    matches(case, FL[8], oracle=on_cpu, atol=WEIGHTS)


def test_axes_and_policies_match():
    x = f32(1, 2, 6, 8)
    for axes in ([2, 3], [3, 2], [-1]):
        case = resized(x, scales=[1.5, 2.0][: len(axes)], axes=axes, mode="linear")
        matches(case, FL[8], oracle=on_cpu, atol=WEIGHTS)
    for policy in ("not_larger", "not_smaller"):
        case = resized(x, sizes=[9, 9], axes=[2, 3], keep_aspect_ratio_policy=policy, mode="linear")
        matches(case, FL[8], oracle=on_cpu, atol=WEIGHTS)


@pytest.mark.parametrize("a", [-0.5, -0.75])
def test_cubic_without_the_outside_matches(a):
    by = {"mode": "cubic", "cubic_coeff_a": a, "exclude_outside": 1}
    case = resized(f32(1, 1, 5, 6), scales=(1, 1, 2.4, 0.7), **by)
    matches(case, FL[3], atol=WEIGHTS)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_a_crop_within_the_image_matches(mode):
    roi = np.array([0, 0, 0.2, 0.4, 1, 1, 0.7, 0.9], np.float32)
    case = resized(f32(1, 2, 7, 8), roi=roi, sizes=(1, 2, 4, 5), mode=mode, transform=CROP)
    matches(case, FL[3], oracle=on_cpu, atol=WEIGHTS)


def test_integers_and_halves_match():
    for transform in TRANSFORMS:
        by = {"scales": (1, 1, 2, 1.5), "transform": transform}
        matches(resized(i32(1, 2, 4, 6), mode="nearest", **by), FL[8], oracle=on_cpu)
        halves = resized(f16(1, 2, 4, 6), mode="linear", **by)
        wide = resized(f32(1, 2, 4, 6), mode="linear", **by)
        drawn = {"x0": halves.draw()["x0"].astype(np.float32)}
        reference = [on_cpu(wide.model, drawn)[0].astype(np.float16)]
        matches(halves, FL[8], reference=reference, atol=4e-3)  # two roundings of numbers below 2


def test_what_pytorch_and_tensorflow_export_is_one_operation():
    def by(target, mode, transform, scales=(1, 1, 2, 2), rounding="floor"):
        modes = {"mode": mode, "transform": transform, "rounding": rounding}
        return emitted(resized(f32(1, 2, 8, 8), scales=scales, **modes), target)

    nearest = ["RESIZE_NEAREST_NEIGHBOR"]
    assert by(FL[3], "nearest", "asymmetric") == nearest
    assert by(FL[3], "nearest", "half_pixel", rounding="round_prefer_floor") == nearest
    assert by(FL[1], "linear", "asymmetric") == ["RESIZE_BILINEAR"]
    assert by(FL[4], "linear", "half_pixel") == ["RESIZE_BILINEAR"]
    assert by(FL[4], "linear", "pytorch_half_pixel") == ["RESIZE_BILINEAR"]
    assert by(FL[4], "linear", "align_corners") == ["RESIZE_BILINEAR"]
    assert by(FL[4], "nearest", "half_pixel", scales=(1, 1, 0.6, 0.6)) == ["GATHER"] * 2
    assert by(FL[3], "linear", "half_pixel").count("GATHER") == 4
    assert by(FL[3], "linear", "asymmetric", scales=(1, 1, 0.5, 0.5)) == ["RESIZE_BILINEAR"]


def test_channels_last_is_one_operation():
    case = resized(f32(1, 8, 8, 3), scales=(1, 2, 2, 1), mode="linear")
    assert emitted(case, FL[4]) == ["RESIZE_BILINEAR"]


def test_levels():
    nearest = resized(f32(1, 2, 4, 4), scales=(1, 1, 2, 2), mode="nearest")
    accepts(nearest, FL[3])
    rejects(nearest, FL[2], Reason.LEVEL, "GATHER")
    centres = resized(f32(1, 2, 4, 4), scales=(1, 1, 2, 2), mode="linear")
    accepts(centres, FL[3])
    rejects(centres, FL[2], Reason.LEVEL, "GATHER")


def test_what_is_not_computed_is_refused():
    x, scales = f32(1, 2, 6, 6), (1, 1, 0.5, 0.5)
    smooth = resized(x, scales=scales, mode="linear", antialias=1)
    rejects(smooth, FL[8], Reason.ATTRIBUTE, "antialias")
    accepts(resized(x, scales=scales, mode="nearest", antialias=1), FL[8])
    roi = np.array([0, 0, -0.2, 0, 1, 1, 1, 1], np.float32)
    case = resized(x, roi=roi, sizes=(1, 2, 3, 3), mode="linear", transform=CROP)
    rejects(case, FL[8], Reason.ATTRIBUTE, "outside the image")


@pytest.mark.parametrize("name", ["mode", "coordinate_transformation_mode", "nearest_mode"])
def test_unknown_names_are_refused(name: str):
    case = resized(f32(1, 2, 6, 6), scales=(1, 1, 2, 2), **{"mode": "nearest", name: "odd"})
    rejects(case, FL[8], Reason.ATTRIBUTE, f"{name} is 'odd'; use ")


def test_sizes_that_stay_are_copied():
    """As ONNX Runtime does, where ONNX would interpolate."""
    for mode in ("nearest", "linear", "cubic"):
        case = resized(f32(1, 2, 6, 7), scales=(1, 1, 1.1, 1.1), mode=mode)
        matches(case, FL[8], oracle=on_cpu)
        assert emitted(case, FL[1]) == ["RESHAPE"]
    roi = np.array([0, 0, 0.2, 0, 1, 1, 1, 1], np.float32)
    case = resized(f32(1, 2, 6, 6), roi=roi, sizes=(1, 2, 6, 6), transform=CROP)
    rejects(case, FL[8], Reason.ATTRIBUTE, "use Slice")


@pytest.mark.parametrize("rounding", ["round_prefer_floor", "round_prefer_ceil"])
@pytest.mark.parametrize("transform", ["asymmetric", "half_pixel"])
@pytest.mark.parametrize(("size", "scale"), [(7, 8 / 7), (17, 0.3), (17, 1.3), (100, 0.09)])
def test_ties_that_float32_misses_match(size, scale, transform, rounding):
    by = {"mode": "nearest", "rounding": rounding, "transform": transform}
    matches(resized(f32(1, 1, size), scales=(1, 1, scale), **by), FL[3], oracle=on_cpu)


def test_computed_scales_are_refused():
    output = helper.make_tensor_type_proto(TensorProto.FLOAT, [1, 2, 8, 8])
    case = node("Resize", f32(1, 2, 4, 4), None, f32(4), opset=19, output_types=[output])
    rejects(case, FL[8], Reason.CONSTANT, "must be constant")


def test_positions_agree_with_the_evaluator():
    """Without ties, float32 positions are as good as float64 ones."""
    case = resized(f32(1, 2, 7, 8), scales=(1, 1, 2.3, 0.7), mode="linear")
    matches(case, FL[8], oracle=evaluated, atol=WEIGHTS)


def test_a_roi_without_two_numbers_for_each_axis_is_refused():
    roi = np.zeros(2, np.float32)
    case = resized(f32(1, 1, 4, 4), roi=roi, scales=(), sizes=(1, 1, 2, 2), transform=CROP)
    rejects(case, FL[8], Reason.SHAPE, "roi has 2 numbers for 4 axes")
