"""`devices`: those of the NNAPI runtime, and a runtime that cannot be used."""

import json
import re
from types import SimpleNamespace

import pytest

import ep_nnapi
from ep_nnapi.diagnostics.measured_times import DeviceTime, device_times
from ep_nnapi.nnapi.errors import RuntimeFailure
from ep_nnapi.nnapi.runtime import Duration
from ep_nnapi.provider import devices as runtimes
from tests.cli.command import DONE, FAILED, UNUSABLE
from tests.faulty import FaultyDevice, installed


@pytest.mark.fast_devices
def test_devices(shows, cli):
    out = shows("devices")
    assert re.search(r"^nnapi-reference +CPU", out, re.M)
    assert out.splitlines()[-1] == "sessions use: host-cpu, then nnapi-reference"
    devices = json.loads(cli("devices", "--json")[1])
    assert "nnapi-reference" in [d["name"] for d in devices]
    assert all(1 <= d["feature_level"] <= 8 for d in devices)


def test_a_runtime_that_cannot_be_used_is_exit_3(cli, monkeypatch: pytest.MonkeyPatch):
    def broken():
        raise RuntimeFailure("ANeuralNetworks_getDeviceCount", "ANEURALNETWORKS_DEAD_OBJECT")

    monkeypatch.setitem(runtimes.RUNTIMES, "host", broken)
    code, out, err = cli("devices")
    assert (code, out) == (FAILED, "")
    assert "ANeuralNetworks_getDeviceCount returned ANEURALNETWORKS_DEAD_OBJECT" in err


DIGITS = "models/digits.onnx"


def test_the_devices_of_a_library(cli):
    code, out, _ = cli("devices", "--runtime", ep_nnapi.libneuralnetworks_path())
    assert (code, out) == (DONE, cli("devices")[1])
    code, _, err = cli("devices", "--runtime", "/no/such.so")
    assert code == UNUSABLE
    assert (
        "it must be host, system, litert, adb, adb:SERIAL, exec:COMMAND or the path of a file"
        in err
    )


def test_what_each_device_takes_of_a_model(cli):
    with installed(FaultyDevice(declines=frozenset({"MAX_POOL_2D"}))):
        _, out, _ = cli("devices", DIGITS)
        found = json.loads(cli("devices", DIGITS, "--json")[1])
    assert re.search(r"^faulty +ACCELERATOR .* 6 of 8 +3 +2 Conv, .*2 MaxPool$", out, re.M)
    assert out.splitlines()[-1] == "sessions use: faulty"
    expected = [("faulty", 6, 3, "2 MaxPool"), ("nnapi-reference", 8, 1, "")]
    assert [(d["name"], d["nodes_taken"], d["clusters"], d["declined"]) for d in found] == expected


def test_devices_that_measure_nothing_are_not_listed():
    report = SimpleNamespace(device="npu")
    durations = ([], [Duration(None, None)] * 3, [Duration(1_000_000, None)])
    records = [SimpleNamespace(durations=d) for d in durations]
    clusters = [SimpleNamespace(report=report, record=record) for record in records]
    found = device_times(SimpleNamespace(clusters=clusters))
    assert found == (DeviceTime(2, "npu", 1.0, None),)
