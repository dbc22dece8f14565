"""ONNX's backend node tests on the provider, beside the CPU provider."""

import faulthandler
import os
import signal

import pytest

from tests.onnx_backend import cases, suite
from tests.onnx_backend.trial import Verdict
from tests.onnx_backend.workers import Died, spread

LEVELS = (8, 4, 3, 1)


@pytest.mark.long
def test_what_passes_on_the_cpu_passes_with_the_provider() -> None:
    tally = suite.run(cases.load(), LEVELS)
    report = "\n".join(tally.lines())
    assert not tally.failures, report
    assert len(tally.operators) >= suite.DELEGATED_AT_LEAST, report
    assert tally.verdicts[max(LEVELS), Verdict.PASSED] > 2000, report


def test_a_crash_costs_one_item() -> None:
    def work(item: int) -> int:
        if item == 2:
            faulthandler.disable()  # pytest's would print the stack
            os.kill(os.getpid(), signal.SIGSEGV)
        return item * item

    assert dict(spread(work, range(5))) == {0: 0, 1: 1, 2: Died("SIGSEGV"), 3: 9, 4: 16}
