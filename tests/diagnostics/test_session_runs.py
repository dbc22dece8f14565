"""Inputs of the runs of a session: random ones of sizes that the model can run."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import onnxruntime
import pytest

from ep_nnapi.diagnostics.check import open_session
from ep_nnapi.diagnostics.session_runs import feeds_of
from ep_nnapi.sessions.cpu import CPU, exact_options
from tests.ort.models import graph, model, node, tensor
from tests.sizes.test_trial_sizes import bert, encoder, lstm, sound, vgg

BATCHES = {"x": np.ones((3, 5), np.float32)}


def in_rows(rows: int) -> tuple[bytes, onnxruntime.InferenceSession]:
    """A network, and its session, for inputs [batch, n] that have a multiple of `rows` elements."""
    nodes = [node("Abs", "x", "a"), node("Reshape", "a in_rows", "y")]
    ends = [tensor("x", ("batch", "n"))], [tensor("y", (rows, "m"))]
    made = model(nodes, *ends, {"in_rows": np.array([rows, -1])})
    return made, open_session(made, exact_options(), [CPU])


@pytest.mark.parametrize(
    ("rows", "size"),
    [(1, 1), (2, 2), (32, 32), (64, 64), (7, 7), (1000, 1000)],
)
def test_random_inputs_have_a_size_that_the_model_can_run(
    rows: int, size: int, capfd: pytest.CaptureFixture[str]
) -> None:
    (fed,) = feeds_of(*in_rows(rows), (), 0, ()).runs
    assert fed["x"].shape == (1, size)
    assert capfd.readouterr() == ("", "")


def fed_to(*arguments: object) -> dict[str, np.ndarray]:
    """The random inputs of a model, made as by `tests.ort.models.model`."""
    made = model(*arguments)
    (fed,) = feeds_of(made, open_session(made, exact_options(), [CPU]), (), 0).runs
    return dict(fed)


def test_sizes_that_nodes_in_a_branch_ask_for() -> None:
    """A window in one input and a state of one row in another, as in Silero VAD."""
    pads = {"pads": np.array([0, 0, 0, 100])}

    def branch(name: str) -> onnx.GraphProto:
        nodes = [
            node("Pad", "x pads", f"{name}_p", mode="reflect"),
            node("ReduceSum", f"{name}_p", f"{name}_s"),
            node("Reshape", "state eight", f"{name}_r"),
            node("Add", f"{name}_s {name}_r", f"{name}_y"),
        ]
        return graph(nodes, [], [tensor(f"{name}_y", (None, None))], name=name)

    choice = node("If", "c", "y", then_branch=branch("then"), else_branch=branch("else"))
    ends = [tensor("x", (None, None)), tensor("state", (2, None, 4)), tensor("c", (), np.bool_)]
    fed = fed_to([choice], ends, [tensor("y", (None, None))], {**pads, "eight": np.array([8])})
    assert fed["x"].shape == (1, 224)
    assert fed["state"].shape == (2, 1, 4)


def test_rows_that_indices_ask_for() -> None:
    """Random indices are 0 and 1; a dimension has the same size in each input."""
    ends = [tensor("x", ("atoms", 3)), tensor("i", (8, "atoms"), np.int64)]
    fed = fed_to([node("Gather", "x i", "y")], ends, [tensor("y", (8, "atoms", 3))])
    assert fed["x"].shape == (2, 3)
    assert fed["i"].shape == (8, 2)


def test_sizes_that_are_fixed_stay() -> None:
    (fed,) = feeds_of(*in_rows(2), (), 0, (("x", (3, 5)),)).runs
    assert fed["x"].shape == (3, 5)


def test_inputs_that_are_given_stay() -> None:
    (fed,) = feeds_of(*in_rows(2), BATCHES, 0, ()).runs
    assert fed["x"] is BATCHES["x"]


@pytest.mark.parametrize("make", [bert, sound, encoder, lstm, vgg])
def test_random_inputs_agree_with_the_constants_of_the_model(make: Callable[[], bytes]) -> None:
    """One row of them, where the model allows any number."""
    session = open_session(make(), exact_options(), [CPU])
    (fed,) = feeds_of(make(), session, (), 0).runs
    assert session.run(None, dict(fed))[0].size
    assert next(iter(fed.values())).shape[0] == 1
