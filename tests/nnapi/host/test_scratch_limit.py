"""Operations whose scalars ask for absurd memory are declined before they are compiled."""

import numpy as np
import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.host import HostRuntime
from ep_nnapi.nnapi.model import Model
from tests.nnapi.build import F32, INT32, constant, one, scalar, tensor

RUNTIME = HostRuntime()
(REFERENCE,) = RUNTIME.devices()
FLOAT = OperandCode.FLOAT32
BATCHES = constant(np.zeros(2, np.int32))


def pooled(padding: int, size: int = 4) -> Model:
    """A pool of one tap over a padded image of one channel."""
    pads = [scalar(INT32, n) for n in (0, padding, 0, 0)]
    rest = [scalar(INT32, n) for n in (size, size, 1, 1, 0)]
    y = tensor(F32, 1, 0, 0, 1)
    return one(spec.AVERAGE_POOL_2D, [tensor(F32, 1, size, size, 1), *pads, *rest], [y])


def aligned(points: int, height: int = 4) -> Model:
    """Two regions of an image, with so many sampling points along each axis of a bin."""
    ins = [tensor(F32, 1, height, 4, 1), tensor(F32, 2, 4), BATCHES]
    sizes = [scalar(INT32, 2), scalar(INT32, 2), scalar(FLOAT, 1.0), scalar(FLOAT, 1.0)]
    counts = [scalar(INT32, points), scalar(INT32, points)]
    layout = scalar(OperandCode.BOOL, False)
    y = tensor(F32, 2, 2, 2, 1)
    return one(spec.ROI_ALIGN, [*ins, *sizes, *counts, layout], [y])


def convolved(padding: int) -> Model:
    """A kernel of 3 x 3 over a padded image, dilated so that it reaches beyond the padding."""
    pads = [scalar(INT32, n) for n in (padding, 0, 0, 0)]
    ins = [tensor(F32, 1, 4, 4, 1), tensor(F32, 1, 3, 3, 1), tensor(F32, 1)]
    rest = [scalar(INT32, n) for n in (padding // 2 + 1, padding // 2 + 1, 0)]
    layout = scalar(OperandCode.BOOL, False)
    dilations = [scalar(INT32, n) for n in (padding // 2, 1)]
    return one(spec.CONV_2D, [*ins, *pads, *rest, layout, *dilations], [tensor(F32, 1, 0, 0, 1)])


@pytest.mark.parametrize("model", [pooled(2), aligned(4), convolved(2)])
def test_ordinary_operations_are_supported(model: Model) -> None:
    assert RUNTIME.supported(model, REFERENCE) == (True,)


@pytest.mark.parametrize("model", [aligned(10**7), convolved(10**8)])
def test_absurd_operations_are_declined(model: Model) -> None:
    """In milliseconds: nothing of the size that they ask for is made."""
    assert RUNTIME.supported(model, REFERENCE) == (False,)


def test_at_the_limit_of_room() -> None:
    """Two regions of 2 x 2 bins: 2 * 4 * points numbers along both axes: 16 times 65536 + 16 * 34.

    Elements: 16 of the image, 8 of the regions, 2 batches, 8 results.
    """
    limit = (1 << 16) + 16 * 34
    assert RUNTIME.supported(aligned(limit), REFERENCE) == (True,)
    assert RUNTIME.supported(aligned(limit + 1), REFERENCE) == (False,)


def test_points_that_the_regions_decide_on_are_left_to_the_run() -> None:
    """A bin of the whole image may take as many points; Android's own cases have smaller ones."""
    assert RUNTIME.supported(aligned(0, 4096), REFERENCE) == (True,)
    assert RUNTIME.supported(aligned(4096, 4096), REFERENCE) == (False,)


def test_what_is_known_at_the_run_only_is_left_to_the_run() -> None:
    model = aligned(10**7)
    image = tensor(F32, 1, 0, 4, 1)
    unknown = Model((image, *model.operands[1:]), model.operations, model.inputs, model.outputs)
    assert RUNTIME.supported(unknown, REFERENCE) == (True,)
