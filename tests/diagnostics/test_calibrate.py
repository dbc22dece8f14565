"""Measuring a device: what times mean, and what is written and said."""

import json
from dataclasses import replace
from pathlib import Path
from time import thread_time

import onnx
import pytest

import ep_nnapi
from ep_nnapi import ModelError
from ep_nnapi.cli.main import main
from ep_nnapi.costs import Calibration, CostClass, CostModel, Rates, cost_class, read
from ep_nnapi.diagnostics import calibrate as calibrating
from ep_nnapi.diagnostics.calibrate import (
    LONG,
    SHORT,
    SMALL,
    Chain,
    chain,
    family_probes,
    fit,
    measured,
    probes,
)
from ep_nnapi.nnapi.profile.file import read as read_profile
from ep_nnapi.nnapi.profile.file import write
from ep_nnapi.nnapi.profile.seeds import seeds_of
from ep_nnapi.nnapi.spec import BY_NAME
from ep_nnapi.options.table import parse
from ep_nnapi.sessions.cpu import session_of
from tests.faulty import FAULTY, FaultyDevice, installed

PROBES = probes()
MODEL = CostModel(
    Rates(2.0, 1e-4, {f: i * 1e-5 for i, f in enumerate(CostClass, 1)}),
    Rates(3.0, 2e-4, {f: i * 1e-6 for i, f in enumerate(CostClass, 1)}),
    per_byte=5e-4,
    per_cluster=70.0,
)
SESSION = 11.0  # microseconds that a session takes on either side


def times(rates: Rates, per_byte: float = 0.0, start: float = SESSION) -> dict[object, float]:
    """Times of the probes by a cost model."""
    return {
        key: start + probe.border * per_byte + sum(map(rates.time, probe.grouped_nodes))
        for key, probe in PROBES.items()
    }


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """As little as can be measured: these tests are not about the numbers."""
    monkeypatch.setattr(calibrating, "_MEASURE_SECONDS", 0.0)


def close(a: Rates, b: Rates) -> bool:
    numbers = zip(
        (a.per_node, a.per_byte, *a.per_mac.values()),
        (b.per_node, b.per_byte, *b.per_mac.values()),
        strict=True,
    )
    return all(x == pytest.approx(y, rel=1e-6) for x, y in numbers)


def test_a_model_is_found_again_from_the_times_that_it_explains():
    """Additions are of the family `other`, whose own rate is then a part of their bytes' rate."""
    known = [
        replace(r, per_mac={**r.per_mac, CostClass.OTHER: 0.0}) for r in (MODEL.cpu, MODEL.nnapi)
    ]
    cpu = times(known[0])
    nnapi = times(known[1], MODEL.per_byte, SESSION + MODEL.per_cluster)
    found = fit(PROBES, cpu, nnapi)
    assert found.per_byte == pytest.approx(MODEL.per_byte)
    assert found.per_cluster == pytest.approx(MODEL.per_cluster)
    assert close(found.cpu, known[0])
    assert close(found.nnapi, known[1])


def test_what_a_device_does_not_take_costs_there_what_it_costs_on_the_cpu():
    nnapi = times(MODEL.nnapi)
    del nnapi[CostClass.RECURRENT]
    found = fit(PROBES, times(MODEL.cpu), nnapi)
    assert found.nnapi.per_mac[CostClass.RECURRENT] == found.cpu.per_mac[CostClass.RECURRENT] > 0


def test_nothing_is_less_than_nothing():
    """Noise may make a longer chain the faster one."""
    noise = dict.fromkeys(PROBES, 100.0) | {(SMALL, SHORT): 200.0, (SMALL, LONG): 1.0}
    found = fit(PROBES, noise, times(MODEL.nnapi))
    for rates in (found.cpu, found.nnapi):
        assert min(rates.per_node, rates.per_byte, *rates.per_mac.values()) >= 0
    assert min(found.per_byte, found.per_cluster) >= 0


@pytest.mark.usefixtures("hasty")
def test_every_probe_runs_on_either_side():
    options = parse({"fallback": "none"})
    assert measured(PROBES, options).keys() == measured(PROBES, None).keys() == PROBES.keys()


@pytest.mark.usefixtures("hasty")
def test_calibrate_writes_what_it_returns(tmp_path: Path):
    path, steps = tmp_path / "calibration.json", []
    found = ep_nnapi.calibrate(path, progress=lambda done, of: steps.append((done, of)))
    assert read(path) == found
    assert steps == [(i, 2 * len(PROBES)) for i in range(1, 2 * len(PROBES) + 1)]
    assert (found.runtime, found.device, found.feature_level) == ("host", "nnapi-reference", 8)
    assert [p.name for p in tmp_path.iterdir()] == ["calibration.json"]
    report = ep_nnapi.check("models/digits.onnx", partitioning="worth_it", calibration=path)
    assert report.taken + len(report.rejections) == report.nodes


@pytest.mark.long
def test_it_takes_20_seconds_at_most(tmp_path: Path):
    """It is six where nothing else runs; the time that this thread waits on others is left out."""
    began = thread_time()
    found = ep_nnapi.calibrate(tmp_path / "calibration.json")
    assert thread_time() - began < 20
    assert found.model.per_cluster > 0  # a boundary of Python; nodes take as long on both


@pytest.mark.usefixtures("hasty")
def test_of_a_device_by_name(tmp_path: Path):
    with installed(FaultyDevice(declines=frozenset({"CONV_2D", "LOGISTIC"}))):
        found = ep_nnapi.calibrate(tmp_path / "c.json", device=FAULTY)
    assert found.device == FAULTY
    cpu, nnapi = found.model.cpu.per_mac, found.model.nnapi.per_mac
    same = {f for f in CostClass if cpu[f] == nnapi[f]}
    assert {CostClass.CONVOLUTION, CostClass.QUANTIZED, CostClass.FUNCTION} <= same


def test_a_device_that_cannot_even_add(tmp_path: Path):
    with (
        installed(FaultyDevice(declines=frozenset({"ADD"}))),
        pytest.raises(ep_nnapi.OptionError, match="device faulty does not add floats"),
    ):
        ep_nnapi.calibrate(tmp_path / "c.json")
    assert not list(tmp_path.iterdir())


def test_an_unknown_device(tmp_path: Path):
    with pytest.raises(ep_nnapi.OptionError, match="device 'none' is unknown"):
        ep_nnapi.calibrate(tmp_path / "c.json", device="none")


@pytest.mark.usefixtures("hasty")
def test_a_device_that_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = str(tmp_path / "c.json")
    broken = installed(FaultyDevice(fails_at=frozenset({30})))
    with broken, pytest.raises(ep_nnapi.RuntimeFailure, match="out of luck"):
        ep_nnapi.calibrate(path)
    with installed(FaultyDevice(fails_at=frozenset({0}))):
        assert main(["devices", "--calibrate", path]) == 3
    assert capsys.readouterr().err.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("hasty")
def test_a_place_that_cannot_be_written(tmp_path: Path):
    with pytest.raises(ep_nnapi.OptionError, match="cannot be written"):
        ep_nnapi.calibrate(tmp_path / "none" / "c.json")


# on the command line -------------------------------------------------------------------------


@pytest.mark.usefixtures("hasty")
def test_devices_calibrates(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = str(tmp_path / "c.json")
    assert main(["devices", "--calibrate", path]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split() == ["microseconds", "CPU", "provider", "nnapi-reference"]
    assert len(lines) == 4 + len(CostClass)
    assert lines[0].startswith("cluster")
    assert main(["devices", "--calibrate", path, "--device", "nnapi-reference", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(Path(path).read_text())
    given = ("--partitioning", "worth_it", "--calibration", path)
    assert main(["check", "models/digits.onnx", *given]) == 0
    assert main(["check", "models/digits.onnx", *given, "--target", "builtin-nnapi"]) == 2
    assert "was measured on a desktop" in capsys.readouterr().err


def test_devices_takes_a_device_only_to_measure_it(capsys: pytest.CaptureFixture[str]):
    assert main(["devices", "--device", "nnapi-reference"]) == 2
    assert "give --calibrate FILE" in capsys.readouterr().err
    assert main(["devices", "--calibrate", "c.json", "--device", "none"]) == 2


FAMILIES = dict(family_probes())


def test_every_family_has_a_probe() -> None:
    assert FAMILIES.keys() == set(CostClass)


@pytest.mark.parametrize(("family", "probe"), FAMILIES.items(), ids=[str(f) for f in FAMILIES])
def test_a_probe_is_a_valid_model_of_its_family_that_runs(family: CostClass, probe: Chain) -> None:
    onnx.checker.check_model(onnx.load_from_string(probe.model))
    assert {cost_class(n) for n in probe.grouped_nodes} == {family}
    (found,) = session_of(probe.model).run(None, dict(probe.feeds))
    (given,) = probe.feeds.values()
    assert probe.border == given.nbytes + found.nbytes


@pytest.mark.parametrize("length", [1, 9])
def test_a_chain_adds_x_as_often_as_it_is_long(length: int) -> None:
    probe = chain(length, 8)
    (found,) = session_of(probe.model).run(None, dict(probe.feeds))
    (x,) = probe.feeds.values()
    assert len(probe.grouped_nodes) == length
    assert found == pytest.approx((length + 1) * x, rel=1e-6)  # up to nine roundings of float32
    assert probe.bytes == length * 3 * 8 * 4  # each reads two tensors of eight floats, writes one


def test_the_work_of_a_convolution_is_counted_by_hand() -> None:
    probe = FAMILIES[CostClass.CONVOLUTION]
    assert probe.macs == 56 * 56 * 32 * 32 * 3 * 3


DIGITS = "models/digits.onnx"


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    samples = [*seeds_of(BY_NAME["RELU"])]
    monkeypatch.setattr("ep_nnapi.nnapi.profile.record.seeds", lambda: samples)


@pytest.mark.usefixtures("few")
def test_the_profile_is_written(tmp_path: Path):
    found = ep_nnapi.record_profile(tmp_path / "device.json", device="host-cpu")
    assert found == read_profile(tmp_path / "device.json")
    assert (found.device.name, found.exact) == ("host-cpu", {})
    assert {operation for operation, *_ in found.groups} == {"RELU"}


@pytest.mark.usefixtures("few")
def test_the_same_device_through_the_c_api(tmp_path: Path):
    """The library's client asks the same runtime through Android's C functions."""
    library = ep_nnapi.libneuralnetworks_path()
    names = {"device": "nnapi-reference"}
    there = ep_nnapi.record_profile(tmp_path / "a.json", [DIGITS], runtime=library, **names)
    here = ep_nnapi.record_profile(tmp_path / "b.json", [DIGITS], **names)
    assert there == here
    assert (tmp_path / "a.json").read_text() == (tmp_path / "b.json").read_text()


@pytest.mark.usefixtures("few")
def test_times_are_measured_and_decide_what_is_worth_it(tmp_path, monkeypatch):
    monkeypatch.setattr(calibrating, "_MEASURE_SECONDS", 0.0)
    path, steps = tmp_path / "device.json", []
    found = ep_nnapi.record_profile(
        path, [DIGITS], times=True, progress=lambda done, of: steps.append((done, of))
    )
    assert steps[-1] == (len(steps), len(steps))
    assert read_profile(path) == found
    assert found.calibration is not None
    assert found.calibration["device"] == found.device.name
    free = Rates(0, 0, dict.fromkeys(CostClass, 0.0))
    costly = Rates(1, 1, dict.fromkeys(CostClass, 1.0))
    for per_cluster, taken in ((1.0, 8), (1e9, 0)):
        costs = CostModel(costly, free, per_byte=0, per_cluster=per_cluster)
        measured = Calibration.of("system", found.device, costs)
        write(replace(found, calibration=measured.to_json()), path)
        report = ep_nnapi.check(DIGITS, partitioning="worth_it", device_profile=path)
        assert report.taken == taken


def test_a_model_that_is_none_is_told_before_anything_is_asked(tmp_path: Path):
    with pytest.raises(ModelError, match="no such file"):
        ep_nnapi.record_profile(tmp_path / "device.json", [DIGITS, "none.onnx"])
    assert not list(tmp_path.iterdir())
