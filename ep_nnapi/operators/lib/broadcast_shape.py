"""Shapes of broadcast tensors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ep_nnapi.nnapi.errors import Reason, Reject


def broadcast_shape(*shapes: Sequence[int]) -> tuple[int, ...]:
    """Return the shape to which `shapes` broadcast; raise Reject(SHAPE) if they do not.

    >>> broadcast_shape((4, 1), (3,))
    (4, 3)
    """
    try:
        return np.broadcast_shapes(*map(tuple, shapes))
    except ValueError:
        listed = " and ".join(str(list(shape)) for shape in shapes)
        raise Reject(Reason.SHAPE, f"shapes {listed} do not broadcast") from None
