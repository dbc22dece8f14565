"""The fewest nodes left to the CPU, by bisection and then one by one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from ep_nnapi.diagnostics.inputs import Feeds
from ep_nnapi.sessions.cpu import session_of
from ep_nnapi.settings import Chosen
from ep_nnapi.tuning.accuracy import Group, fewest, nodes_to_leave
from ep_nnapi.tuning.candidates import Candidate
from ep_nnapi.tuning.trial import Subject
from tests import wrong_device
from tests.provider.test_planner import SHAPE, model
from tests.runtimes import host_only


@pytest.mark.parametrize("needed", [{0}, {2}, {0, 3}, {1, 2, 4}, {0, 1, 2, 3, 4}, {4}])
def test_exactly_the_needed_groups(needed: set[int]):
    """Wherever they are in the ranking."""
    ranked: list[Group] = [(f"n{i}", f"q{i}") for i in range(5)]

    def within(left: Sequence[Group]) -> bool:
        return {ranked[i] for i in needed} <= set(left)

    assert set(fewest(ranked, within)) == {ranked[i] for i in needed}


def test_errors_that_add_up_need_the_fewest():
    """Each group adds its error; the largest come first, so no smaller set is enough."""
    errors = {("a",): 8.0, ("b",): 4.0, ("c",): 2.0, ("d",): 1.0, ("e",): 0.5}
    ranked = list(errors)
    for tolerance in (0.4, 0.5, 1.6, 3.0, 7.9, 15.4):

        def within(left: Sequence[Group], tolerance: float = tolerance) -> bool:
            return sum(e for g, e in errors.items() if g not in left) <= tolerance

        found = fewest(ranked, within)
        assert within(found)
        smaller = combinations(ranked, len(found) - 1)
        assert not any(within(left) for left in smaller)


@host_only
def test_nodes_of_a_wrong_device_are_left_to_the_cpu(tmp_path: Path):
    """Two of five nodes are wrong on the device: these, in whatever cluster they are."""
    proto = model("Abs x -> a", "Tanh a -> b", "Exp b -> c", "Sigmoid c -> d", "Sqrt d -> y")
    content = proto.SerializeToString()
    feeds = Feeds(({"x": np.linspace(-1, 1, 6, dtype=np.float32).reshape(SHAPE)},))
    want = [{"y": session_of(content).run(None, dict(feeds.runs[0]))[0]}]
    subject = Subject(content, feeds, feeds, want, 1e-3, tmp_path)
    candidate = Candidate(Chosen.NNAPI, "nnapi-aware", {"device": wrong_device.WRONG})
    names = {"Tanh_b", "Sigmoid_d"}
    with wrong_device.installed(lambda operation: bool(names & set(operation.origin))):
        assert set(nodes_to_leave(subject, candidate)) == names
