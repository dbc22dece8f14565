"""litert-gpu on a GPU or a software Vulkan: `make test-litert-gpu` sets SwiftShader up.

Its results are repeatable. What the GPU does not compile whole stays on the CPU provider.
"""

from pathlib import Path

import numpy as np
import pytest

from ep_nnapi.litert.device import open_runtime
from ep_nnapi.litert.package import is_installed
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.errors import RuntimeFailure
from ep_nnapi.nnapi.model import Operand
from ep_nnapi.nnapi.spec import F32
from tests.litert.test_device import OnDevice, cpu
from tests.litert.test_sessions import cases, matching_nodes
from tests.nnapi.build import one
from tests.ort_devices.networks import feed

NAME = "litert-gpu"
FOUND = is_installed() and NAME in {device.name for device in open_runtime().devices()}
pytestmark = pytest.mark.skipif(
    not FOUND, reason="needs the extra litert and a GPU or a software Vulkan: make test-litert-gpu"
)


# Sessions ask about batches of 64 where that is symbolic: too many for a processor as a GPU.
CASES = [(name, form) for name, form in cases() if form != "symbolic" or name == "mlp"]


@pytest.mark.parametrize(("name", "form"), CASES)
def test_networks_match_the_cpu(name: str, form: str, tmp_path: Path) -> None:
    assert matching_nodes(name, form, NAME, tmp_path / "receipt.json")


def test_what_the_gpu_computes_wrongly_is_declined() -> None:
    """The shader for DEPTH_TO_SPACE of several images is not valid, as stderr alone says."""
    x, y = Operand(F32, (3, 4, 4, 8)), Operand(F32, (3, 8, 8, 2))
    model, gpu = one(spec.DEPTH_TO_SPACE, [x, 2], [y]), OnDevice(NAME)
    if gpu.supported(model) == (True,):  # another version, or GPU
        feeds = feed(model)
        np.testing.assert_allclose(gpu.compile(model).run(feeds), cpu().compile(model).run(feeds))
    else:
        with pytest.raises(RuntimeFailure, match="it computes other numbers than LiteRT's CPU"):
            gpu.compile(model)
