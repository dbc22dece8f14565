"""The candidates: each varies one thing, what the user gave is not varied, and settings of each."""

from dataclasses import replace

import pytest

from ep_nnapi.nnapi.errors import OptionError
from ep_nnapi.options.settings import Chosen
from ep_nnapi.options.table import parse
from ep_nnapi.tuning.candidates import (
    Candidate,
    Measured,
    choose,
    combined,
    on_devices,
    on_the_cpu,
    variants,
    without_nodes,
)
from ep_nnapi.tuning.search import Timing

BASE = Candidate(Chosen.NNAPI, "nnapi-aware", {"device": "host-cpu"})


def test_the_cpu_takes_part_with_extended_and_all():
    assert [c.name for c in on_the_cpu({})] == ["CPU extended", "CPU all", "CPU all, 1 thread"]
    assert all(c.on_cpu for c in on_the_cpu({}))


def test_the_cpu_has_the_threads_that_are_given():
    found = list(on_the_cpu({"device": "host-cpu", "intra_op_num_threads": 2}))
    assert [c.name for c in found] == ["CPU extended", "CPU all"]
    assert [c.options for c in found] == [{"intra_op_num_threads": 2}] * 2


@pytest.mark.parametrize(
    ("given", "devices"),
    [({}, {"host-cpu", "nnapi-reference"}), ({"device": "nnapi-reference"}, {"nnapi-reference"})],
)
def test_every_device_or_the_named_one(given: dict[str, object], devices: set[str]):
    found = list(on_devices(given))
    extra = {"litert-cpu"}  # where it is installed: tests/litert/test_source.py
    assert {c.options["device"] for c in found} - extra == devices
    assert {c.level for c in found} == {"nnapi-aware"}


def test_each_variant_differs_in_one_respect():
    assert [c.name.removeprefix("NNAPI host-cpu, ") for c in variants(BASE)] == [
        "basic",
        "extended",
        "nnapi-aware, worth_it",
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


@pytest.mark.parametrize(
    ("device", "heeds"),
    [("host-cpu", False), ("litert-cpu", False), ("litert-gpu", True), ("nnapi-reference", True)],
)
def test_float16_is_tried_where_it_changes_something(device: str, heeds: bool):
    first = Candidate(Chosen.NNAPI, "nnapi-aware", {"device": device})
    assert any("USE_FP16" in c.changes for c in variants(first)) is heeds


def test_improvements_are_combined_the_best_first():
    basic, _, worth_it, nchw, one = variants(BASE)
    half = replace(BASE, options={**BASE.options, "flags": "USE_FP16"}, changes=("USE_FP16",))
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
    expected = "NNAPI npu, nnapi-aware, half takes 250 ms, CPU all 1e+03 ms: 4 x as fast."
    assert found.reason == expected


def test_the_cpu_wins_when_nnapi_loses():
    found = choose([measured("cpu", 0.5), measured("npu", 1.0)])
    assert found.best.candidate.on_cpu
    expected = "NNAPI npu, nnapi-aware takes 1e+03 ms, CPU all 500 ms: NNAPI loses, 2 x as slow."
    assert found.reason == expected


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
