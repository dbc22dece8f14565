"""LiteRT's devices on the host runtime, by their names only: settings may have them."""

from math import inf

import pytest

import ep_nnapi
from ep_nnapi.litert.source import LITERT_DEVICES
from ep_nnapi.nnapi.errors import OptionError
from ep_nnapi.nnapi.host.registry import host_runtime, is_named_only, least_work, sources
from ep_nnapi.options.table import parse
from ep_nnapi.provider.devices import tunable_devices
from tests.cli.command import DIGITS
from tests.litert.needs import LITERT, installed


def test_the_installed_package_registers_them() -> None:
    assert LITERT_DEVICES in sources()
    assert (is_named_only("litert-npu"), least_work("litert-npu")) == (True, 0)
    assert (is_named_only("litert"), least_work("litert")) == (False, inf)
    assert "litert-cpu" not in {d.name for d in host_runtime().devices()}


@LITERT
def test_a_session_on_the_host_may_name_one() -> None:
    expected = {"litert-cpu"}
    assert {c.device for c in ep_nnapi.check(DIGITS, device="litert-cpu").clusters} == expected
    with pytest.raises(OptionError, match="device litert-npu is not there; LiteRT has litert-cpu"):
        ep_nnapi.check(DIGITS, device="litert-npu")


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({}, ["nnapi-reference", "host-cpu", *["litert-cpu"] * installed()]),
        ({"device": "cpu"}, ["cpu"]),
    ],
)
def test_tune_tries_its_cpu_where_it_is_installed(options: dict[str, str], found: list[str]):
    assert tunable_devices(parse(options)) == found
