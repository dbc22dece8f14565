"""Shapes of broadcast tensors, compared with numpy."""

import random

import numpy as np
import pytest

from ep_nnapi.nnapi.errors import Reason, Reject
from ep_nnapi.ops.lib.broadcast_shape import broadcast_shape


@pytest.mark.parametrize("seed", range(20))
def test_it_is_the_shape_of_numpy_s_sum(seed: int) -> None:
    rng = random.Random(seed)
    whole = [rng.randint(1, 4) for _ in range(rng.randint(0, 4))]
    parts = [
        tuple(rng.choice((1, size)) for size in whole[rng.randint(0, len(whole)) :])
        for _ in range(rng.randint(1, 3))
    ]
    assert broadcast_shape(*parts) == sum((np.zeros(p) for p in parts), np.zeros(())).shape


def test_other_shapes_are_rejected_by_name() -> None:
    with pytest.raises(Reject, match=r"shapes \[4, 2\] and \[3\] do not broadcast") as rejected:
        broadcast_shape((4, 2), (3,))
    assert rejected.value.reason is Reason.SHAPE
