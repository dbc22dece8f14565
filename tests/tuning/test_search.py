"""The candidates of `tune`, runs in turn, and the stages of the search."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from ep_nnapi.nnapi.errors import OptionError
from ep_nnapi.nnapi.host.registry import host_runtime
from ep_nnapi.options.settings import Chosen
from ep_nnapi.options.table import parse
from ep_nnapi.tuning import candidates
from ep_nnapi.tuning.candidates import (
    Candidate,
    combined,
    on_devices,
    on_the_cpu,
    variants,
    without_nodes,
)
from ep_nnapi.tuning.search import Search
from ep_nnapi.tuning.timing import Budget, Clock, Timing, interleaved, interval
from tests import wrong_device
from tests.faulty import FaultyDevice, installed
from tests.runtimes import host_only
from tests.tuning.test_tune import DEVICE, Times, subject

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


class Machine:
    """Runs that take given times on clocks of their own."""

    def __init__(self) -> None:
        self.now = 0.0
        self.used = 0.0
        self.order: list[str] = []

    def run(self, name: str, seconds: float, processors: float = 1.0):
        def once() -> None:
            self.order.append(name)
            self.now += seconds
            self.used += seconds * processors

        return once

    @property
    def clock(self) -> Clock:
        return Clock(lambda: self.now, lambda: self.used)


@pytest.mark.parametrize("n", range(1, 12))
def test_the_interval_is_the_narrowest_with_its_confidence(n: int):
    """Counted over all 2 ** n ways in which values fall below or above the median."""
    low, high = interval([float(i) for i in range(n)])
    k = int(low)
    assert high == n - 1 - k

    def missed(rank: int) -> float:
        ways = [sum(w) for w in product((0, 1), repeat=n)]
        return sum(below <= rank or n - below <= rank for below in ways) / len(ways)

    assert missed(k) <= 0.05 or k == 0
    assert missed(k + 1) > 0.05 or k + 1 > (n - 1) // 2


def test_six_values_are_the_fewest_with_95_percent():
    assert interval([3.0, 1.0, 2.0, 6.0, 5.0, 4.0]) == (1.0, 6.0)
    assert 2 * 0.5**6 <= 0.05 < 2 * 0.5**5


def test_medians_do_not_depend_on_outliers():
    timing = Timing.of([1.0, 1.1, 0.9, 50.0, 1.0, 1.0], [2.0] * 6)
    assert (timing.seconds, timing.cpu_seconds, timing.runs) == (1.0, 2.0, 6)


@pytest.mark.parametrize(("low", "apart"), [(1.2, False), (1.21, True)])
def test_intervals_that_touch_are_not_apart(low: float, apart: bool):
    a, b = Timing(1.0, 0.9, 1.2, 1.0, 9), Timing(1.3, low, 1.4, 1.0, 9)
    assert a.apart(b) is b.apart(a) is apart


def test_runs_are_measured_in_turn_and_each_begins_a_round():
    machine = Machine()
    runs = {name: machine.run(name, 1.0) for name in "abc"}
    interleaved(runs, Budget(seconds=1, fewest=3, warm_up=1), machine.clock)
    assert "".join(machine.order) == "abc" + "abc" + "bca" + "cab"


def test_latency_and_processor_time_are_of_the_run():
    machine = Machine()
    runs = {"one": machine.run("one", 0.5), "two": machine.run("two", 0.25, processors=2)}
    found = interleaved(runs, Budget(seconds=0.1, fewest=6), machine.clock)
    assert found["one"] == Timing(0.5, 0.5, 0.5, 0.5, 6)
    assert found["two"] == Timing(0.25, 0.25, 0.25, 0.5, 6)


@pytest.mark.parametrize(("seconds", "rounds"), [(0.5, 6), (10.0, 10), (1000.0, 50)])
def test_limits(seconds: float, rounds: int):
    """The fewest rounds in any case, no round after the time, never more than the most."""
    machine = Machine()
    budget = Budget(seconds=seconds, fewest=6, most=50, warm_up=0)
    found = interleaved({"a": machine.run("a", 1.0)}, budget, machine.clock)
    assert found["a"].runs == rounds


def test_slower_runs_are_left_out_when_there_is_no_doubt():
    machine = Machine()
    runs = {"fast": machine.run("fast", 1.0), "slow": machine.run("slow", 1.5)}
    budget = Budget(seconds=1e9, racing=20, most=30, warm_up=0)
    found = interleaved(runs, budget, machine.clock)
    assert (found["fast"].runs, found["slow"].runs) == (30, 20)


def test_progress_counts_rounds():
    machine, steps = Machine(), []
    interleaved(
        {"a": machine.run("a", 1.0)},
        Budget(seconds=2.5, fewest=1, most=9),
        machine.clock,
        lambda done, of: steps.append((done, of)),
    )
    assert steps == [(0, 9), (1, 9), (2, 9), (3, 9)]


BASE = Candidate(Chosen.NNAPI, "nnapi-aware", {"device": "host-cpu"})


def test_the_cpu_takes_part_with_extended_and_all():
    assert [c.name for c in on_the_cpu()] == ["CPU extended", "CPU all", "CPU all, 1 thread"]
    assert all(c.on_cpu for c in on_the_cpu())


@pytest.mark.parametrize(
    ("given", "devices"),
    [({}, {"host-cpu", "nnapi-reference"}), ({"device": "nnapi-reference"}, {"nnapi-reference"})],
)
def test_every_device_or_the_named_one(given: dict[str, object], devices: set[str]):
    found = list(on_devices(host_runtime(), given))
    assert {c.options["device"] for c in found} == devices
    assert {c.level for c in found} == {"nnapi-aware"}


def test_each_variant_differs_in_one_respect():
    assert [c.name.removeprefix("NNAPI host-cpu, ") for c in variants(BASE)] == [
        "basic",
        "extended",
        "nnapi-aware, worth_it",
        "nnapi-aware, USE_FP16",
        "nnapi-aware, USE_NCHW",
        "nnapi-aware, 1 thread",
    ]
    for variant in variants(BASE):
        parse(variant.options)
        new = variant.options.keys() - BASE.options.keys()
        assert len(new) + (variant.level != BASE.level) == 1


def test_what_is_given_is_not_varied():
    given = {
        **BASE.options,
        "flags": "USE_NCHW",
        "partitioning": "maximal",
        "intra_op_num_threads": 2,
    }
    found = list(variants(Candidate(Chosen.NNAPI, "nnapi-aware", given)))
    assert [c.level for c in found] == ["basic", "extended"]


@pytest.mark.parametrize("device", ["nnapi-reference"])
def test_threads_are_an_option_of_host_cpu_alone(device: str):
    first = Candidate(Chosen.NNAPI, "nnapi-aware", {"device": device})
    assert not any("1 thread" in c.changes for c in variants(first))


def test_improvements_are_combined_the_best_first():
    basic, _, worth_it, half, nchw, one = variants(BASE)
    made = combined(BASE, [half, basic, nchw, one, worth_it])
    assert made.level == "basic"
    assert made.changes == ("USE_FP16", "1 thread", "worth_it")
    assert made.options == {
        "device": "host-cpu",
        "flags": "USE_FP16",
        "intra_op_num_threads": 1,
        "partitioning": "worth_it",
    }


def test_nodes_left_to_the_cpu_are_added_to_those_excluded():
    first = Candidate(Chosen.NNAPI, "basic", {**BASE.options, "exclude": "Softmax"})
    made = without_nodes(first, ("Conv_1", "Conv_2"))
    assert parse(made.options).exclude == ("Softmax", "Conv_1", "Conv_2")
    assert made.name == "NNAPI host-cpu, basic, 2 nodes left to the CPU"


def test_settings_have_the_options_but_those_that_name_files():
    first = Candidate(Chosen.NNAPI, "basic", {"device": "host-cpu", "cache_dir": "/tmp/x"})
    settings = without_nodes(first, ("Conv_1", "Conv_2")).settings({})
    assert settings.options == {"device": "host-cpu", "exclude": "Conv_1,Conv_2"}
    assert (settings.provider, settings.level) == (Chosen.NNAPI, "basic")


def test_names_that_exclude_cannot_hold_are_refused():
    with pytest.raises(OptionError, match="a comma separates names"):
        without_nodes(BASE, ("a,b",)).settings({})
