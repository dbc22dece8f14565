"""Operations that sum float32 numbers: operands with long sums, and what they are in float64.

Each case takes a `Draw` and yields operands with the expected outputs. `SUMS` has the cases by the
row of the operation, `long_products` those of products.
"""

from collections.abc import Iterator

import numpy as np

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.signature import OperationSpec
from tests.nnapi.host import test_detection_keypoint, test_detection_roi
from tests.nnapi.host.boxed import indexes
from tests.nnapi.host.draws import VALID, Cases, Draw, Example, laid_out, moved, windows
from tests.nnapi.host.long_products import PRODUCTS
from tests.nnapi.host.oracle import F32, integers, store


def softmax(draw: Draw, row: OperationSpec) -> Iterator[Example]:
    for axis, x in draw.along():
        power = x.real - x.real.max(axis=axis, keepdims=True)
        sums = np.exp(power).sum(axis=axis, keepdims=True)
        expected = power - np.log(sums) if row is spec.LOG_SOFTMAX else np.exp(power) / sums
        yield {"input": x, "beta": 1.0, "axis": axis}, [expected]


def l2_normalization(draw: Draw, row: OperationSpec) -> Iterator[Example]:
    for axis, x in draw.along():
        length = np.sqrt(np.square(x.real).sum(axis=axis, keepdims=True))
        yield {"input": x, "axis": axis}, [x.real / length]


def local_response(draw: Draw, row: OperationSpec) -> Iterator[Example]:
    for axis, x in draw.along():
        for radius in (3, draw.count // 2):
            starts = np.cumsum(np.square(np.moveaxis(x.real, axis, 0)), axis=0)
            starts = np.concatenate([np.zeros_like(starts[:1]), starts])
            at = np.arange(draw.count)
            last, first = np.minimum(at + radius + 1, draw.count), np.maximum(at - radius, 0)
            sums = np.moveaxis(starts[last] - starts[first], 0, axis)
            scalars = {"bias": 1.0, "alpha": 0.25, "beta": 0.5, "radius": radius, "axis": axis}
            yield {"input": x, **scalars}, [x.real / np.sqrt(1 + 0.25 * sums)]


def reduction(draw: Draw, row: OperationSpec) -> Iterator[Example]:
    keep: dict[str, object] = {"keep_dims": 1 if row is spec.MEAN else True}
    for axis, drawn in draw.along():
        x = drawn
        if row is spec.REDUCE_PROD:  # which stays within float32
            x = store(np.exp((drawn.real - draw.mean) / np.sqrt(draw.count)), F32)
        function = {spec.MEAN: np.mean, spec.REDUCE_SUM: np.sum, spec.REDUCE_PROD: np.prod}[row]
        yield {"input": x, "axes": integers(axis), **keep}, [function(x.real, axis, keepdims=True)]
        if axis < 2:
            both = function(x.real, (axis, axis + 1), keepdims=True)
            yield {"input": x, "axes": integers(axis, axis + 1), **keep}, [both]


def instance_normalization(draw: Draw, row: OperationSpec) -> Iterator[Example]:
    for nchw, image in draw.images(draw.side, draw.side, 3):
        x = image.real
        deviation = np.sqrt(x.var(axis=(1, 2), keepdims=True) + 1e-5)
        expected = (x - x.mean(axis=(1, 2), keepdims=True)) / deviation * 1.5 + 0.5
        scalars = {"gamma": 1.5, "beta": 0.5, "epsilon": 1e-5, "layout": nchw}
        yield {"input": moved(image, nchw), **scalars}, [laid_out(expected, nchw)]


def pool(draw: Draw, row: OperationSpec) -> Iterator[Example]:
    side = draw.side
    for nchw, image in draw.images(side + 1, side + 2, 2):
        expected = np.empty((1, 2, 3, 2))
        for at, seen in windows(image.real, side):
            power = seen**2 if row is spec.L2_POOL_2D else seen
            expected[(0, *at)] = power.mean(axis=(0, 1))
        expected = np.sqrt(expected) if row is spec.L2_POOL_2D else expected
        taps = {"filter_width": side, "filter_height": side, "layout": nchw}
        yield {"input": moved(image, nchw), **VALID, **taps}, [laid_out(expected, nchw)]
    (_, image), _ = draw.images(side, side, 2)
    whole = np.mean(image.real**2 if row is spec.L2_POOL_2D else image.real, (1, 2), keepdims=True)
    taps = {"filter_width": side, "filter_height": side, "layout": False}
    expected = np.sqrt(whole) if row is spec.L2_POOL_2D else whole
    yield {"input": image, **VALID, **taps}, [expected]


def heatmap(draw: Draw, row: OperationSpec) -> Iterator[Example]:
    for nchw, order in ((False, (0, 3, 1, 2)), (True, (0, 1, 2, 3))):
        shape = (1, 3, draw.side, draw.side) if nchw else (1, draw.side, draw.side, 3)
        boxes = store(np.array([[0.0, 0.0, 64.0, 128.0]]), F32)
        given = {"heatmap": draw.data(*shape), "boxes": boxes, "layout": nchw}
        yield given, list(test_detection_keypoint.results(given, order, 1e-5))


def roi_align(draw: Draw, row: OperationSpec) -> Iterator[Example]:
    """The whole image in two bins."""
    side = min(draw.side, 300)  # the definition goes point by point
    for nchw, image in draw.images(side, side, 2):
        given = {
            "input": moved(image, nchw),
            "rois": store(np.array([[0.0, 0.0, side, side]]), F32),
            "batch_indices": indexes([0]),
            **dict.fromkeys(("height_ratio", "width_ratio"), 1.0),
            **dict.fromkeys(("height_sampling_points", "width_sampling_points"), 0),
            **{"output_height": 1, "output_width": 2, "layout": nchw},
        }

        def of_region(image: np.ndarray, region: np.ndarray, size: tuple[int, int]) -> np.ndarray:
            return test_detection_roi.aligned(image, region, size, (0, 0))

        yield given, [test_detection_roi.regions(given, nchw, of_region)]


def resize(draw: Draw, row: OperationSpec) -> Iterator[Example]:
    """Sums of four; the places of pixels that are far from the first are what is at risk."""
    sizes, wanted = (draw.side, draw.side - 3), (draw.side - 5, draw.side + 7)
    for nchw, image in draw.images(*sizes, 2):
        for option in ("align_corners", "half_pixel_centers", ""):
            expected = image.real
            for axis in (1, 2):
                expected = between(expected, axis, wanted[axis - 1], option)
            options = {n: n == option for n in ("align_corners", "half_pixel_centers")}
            given = {"input": moved(image, nchw), "output_width": wanted[1], **options}
            given |= {"output_height": wanted[0], "layout": nchw}
            yield given, [laid_out(expected, nchw)]


def between(image: np.ndarray, axis: int, wanted: int, option: str) -> np.ndarray:
    """`wanted` pixels along an axis, each between its two neighbours."""
    size, places = image.shape[axis], np.arange(wanted)
    at = places * (size / wanted)
    if option == "align_corners":
        at = places * ((size - 1) / (wanted - 1))
    if option == "half_pixel_centers":
        at = np.clip((places + 0.5) * (size / wanted) - 0.5, 0, size - 1)
    return np.apply_along_axis(lambda line: np.interp(at, np.arange(size), line), axis, image)


SUMS: Cases = {
    **PRODUCTS,
    spec.AVERAGE_POOL_2D: pool,
    spec.HEATMAP_MAX_KEYPOINT: heatmap,
    spec.INSTANCE_NORMALIZATION: instance_normalization,
    spec.L2_NORMALIZATION: l2_normalization,
    spec.L2_POOL_2D: pool,
    spec.LOCAL_RESPONSE_NORMALIZATION: local_response,
    spec.LOG_SOFTMAX: softmax,
    spec.MEAN: reduction,
    spec.REDUCE_PROD: reduction,
    spec.REDUCE_SUM: reduction,
    spec.RESIZE_BILINEAR: resize,
    spec.ROI_ALIGN: roi_align,
    spec.SOFTMAX: softmax,
}
