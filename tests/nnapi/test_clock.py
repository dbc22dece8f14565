"""The clock of runs."""

import time

from ep_nnapi.nnapi.clock import Clock


def test_time_that_is_taken_out_does_not_pass():
    clock, before = Clock(), time.perf_counter_ns()
    assert before <= clock.time_ns() <= time.perf_counter_ns()
    start = clock.time_ns()
    time.sleep(0.02)
    clock.take_out(20_000_000)
    assert 0 <= clock.time_ns() - start < time.perf_counter_ns() - before - 19_000_000
