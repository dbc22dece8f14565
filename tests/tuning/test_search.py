"""The stages of the search, with times of the test and real sessions."""

from itertools import product
from pathlib import Path

import pytest

from ep_nnapi.tuning.search import Clocks, Search, Timing, TuningBudget, interleaved, interval
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
        self.spinning = 0.0
        self.naps = 0
        self.order: list[str] = []

    def run(self, name: str, seconds: float, processors: float = 1.0):
        def once() -> None:
            self.order.append(name)
            self.now += seconds
            self.used += seconds * processors

        return once

    @property
    def clock(self) -> Clocks:
        return Clocks(lambda: self.now, lambda: self.used, self.sleep)

    def sleep(self, seconds: float) -> None:
        """Threads that spin use a processor while others sleep."""
        self.naps += 1
        spun = min(seconds, self.spinning)
        self.spinning -= spun
        self.used += spun


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
    timing = Timing.of([1.0, 1.1, 0.9, 50.0, 1.0, 1.0], [2.0] * 6, [1.0] * 6)
    assert (timing.seconds, timing.cpu_seconds, timing.runs) == (1.0, 2.0, 6)


@pytest.mark.parametrize(("low", "apart"), [(1.2, False), (1.21, True)])
def test_intervals_that_touch_are_not_apart(low: float, apart: bool):
    a, b = Timing(1.0, 0.9, 1.2, 1.0, 9), Timing(1.3, low, 1.4, 1.0, 9)
    assert a.apart(b) is b.apart(a) is apart


def test_runs_are_measured_in_turn_in_an_order_that_is_drawn():
    machine = Machine()
    runs = {name: machine.run(name, 1.0) for name in "abc"}
    interleaved(runs, TuningBudget(seconds=1, fewest=40, warm_up=1), machine.clock)
    rounds = ["".join(machine.order[i : i + 3]) for i in range(0, len(machine.order), 3)]
    assert len(rounds) == 41
    assert {"".join(sorted(each)) for each in rounds} == {"abc"}
    assert len(set(rounds[1:])) == 6


def test_a_round_has_many_runs_of_what_is_short():
    """As many as take a block's time, after one that is not measured."""
    machine = Machine()
    runs = {"short": machine.run("short", 0.25), "long": machine.run("long", 2.0)}
    budget = TuningBudget(seconds=1, fewest=6, warm_up=0, block=1.0)
    found = interleaved(runs, budget, machine.clock)
    assert machine.order.count("long") == 6
    assert machine.order.count("short") == 6 * 4 + 5  # nothing was known at first
    assert (found["short"].seconds, found["short"].runs) == (0.25, 6)


def test_threads_that_spin_come_to_rest_before_another_run():
    machine = Machine()

    def spins() -> None:
        machine.run("spins", 1.0)()
        machine.spinning = 0.03

    runs = {"spins": spins, "other": machine.run("other", 1.0)}
    found = interleaved(runs, TuningBudget(seconds=1, warm_up=0), machine.clock)
    assert found["other"].cpu_seconds == pytest.approx(1.0)
    assert 12 + 6 * 6 - 6 <= machine.naps <= 12 + 6 * 6


def test_gains_are_of_rounds_and_so_apart_where_times_are_not():
    """The machine becomes slower by half from round to round; one run takes 0.9 of the other."""
    machine = Machine()

    def run(share: float) -> None:
        machine.run("", share * 1.5 ** (len(machine.order) // 2))()

    runs = {"first": lambda: run(1.0), "other": lambda: run(0.9)}
    budget = TuningBudget(seconds=1, fewest=10, racing=100, warm_up=0)
    found = interleaved(runs, budget, machine.clock)
    assert not found["first"].apart(found["other"])
    assert found["other"].gain == pytest.approx((1 / 0.9, 1 / 0.9))


def test_latency_and_processor_time_are_of_the_run():
    machine = Machine()
    runs = {"one": machine.run("one", 0.5), "two": machine.run("two", 0.25, processors=2)}
    found = interleaved(runs, TuningBudget(seconds=0.1, fewest=6), machine.clock)
    assert found["one"] == Timing(0.5, 0.5, 0.5, 0.5, 6, (1.0, 1.0))
    assert found["two"] == Timing(0.25, 0.25, 0.25, 0.5, 6, (2.0, 2.0))


@pytest.mark.parametrize(("seconds", "rounds"), [(0.5, 6), (10.0, 10), (1000.0, 50)])
def test_limits(seconds: float, rounds: int):
    """The fewest rounds in any case, no round after the time, never more than the most."""
    machine = Machine()
    budget = TuningBudget(seconds=seconds, fewest=6, most=50, warm_up=0)
    found = interleaved({"a": machine.run("a", 1.0)}, budget, machine.clock)
    assert found["a"].runs == rounds


def test_slower_runs_are_left_out_when_there_is_no_doubt():
    machine = Machine()
    times = {"first": 2.0, "fast": 1.0, "slow": 1.5}
    runs = {name: machine.run(name, seconds) for name, seconds in times.items()}
    budget = TuningBudget(seconds=1e9, racing=20, most=30, warm_up=0)
    found = interleaved(runs, budget, machine.clock)
    assert {name: timing.runs for name, timing in found.items()} == {
        **{"first": 30, "fast": 30},  # the first is what all are compared with
        "slow": 20,
    }


def test_progress_counts_rounds():
    machine, steps = Machine(), []
    interleaved(
        {"a": machine.run("a", 1.0)},
        TuningBudget(seconds=2.5, fewest=1, most=9),
        machine.clock,
        lambda done, of: steps.append((done, of)),
    )
    assert steps == [(0, 9), (1, 9), (2, 9), (3, 9)]
