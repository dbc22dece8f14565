"""PyTorch's announcement of its NNAPI backend, measured here: MobileNetV2 and an audio network.

PyTorch's own converter makes a module that calls libneuralnetworks.so. It takes turns with PyTorch
on one core and on two, and with ONNX Runtime's CPU provider on the exported network. NNAPI clients
name neither a device nor threads, so NNAPI has every core. Medians of the rounds; the ratio is that
of NNAPI's time to the CPU provider's on the same number of cores, each round's with its own.

python -m bench torch_client
"""

from __future__ import annotations

import ctypes
import os
import sys
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING

import onnxruntime

import ep_nnapi

if TYPE_CHECKING:
    import torch

ROUNDS = 40
WARM_UP = 3
EXAMPLES = Path(__file__).parents[1] / "examples"
CORES = os.cpu_count() or 1
NNAPI, PROVIDER = f"NNAPI, {CORES} cores", f"CPU provider, {CORES} cores"
Calls = Mapping[str, Callable[[], object]]


def audio() -> torch.nn.Module:
    """Convolutions over a spectrogram of 64 bands, as networks for sounds have them."""
    from torch import nn

    layers: list[nn.Module] = []
    for before, after in ((1, 32), (32, 64), (64, 64), (64, 128)):
        layers += [nn.Conv2d(before, after, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 50)).eval()


def out_of_place(module: torch.nn.Module) -> torch.nn.Module:
    """The module, its activations not in place, which PyTorch's converter does not take."""
    for part in module.modules():
        if hasattr(part, "inplace"):
            part.inplace = False
    return module


def on_nnapi(module: torch.nn.Module, example: torch.Tensor) -> Callable[[], object]:
    """A call of the module that PyTorch's converter makes, in channels-last."""
    import torch
    from torch.backends._nnapi.prepare import convert_model_to_nnapi

    given = example.contiguous(memory_format=torch.channels_last)
    given.nnapi_nhwc = True
    converted = convert_model_to_nnapi(torch.jit.trace(module, given), given)
    return partial(converted, given)


def on_provider(module: torch.nn.Module, example: torch.Tensor) -> Callable[[], object]:
    """A run of the exported network on the CPU provider with every core.

    Its threads stop between runs, else they take the other calls' cores.
    """
    import torch

    file = BytesIO()
    torch.onnx.export(module, (example,), file, dynamo=False, opset_version=17)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = CORES
    options.add_session_config_entry("session.force_spinning_stop", "1")
    session = onnxruntime.InferenceSession(file.getvalue(), options)
    return partial(session.run, None, {session.get_inputs()[0].name: example.numpy()})


def eager(module: torch.nn.Module, example: torch.Tensor, cores: int) -> object:
    """A run in PyTorch."""
    import torch

    torch.set_num_threads(cores)
    return module(example)


def rounds(calls: Calls) -> dict[str, list[float]]:
    """Milliseconds of each round by call; the calls take turns, in alternating order."""
    spent: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(WARM_UP + ROUNDS):
        for name, call in list(calls.items())[:: 1 if number % 2 else -1]:
            began = perf_counter()
            call()
            if number >= WARM_UP:
                spent[name].append(1000 * (perf_counter() - began))
    return spent


def measured(name: str, module: torch.nn.Module, example: torch.Tensor) -> str:
    """A line for a network."""
    calls: dict[str, Callable[[], object]] = {
        "PyTorch, 1 core": partial(eager, module, example, 1),
        f"PyTorch, {CORES} cores": partial(eager, module, example, CORES),
        PROVIDER: on_provider(module, example),
        NNAPI: on_nnapi(module, example),
    }
    spent = rounds(calls)
    times = "; ".join(f"{call} {median(all_of):.2f} ms" for call, all_of in spent.items())
    ratio = median(a / b for a, b in zip(spent[NNAPI], spent[PROVIDER], strict=True))
    return f"{name}: {times}; {ratio:.2f} of the CPU provider's time"


def main() -> None:
    """Prints a line for each network."""
    if find_spec("torch") is None:
        print("PyTorch is not installed; `make test-torch` sets up .venv-torch, which has it")
        return
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # PyTorch's threads leave others the cores
    import torch

    from bench.torch_speed import mobilenet

    warnings.simplefilter("ignore")  # PyTorch's tracer is deprecated, its converter needs it
    ctypes.CDLL(ep_nnapi.libneuralnetworks_path())
    sys.path.insert(0, str(EXAMPLES))
    with torch.no_grad():
        print(
            measured("MobileNetV2", out_of_place(mobilenet()), torch.randn(1, 3, 224, 224)),
            flush=True,
        )
        print(measured("audio", audio(), torch.randn(1, 1, 64, 96)), flush=True)


if __name__ == "__main__":
    main()
