"""Parameters of normalizations that do not fit."""

import numpy as np
import pytest

from ep_nnapi.nnapi.errors import Reason, Reject
from ep_nnapi.operators.lib.reduction import Norm, normalize, scaled
from tests.operators.lib import emitting

REFUSED = {
    "rank": ((3, 4), 1, (1, 3, 4), "w has rank 3, for x of rank 2 normalized from axis 1 on"),
    "rank beyond 4": ((2, 2, 2, 2, 4), 4, (2, 4), "w has rank 2, .* it has up to 1; reshape it"),
    "size": ((3, 4), 1, (3,), r"w has shape \[3\], x \[3, 4\]"),
}


@pytest.mark.parametrize(("shape", "axis", "scale", "says"), REFUSED.values(), ids=REFUSED)
def test_parameters_that_do_not_fit(shape, axis: int, scale, says: str) -> None:
    def refused() -> emitting.Emitted:
        x = emitting.value("x", np.zeros(shape, np.float32))
        y = emitting.value("y", np.zeros(shape, np.float32))
        norm = Norm(scaled, axis, 1e-3, emitting.constant(np.ones(scale, np.float32)))
        return emitting.emitted(normalize, emitting.node([x], [y]), x, norm, y)

    with pytest.raises(Reject, match=says) as caught:
        refused()
    assert caught.value.reason is Reason.SHAPE
