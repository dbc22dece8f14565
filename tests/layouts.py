"""A cluster with its layouts chosen against the same one without: the numbers are the same."""

from unittest.mock import patch

import numpy as np

from ep_nnapi.graph.value import Value
from ep_nnapi.lowering import model_builder as lowering
from ep_nnapi.lowering.model_builder import Lowered
from tests.calls import Calls, run

NHWC, NCHW = (0, 2, 3, 1), (0, 3, 1, 2)


def unassigned(g: Calls, *outputs: Value) -> Lowered:
    """The cluster with every operation in the layout it was written in: the reference."""
    with (
        patch.object(lowering, "assign_layouts", lambda calls, *_: list(calls)),
        patch.object(lowering, "fuse_activations", lambda calls, *_: list(calls)),
    ):
        return g.lower(*outputs)


def same_numbers(g: Calls, *outputs: Value, note: str = "") -> None:
    """The cluster computes what it does without any choice of layouts.

    Sums of 144 float32 products at most, in another order: 1e-4 of values of about 10.
    """
    want = run(unassigned(g, *outputs), g.feeds())
    for name, got in run(g.lower(*outputs), g.feeds()).items():
        np.testing.assert_allclose(got, want[name], 1e-4, 1e-4, err_msg=f"{name} {note}")
