"""Latency: the median of the runs after a warm-up, limited in number and in time."""

from __future__ import annotations

from itertools import count

import pytest

from ep_nnapi.diagnostics import latency


def clocked(monkeypatch: pytest.MonkeyPatch, *seconds: float) -> latency.Timed:
    """The measurement of runs of these durations after the warm-up, the last one repeated."""
    runs = count(-1)
    now = [0.0]

    def run() -> None:
        number = next(runs)
        now[0] += 1000.0 if number < 0 else seconds[min(number, len(seconds) - 1)]

    monkeypatch.setattr(latency, "perf_counter", lambda: now[0])
    return latency.measured(run)


def test_the_median_is_of_the_runs_after_the_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    found = clocked(monkeypatch, 0.1, 0.125, 0.5)
    assert (found.milliseconds, found.runs) == (pytest.approx(125), 3)


def test_a_slow_model_runs_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert clocked(monkeypatch, 3.0) == latency.Timed(3000.0, 1)


def test_a_fast_model_runs_a_hundred_times(monkeypatch: pytest.MonkeyPatch) -> None:
    assert clocked(monkeypatch, 2.0**-20).runs == 100
