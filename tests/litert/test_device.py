"""LiteRT as a device: what it takes, its reasons, and the conformance cases."""

from dataclasses import dataclass

import numpy as np
import pytest

from ep_nnapi.litert.device import LiteRtRuntime, open_runtime
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.errors import RuntimeFailure
from ep_nnapi.nnapi.model import Model, Operand
from ep_nnapi.nnapi.runtime import Device
from ep_nnapi.nnapi.spec import F32
from tests.litert.needs import LITERT
from tests.nnapi import conformance
from tests.ort_devices.networks import Network, chain, feed

CASES = conformance.folder_cases()


@dataclass(frozen=True)
class OnDevice:
    """A device of the package's library."""

    name: str

    @property
    def device(self) -> Device:
        return next(d for d in open_runtime().devices() if d.name == self.name)

    def supported(self, model: Model) -> tuple[bool, ...]:
        return open_runtime().supported(model, self.device)

    def compile(self, model: Model):
        return open_runtime().compile(model, self.device)


def cpu() -> OnDevice:
    return OnDevice("litert-cpu")


def softmax(beta: float):
    net, x = Network(), Operand(F32, (1, 2))
    y = net.operation(spec.SOFTMAX, [net.add(x), beta], x)
    return net.model(net.operation(spec.RELU, [y], x))


def test_it_declines_with_a_reason() -> None:
    runtime = LiteRtRuntime()
    assert runtime.supported(softmax(-1.0), runtime.devices()[0]) == (False, True)
    assert runtime.explanation(softmax(-1.0), [0]) == "beta is not positive"
    assert runtime.supported(softmax(1.0), runtime.devices()[0]) == (True, True)


def test_without_a_library_nothing_is_compiled() -> None:
    runtime = LiteRtRuntime()
    compiled = runtime.compile(softmax(1.0), runtime.devices()[0])
    with pytest.raises(RuntimeFailure, match=r"the \.tflite is written, not compiled"):
        compiled.run(feed(softmax(1.0)))


@LITERT
def test_what_it_declines_it_does_not_compile() -> None:
    with pytest.raises(RuntimeFailure, match="litert-cpu: beta is not positive"):
        cpu().compile(softmax(-1.0))


@LITERT
def test_given_arrays_are_filled() -> None:
    model = chain()
    compiled = cpu().compile(model)
    (wanted,) = compiled.run(feed(model))
    out = np.empty_like(wanted)
    (result,) = compiled.run(feed(model), [out])
    assert result is out
    np.testing.assert_array_equal(out, wanted)


@LITERT
@pytest.mark.long
@pytest.mark.skipif(not CASES, reason="needs ../shared/nnapi_conformance")
@pytest.mark.parametrize("file", sorted(CASES))
def test_conformance_cases_that_it_takes_pass(file: str) -> None:
    """Of models without inputs that a case omits: a .tflite has no optional ones."""
    device = cpu().device
    conformance.Examined(open_runtime(), device, without_omitted=True).assert_right(CASES[file]())
