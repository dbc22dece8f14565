"""Pools against their definition, window by window, in float64."""

import numpy as np
import pytest

from ep_nnapi.nnapi import spec
from tests.nnapi.host.oracle import DATA, FLOATS, matches
from tests.nnapi.host.test_convolution import Geometry

SEED = 20260803
GEOMETRIES = {
    "2x2 stride 2": {"taps": (2, 2), "strides": (2, 2)},
    "3x3 same": {"taps": (3, 3), "same": True},
    "3x2 same stride 2": {"taps": (3, 2), "same": True, "strides": (2, 2)},
    "uneven pads": {"taps": (3, 4), "pads": (2, 1, 0, 2), "strides": (1, 3)},
    "whole image": {"taps": (7, 8)},
    "wider than the image, same": {"taps": (9, 11), "same": True},
}


def drawn(*shape):
    return np.random.default_rng([SEED, *shape]).uniform(-3, 5, shape)


def pooled(reduce, geometry):
    """Reduces only what of each window is within the image."""

    def formula(image):
        out = geometry.empty(image, image.shape[3])
        within = dict(geometry.windows(np.ones_like(image)))
        for at, seen in geometry.windows(image):
            inside = within[at][0, :, :, 0] == 1
            out[:, at[0], at[1]] = reduce(seen[:, inside])
        return out

    return formula


POOLS = {
    "MAX": (spec.MAX_POOL_2D, lambda seen: seen.max(axis=1), DATA),
    "AVERAGE": (spec.AVERAGE_POOL_2D, lambda seen: seen.mean(axis=1), DATA),
    "L2": (spec.L2_POOL_2D, lambda seen: np.sqrt((seen**2).mean(axis=1)), FLOATS),
}


def operands(geometry, nchw=False):
    taps = {"filter_width": geometry.taps[1], "filter_height": geometry.taps[0]}
    return geometry.operands(nchw) | taps


@pytest.mark.parametrize("geometry", GEOMETRIES.values(), ids=GEOMETRIES)
@pytest.mark.parametrize(("row", "reduce", "types"), POOLS.values(), ids=POOLS)
def test_pool_matches(row, reduce, types, geometry):
    geometry = Geometry(**geometry)
    matches(
        row,
        pooled(reduce, geometry),
        types=types,
        same_scale=True,
        input=drawn(2, 7, 8, 3),
        activation=0,
        **operands(geometry),
    )


@pytest.mark.parametrize(("row", "reduce", "types"), POOLS.values(), ids=POOLS)
def test_pool_nchw_activated_matches(row, reduce, types):
    geometry = Geometry((2, 3), same=True, strides=(2, 1))
    formula = pooled(reduce, geometry)
    matches(
        row,
        lambda x: np.clip(formula(x.transpose(0, 2, 3, 1)), 0, 6).transpose(0, 3, 1, 2),
        types=types,
        same_scale=True,
        input=drawn(2, 3, 5, 6),
        activation=3,
        **operands(geometry, nchw=True),
    )
