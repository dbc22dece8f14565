"""`devices`: those of the NNAPI runtime, and a runtime that cannot be used."""

from __future__ import annotations

import json
import re

import pytest

from ep_nnapi.errors import RuntimeFailure
from ep_nnapi.provider import devices as runtimes
from tests.cli.command import DONE, FAILED


def test_devices(cli):
    code, out, _ = cli("devices")
    assert code == DONE
    assert re.search(r"^nnapi-reference +CPU", out, re.M)
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
