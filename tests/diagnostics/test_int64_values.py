"""INT64 values that fit INT32, as a session shows the graph."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx

from ep_nnapi.diagnostics.int64_values import values_that_fit
from tests.rewriting.test_int64 import FLOAT, INT64, MASK, model_of


def test_values_follow_from_the_ranges_of_inputs(tmp_path: Path):
    """One less an element of INT32 may be past INT32; less an element of a mask it is not."""
    path = tmp_path / "model.onnx"
    constants = {"axis": np.array([1]), "one": np.array(1)}
    onnx.save(model_of(MASK, {"m": INT64}, {"y": FLOAT}, **constants), path)
    known = {"axis", "one"}
    assert values_that_fit(path, {}) == known
    assert values_that_fit(path, {"m": (-(2**31), 2**31 - 1)}) == known | {"m", "u"}
    assert values_that_fit(path, {"m": (0, 1)}) == known | {"m", "u", "s"}
