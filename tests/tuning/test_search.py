"""The stages of the search, with times of the test and real sessions."""

from pathlib import Path

import pytest

from ep_nnapi.tuning import candidates
from ep_nnapi.tuning.search import Search
from tests import wrong_device
from tests.faulty import FaultyDevice, installed
from tests.runtimes import host_only
from tests.tuning.test_tune import DEVICE, subject
from tests.tuning.times import Times

FIRST = "NNAPI nnapi-reference, nnapi-aware"


def fast() -> Times:
    """Every candidate with NNAPI is faster than the CPU, the fewest nodes left to it the least."""
    nnapi = dict.fromkeys(("aware", "basic", "NCHW", "FP16"), 1.0)
    return Times(extended=3.0, all=2.0, thread=4.0, CPU=1.1, **nnapi)


@pytest.fixture(autouse=True)
def _two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates.os, "cpu_count", lambda: 2)


def test_stages_narrow_down(tmp_path: Path):
    """Devices and the CPU, then variants of the fastest device, then the best of both combined."""
    times = Times(extended=3.0, all=2.0, thread=4.0, aware=1.0, basic=0.9, FP16=0.5, NCHW=1.5)
    search = Search(subject(tmp_path), DEVICE, times)
    choice = search.run()
    assert times.stages[0] == ["CPU extended", "CPU all", "CPU all, 1 thread", FIRST]
    assert times.stages[1] == [
        "CPU all",
        FIRST,
        "NNAPI nnapi-reference, basic",
        "NNAPI nnapi-reference, extended",
        f"{FIRST}, USE_FP16",
        f"{FIRST}, USE_NCHW",
    ]
    both = "NNAPI nnapi-reference, basic, USE_FP16"
    half, basic = f"{FIRST}, USE_FP16", "NNAPI nnapi-reference, basic"
    assert set(times.stages[2]) == {"CPU all", half, basic, both}
    assert choice.best.candidate.name == f"{FIRST}, USE_FP16"  # as fast as both, fewer changes
    left = search.found[f"{FIRST}, worth_it"]
    assert (left.problem, left.timing) == ("NNAPI takes no node", None)


@host_only
def test_a_device_that_fails_is_out(tmp_path: Path):
    with installed(FaultyDevice(fails_at=frozenset({-1}))):
        search = Search(subject(tmp_path), {"device": "faulty"}, fast())
        choice = search.run()
    assert choice.best.candidate.on_cpu
    assert "OP_FAILED" in search.found["NNAPI faulty, nnapi-aware"].problem


@host_only
def test_an_unusable_device_is_named(tmp_path: Path):
    """It declines everything, so nothing is measured but the CPU."""
    times = Times(extended=3.0, all=2.0, thread=4.0)
    every = FaultyDevice(every=1)
    with installed(every):
        choice = Search(subject(tmp_path), {"device": "faulty"}, times).run()
    assert len(times.stages) == 1
    assert choice.reason == (
        "No candidate with NNAPI can be taken; NNAPI faulty, nnapi-aware: NNAPI takes no node."
    )


@host_only
@pytest.mark.parametrize("repair", [False, True])
def test_with_accuracy_nodes_of_a_fast_candidate_are_left_to_the_cpu(tmp_path: Path, repair: bool):
    """The device is wrong for MaxPool_8; without it, NNAPI is within the tolerance and faster."""
    with wrong_device.installed(wrong_device.of_node("MaxPool_8")):
        tried = subject(tmp_path, tolerance=1e-4)
        search = Search(tried, {"device": wrong_device.WRONG}, fast(), repair)
        choice = search.run()
    assert search.found["NNAPI wrong, nnapi-aware"].within is False
    if not repair:
        assert choice.best.candidate.on_cpu
        return
    best = choice.best
    assert best.candidate.options["exclude"] == ("MaxPool_8",)
    assert best.candidate.name.endswith(", 1 node left to the CPU")
    assert best.within
    assert best.report.taken == best.report.nodes - 1
