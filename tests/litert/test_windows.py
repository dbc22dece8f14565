"""Padding of windows: SAME, VALID, or an operator that pads."""

from __future__ import annotations

import pytest

from ep_nnapi.litert.flat_graph import FlatGraph
from ep_nnapi.litert.operation import FlatOp
from ep_nnapi.litert.scope import TensorScope
from ep_nnapi.litert.windows import SAME, VALID, padded_image, scheme
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.host.named_operation import named_operations
from ep_nnapi.nnapi.model import Operand
from ep_nnapi.nnapi.shapes.window import WindowGeometry
from ep_nnapi.nnapi.spec import F32
from ep_nnapi.ort_devices.convert import FEATURE_LEVEL
from tests.ort_devices.networks import Network

TAPS = (3, 3)


def pool(padding: list[int], stride: int) -> FlatOp:
    """A pool of an image of 8 x 8; padding left, right, top, bottom or a code."""
    net = Network()
    x = net.add(Operand(F32, (1, 8, 8, 1)))
    numbers = [*padding, stride, stride, *TAPS, 0]
    y = net.operation(spec.MAX_POOL_2D, [x, *map(net.scalar, numbers)], Operand(F32, (1, 8, 8, 1)))
    model = net.model([x], [y])
    scope = TensorScope(FlatGraph(), model, {x: (1, 8, 8, 1), y: (1, 8, 8, 1)})
    scope.define(x, scope.graph.tensor(scope.described(x, signed=False)))
    return FlatOp(scope, named_operations(model, FEATURE_LEVEL)[0])


@pytest.mark.parametrize(
    ("padding", "stride", "wanted"),
    [
        ([1], 1, SAME),
        ([2], 1, VALID),
        ([0, 0, 0, 0], 2, VALID),
        ([1, 1, 1, 1], 1, SAME),
        ([0, 1, 0, 1], 2, SAME),
        ([1, 0, 1, 0], 2, None),  # the other way round
        ([1, 1, 1, 1], 2, None),
        ([0, 0, 1, 1], 1, None),
    ],
)
def test_schemes(padding: list[int], stride: int, wanted: int | None) -> None:
    op = pool(padding, stride)
    window = WindowGeometry.of(**op.scalars())
    assert scheme(op, window, TAPS) == wanted
    image, found = padded_image(op, window, TAPS, signed=False, fill=-1.0)
    sizes = op.graph.tensors[image].shape
    if wanted is None:
        left, right, top, bottom = padding
        assert (found, sizes) == (VALID, (1, 8 + top + bottom, 8 + left + right, 1))
    else:
        assert (found, sizes) == (wanted, (1, 8, 8, 1))
