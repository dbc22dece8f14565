"""Runs are measured in turn by a clock of the test: order, limits, medians and intervals."""

from itertools import product

import pytest

from ep_nnapi.tuning.search import Clocks, Timing, TuningBudget, interleaved, interval


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
    def clock(self) -> Clocks:
        return Clocks(lambda: self.now, lambda: self.used)


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
    interleaved(runs, TuningBudget(seconds=1, fewest=3, warm_up=1), machine.clock)
    assert "".join(machine.order) == "abc" + "abc" + "bca" + "cab"


def test_latency_and_processor_time_are_of_the_run():
    machine = Machine()
    runs = {"one": machine.run("one", 0.5), "two": machine.run("two", 0.25, processors=2)}
    found = interleaved(runs, TuningBudget(seconds=0.1, fewest=6), machine.clock)
    assert found["one"] == Timing(0.5, 0.5, 0.5, 0.5, 6)
    assert found["two"] == Timing(0.25, 0.25, 0.25, 0.5, 6)


@pytest.mark.parametrize(("seconds", "rounds"), [(0.5, 6), (10.0, 10), (1000.0, 50)])
def test_limits(seconds: float, rounds: int):
    """The fewest rounds in any case, no round after the time, never more than the most."""
    machine = Machine()
    budget = TuningBudget(seconds=seconds, fewest=6, most=50, warm_up=0)
    found = interleaved({"a": machine.run("a", 1.0)}, budget, machine.clock)
    assert found["a"].runs == rounds


def test_slower_runs_are_left_out_when_there_is_no_doubt():
    machine = Machine()
    runs = {"fast": machine.run("fast", 1.0), "slow": machine.run("slow", 1.5)}
    budget = TuningBudget(seconds=1e9, racing=20, most=30, warm_up=0)
    found = interleaved(runs, budget, machine.clock)
    assert (found["fast"].runs, found["slow"].runs) == (30, 20)


def test_progress_counts_rounds():
    machine, steps = Machine(), []
    interleaved(
        {"a": machine.run("a", 1.0)},
        TuningBudget(seconds=2.5, fewest=1, most=9),
        machine.clock,
        lambda done, of: steps.append((done, of)),
    )
    assert steps == [(0, 9), (1, 9), (2, 9), (3, 9)]
