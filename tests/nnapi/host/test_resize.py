"""Images of other sizes against samples taken pixel by pixel."""

import numpy as np
import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.errors import RuntimeFailure
from ep_nnapi.nnapi.model import Operand
from tests.nnapi.host.oracle import F32, FLOATS, matches, run, store
from tests.nnapi.host.test_slicing import LAYOUTS, as_nhwc, drawn, image


def sampled(x, size, mode, aligned, centers):
    """Bilinear or nearest samples, pixel by pixel."""
    out = np.zeros((x.shape[0], *size, x.shape[3]))
    places = [positions(x.shape[1 + i], size[i], aligned, centers) for i in (0, 1)]
    for y, sy in enumerate(places[0]):
        for x_, sx in enumerate(places[1]):
            out[:, y, x_] = mode(x, sy, sx)
    return out


def positions(size, wanted, aligned, centers):
    if aligned and wanted > 1:
        return np.arange(wanted) * (size - 1) / (wanted - 1)
    return (np.arange(wanted) + (0.5 if centers else 0)) * size / wanted


def nearest(aligned):
    def mode(x, sy, sx):
        at = [int(np.floor(s + 0.5)) if aligned else int(np.floor(s)) for s in (sy, sx)]
        return x[:, min(at[0], x.shape[1] - 1), min(at[1], x.shape[2] - 1)]

    return mode


def bilinear(centers):
    def mode(x, sy, sx):
        total = 0
        for i, wy in parts(sy - (0.5 if centers else 0), x.shape[1]):
            for j, wx in parts(sx - (0.5 if centers else 0), x.shape[2]):
                total = total + wy * wx * x[:, i, j]
        return total

    return mode


def parts(at, size):
    at = min(max(at, 0), size - 1)
    low = int(np.floor(at))
    return (low, 1 - (at - low)), (min(low + 1, size - 1), at - low)


SIZES = {"larger": (7, 9), "smaller": (2, 3), "one": (1, 1), "same": (4, 5)}


@LAYOUTS
@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize(
    ("aligned", "centers"),
    [(False, False), (True, False), (False, True)],
    ids=["corner", "aligned", "centers"],
)
def test_resize_matches(nchw, size, aligned, centers):
    options = {"layout": nchw, "align_corners": aligned, "half_pixel_centers": centers}
    given = {"input": image(nchw, 2, 4, 5, 3), "output_height": size[0], "output_width": size[1]}
    for row, mode, same in (
        (spec.RESIZE_BILINEAR, bilinear(centers), False),
        (spec.RESIZE_NEAREST_NEIGHBOR, nearest(aligned), True),
    ):
        formula = as_nhwc(lambda x, m=mode: sampled(x, size, m, aligned, centers), nchw)
        # float32 positions: 1e-7 of a pixel times differences of up to 200
        matches(row, formula, same_scale=same, atol=1e-5, **given, **options)


def test_resize_by_scale_rounds_down():
    matches(
        spec.RESIZE_BILINEAR,
        lambda x: sampled(x, (7, 4), bilinear(False), False, False),
        types=FLOATS,
        atol=1e-5,
        input=drawn(1, 4, 5, 3),
        width_scale=0.875,
        height_scale=1.75,
    )


def test_resize_refuses_aligned_corners_with_centers():
    given = {"input": store(drawn(1, 2, 2, 1), F32), "output_width": 3, "output_height": 3}
    options = {"layout": False, "align_corners": True, "half_pixel_centers": True}
    with pytest.raises(RuntimeFailure, match="half_pixel_centers and align_corners"):
        run(spec.RESIZE_BILINEAR, given | options, Operand(F32))
