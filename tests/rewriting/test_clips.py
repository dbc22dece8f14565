"""Clip as Max and Min: the same numbers for every combination of limits."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from ep_nnapi.rewriting.clips import clips_as_min_and_max
from tests.rewriting.equality import model_of, same, types

X = np.array([-np.inf, -2, -1, -0.0, 0.5, 1, 2, np.inf], np.float32)


@pytest.mark.parametrize(
    ("low", "high", "made"),
    [
        (-1, 1, ["Max", "Min"]),
        (None, 1, ["Min"]),
        (0.5, None, ["Max"]),
        (2, 1, ["Max", "Min"]),
        (0, 0, ["Max", "Min"]),
    ],
)
def test_limits(low: float | None, high: float | None, made: list[str]):
    limits = {"low": low, "high": high}
    constants = {n: np.array(v, np.float32) for n, v in limits.items() if v is not None}
    inputs = ["x", *(n if n in constants else "" for n in limits)]
    node = helper.make_node("Clip", [*inputs[:2], *([inputs[2]] if inputs[2] else [])], ["y"], "c")
    model = model_of([node], {"x": X.shape}, {"y": X.shape}, constants)
    found = clips_as_min_and_max(model, {"c"})
    assert types(found) == made
    same(model, found, {"x": X})


def test_others_stay():
    """Without limits nothing is clipped; nodes that are not named were not refused."""
    clip = [helper.make_node("Clip", ["x", "low"], ["y"], "c")]
    model = model_of(clip, {"x": [8]}, {"y": [8]}, {"low": np.float32(0)})
    assert clips_as_min_and_max(model, {"other"}) is None
    plain = model_of([helper.make_node("Clip", ["x"], ["y"], "c")], {"x": [8]}, {"y": [8]})
    assert clips_as_min_and_max(plain, {"c"}) is None
    old = model_of(
        [helper.make_node("Clip", ["x"], ["y"], "c", min=0.0)], {"x": [8]}, {"y": [8]}, opset=6
    )
    assert clips_as_min_and_max(old, {"c"}) is None
