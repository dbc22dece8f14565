"""The choice among candidates with given times."""

from dataclasses import replace

import pytest

from ep_nnapi.options.settings import Chosen
from ep_nnapi.tuning.candidates import Candidate, Measured, choose
from ep_nnapi.tuning.search import Timing


def measured(
    name: str, seconds: float, cpu: float | None = None, *, problem: str = "", within: bool = True
) -> Measured:
    """A candidate with an interval of 5 % to both sides; names that begin with cpu are the CPU."""
    timing = Timing(seconds, 0.95 * seconds, 1.05 * seconds, seconds if cpu is None else cpu, 30)
    if name.startswith("cpu"):
        candidate = Candidate(Chosen.CPU, "all", {}, tuple(name.split()[1:]))
    else:
        changes = tuple(name.split()[1:])
        candidate = Candidate(Chosen.NNAPI, "nnapi-aware", {"device": "npu"}, changes)
    return Measured(candidate, timing, None, None, within, problem)


def test_nnapi_wins_when_it_is_faster_beyond_doubt():
    found = choose([measured("cpu", 1.0), measured("npu", 0.5), measured("npu half", 0.25)])
    assert found.best.candidate.changes == ("half",)
    assert (
        found.reason == "NNAPI npu, nnapi-aware, half takes 250 ms, CPU all 1e+03 ms: 4 x as fast."
    )


def test_the_cpu_wins_when_nnapi_loses():
    found = choose([measured("cpu", 0.5), measured("npu", 1.0)])
    assert found.best.candidate.on_cpu
    assert (
        found.reason
        == "NNAPI npu, nnapi-aware takes 1e+03 ms, CPU all 500 ms: NNAPI loses, 2 x as slow."
    )


def test_in_doubt_the_cpu_is_recommended():
    """NNAPI's median is smaller by 5 %, the intervals overlap."""
    found = choose([measured("cpu", 1.0), measured("npu", 0.95)])
    assert found.best.candidate.on_cpu
    assert found.reason.endswith("NNAPI is not faster beyond doubt.")


def gaining(found: Measured, *gain: float) -> Measured:
    """With that interval of the CPU provider's time over its own."""
    assert found.timing is not None
    return replace(found, timing=replace(found.timing, gain=gain))


@pytest.mark.parametrize(("low", "wins"), [(1.02, True), (1.01, False)])
def test_the_rounds_decide(low: float, wins: bool):
    """The intervals of the times overlap either way."""
    found = choose([measured("cpu", 1.0), gaining(measured("npu", 0.98), low, 1.05)])
    assert found.best.candidate.on_cpu is not wins


@pytest.mark.parametrize(("cpu", "wins"), [(0.89, True), (0.91, False)])
def test_as_fast_with_less_processor_time_nnapi_wins(cpu: float, wins: bool):
    found = choose([measured("cpu", 1.0), gaining(measured("npu", 1.0, cpu), 0.97, 1.03)])
    assert found.best.candidate.on_cpu is not wins
    assert ("as fast, with 890 instead of 1e+03 ms of processor time" in found.reason) is wins


def test_less_processor_time_does_not_pay_for_a_slower_run():
    assert choose([measured("cpu", 1.0), measured("npu", 1.2, 0.01)]).best.candidate.on_cpu
    in_doubt = gaining(measured("npu", 1.0, 0.01), 0.96, 1.03)
    assert choose([measured("cpu", 1.0), in_doubt]).best.candidate.on_cpu


def test_among_equals_the_fewest_changes_win():
    found = choose([measured("cpu", 9.0), measured("npu a b", 0.98), measured("npu", 1.0)])
    assert found.best.candidate.changes == ()


def test_the_fastest_cpu_is_the_rival():
    found = choose([measured("cpu", 2.0), measured("cpu fast", 0.5), measured("npu", 1.0)])
    assert found.best.candidate.changes == ("fast",)


def test_what_is_inaccurate_or_failed_is_never_chosen():
    bad = [
        measured("npu a", 0.1, within=False, problem="its outputs are beyond the tolerance"),
        measured("npu b", 0.1, problem="device failed"),
    ]
    assert choose([measured("cpu", 1.0), *bad, measured("npu", 0.5)]).best.candidate.changes == ()
    found = choose([measured("cpu", 1.0), *bad])
    assert found.best.candidate.on_cpu
    assert found.reason == (
        "No candidate with NNAPI can be taken; NNAPI npu, nnapi-aware, a: its outputs are beyond "
        "the tolerance."
    )
