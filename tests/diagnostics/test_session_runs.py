"""Inputs of the runs of a session: random ones of sizes that the model can run."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest

from ep_nnapi.diagnostics.check import open_session
from ep_nnapi.diagnostics.session_runs import feeds_of
from ep_nnapi.sessions.cpu import CPU, exact_options
from tests.ort.models import model, node, tensor

BATCHES = {"x": np.ones((3, 5), np.float32)}


def in_rows(rows: int) -> onnxruntime.InferenceSession:
    """A network for inputs [batch, n] that have a multiple of `rows` elements."""
    nodes = [node("Abs", "x", "a"), node("Reshape", "a in_rows", "y")]
    ends = [tensor("x", ("batch", "n"))], [tensor("y", (rows, "m"))]
    made = model(nodes, *ends, {"in_rows": np.array([rows, -1])})
    return open_session(made, exact_options(), [CPU])


@pytest.mark.parametrize(
    ("rows", "size"),
    [(1, 1), (2, 32), (32, 32), (64, 64), (7, 224), (13, 1)],
    ids=["any size", "even", "32", "64", "multiples of 7", "none of the sizes"],
)
def test_random_inputs_have_the_first_size_that_the_model_can_run(
    rows: int, size: int, capfd: pytest.CaptureFixture[str]
) -> None:
    (fed,) = feeds_of(in_rows(rows), (), 0, ()).runs
    assert fed["x"].shape == (1, size)
    assert capfd.readouterr() == ("", "")


def test_sizes_that_are_fixed_stay() -> None:
    (fed,) = feeds_of(in_rows(2), (), 0, (("x", (3, 5)),)).runs
    assert fed["x"].shape == (3, 5)


def test_inputs_that_are_given_stay() -> None:
    (fed,) = feeds_of(in_rows(2), BATCHES, 0, ()).runs
    assert fed["x"] is BATCHES["x"]
