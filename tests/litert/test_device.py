"""LiteRT as a device: what it takes, its reasons, and the conformance cases."""

import subprocess
import sys

import numpy as np
import pytest

from ep_nnapi.litert import interpreter
from ep_nnapi.litert.device import LiteRtDevice, LiteRtRuntime
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.errors import OptionError, RuntimeFailure
from ep_nnapi.nnapi.host import HostRuntime
from ep_nnapi.nnapi.model import Operand
from ep_nnapi.nnapi.spec import F32
from tests.litert.needs import LITERT
from tests.nnapi import conformance
from tests.ort_devices.networks import Network, chain, feed

RUNTIME = HostRuntime((LiteRtDevice(),))
(DEVICE,) = RUNTIME.devices()
CASES = conformance.folder_cases()


def elu(alpha: float):
    net = Network()
    x = net.add(Operand(F32, (2,)))
    y = net.operation(spec.ELU, [x, net.scalar(alpha)], Operand(F32, (2,)))
    return net.model([x], [net.operation(spec.RELU, [y], Operand(F32, (2,)))])


def test_it_declines_with_a_reason() -> None:
    runtime = LiteRtRuntime()
    assert runtime.supported(elu(0.5), runtime.devices()[0]) == (False, True)
    assert runtime.explanation(elu(0.5), [0]) == "alpha is 0.5, LiteRT's ELU has 1"
    assert runtime.supported(elu(1.0), runtime.devices()[0]) == (True, True)


@LITERT
def test_what_it_declines_it_does_not_compile() -> None:
    with pytest.raises(RuntimeFailure, match=r"litert: alpha is 0\.5"):
        RUNTIME.compile(elu(0.5), DEVICE)


@LITERT
def test_given_arrays_are_filled() -> None:
    model = chain()
    compiled = RUNTIME.compile(model, DEVICE)
    (wanted,) = compiled.run(feed(model))
    out = np.empty_like(wanted)
    (result,) = compiled.run(feed(model), [out])
    assert result is out
    np.testing.assert_array_equal(out, wanted)


def taken(case) -> bool:
    return not case.expect_failure and all(RUNTIME.supported(conformance.model(case), DEVICE))


def wrong(case) -> list[str]:
    try:
        results = RUNTIME.compile(conformance.model(case), DEVICE).run(conformance.inputs(case))
    except RuntimeFailure as error:
        return [str(error)]
    return conformance.check(case, results)


@LITERT
@pytest.mark.long
@pytest.mark.skipif(not CASES, reason="needs ../shared/nnapi_conformance")
@pytest.mark.parametrize("file", sorted(CASES))
def test_conformance_cases_that_it_takes_pass(file: str) -> None:
    found = {case.name: wrong(case) for case in CASES[file]() if taken(case)}
    assert not {name: what for name, what in found.items() if what}


# The extra is imported on demand, and its absence is one sentence

MISSING = (
    r"LiteRT needs the package ai-edge-litert, which is not installed: "
    r"pip install 'ep-nnapi\[litert\]'"
)


def test_without_the_extra_the_install_command_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ai_edge_litert", "ai_edge_litert.interpreter"):
        monkeypatch.setitem(sys.modules, name, None)  # as if it were not installed
    monkeypatch.setattr(interpreter, "find_spec", lambda name: None)
    with pytest.raises(OptionError, match=MISSING):
        interpreter.require_installed()
    with pytest.raises(OptionError, match=MISSING):
        interpreter.interpreter()


@LITERT
def test_with_the_extra_it_has_schema_and_interpreter() -> None:
    interpreter.require_installed()
    assert interpreter.schema().BuiltinOperator.CONV_2D == 3
    assert interpreter.interpreter().Interpreter


def test_importing_the_package_does_not_import_it() -> None:
    program = (
        "import sys, ep_nnapi, ep_nnapi.cli.main, ep_nnapi.litert.device\n"
        "assert 'ai_edge_litert' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
