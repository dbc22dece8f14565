"""Time of MobileNetV2 in PyTorch and on NNAPI, in float32 and in 8 bits, with one and two threads.

torchvision's network at 224 x 224 pixels with random weights, or the one of
examples/torch_nnapi.py where torchvision is not installed or is for another PyTorch. The forms take
turns, and the fastest run counts, which other programs disturb least. 8 bits: torchao's PT2E flow,
where torchao is installed; eager PyTorch runs such a module by its reference arithmetic.

python -m bench torch_speed
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter_ns
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

ROUNDS = 10
EXAMPLES = Path(__file__).parents[1] / "examples"


def mobilenet() -> torch.nn.Module:
    """The network in evaluation mode; its batch norms have seen a batch."""
    import torch

    torch.manual_seed(0)
    try:
        mobilenet_v2 = import_module("torchvision.models").mobilenet_v2
    except (ImportError, RuntimeError):
        mobilenet_v2 = import_module("torch_nnapi").SmallMobileNetV2
    model: torch.nn.Module = mobilenet_v2()
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.momentum = 1.0
    model(torch.randn(4, 3, 224, 224))
    return model.eval()


def fastest(calls: Mapping[str, tuple[int, Callable[[], object]]]) -> dict[str, float]:
    """Milliseconds of the fastest run of each call, which take turns with their own threads."""
    import torch

    least = dict.fromkeys(calls, float("inf"))
    for _ in range(ROUNDS):
        for name, (threads, call) in calls.items():
            torch.set_num_threads(threads)
            started = perf_counter_ns()
            call()
            least[name] = min(least[name], (perf_counter_ns() - started) / 1e6)
    return least


def forms() -> dict[str, tuple[int, Callable[[], object]]]:
    """The calls to measure, with their numbers of threads."""
    import torch

    from ep_nnapi.torch import to_nnapi

    image = torch.randn(1, 3, 224, 224)
    modules = {"float32": mobilenet()}
    if find_spec("torchao") is not None:
        modules["8 bits"] = import_module("torch_one_line").quantized(modules["float32"], image)
    calls: dict[str, tuple[int, Callable[[], object]]] = {}
    for form, module in modules.items():
        for threads in (1, 2):
            on_nnapi = to_nnapi(module, (image,), intra_op_num_threads=threads)
            for road, run in (("eager PyTorch", module), ("NNAPI", on_nnapi.forward)):
                calls[f"{form:8} {road:14} {threads}"] = threads, partial(run, image)
    return calls


def main() -> None:
    """Prints a row for each form of the network and number of threads."""
    if find_spec("torch") is None:
        print("PyTorch is not installed; `make test-torch` sets up .venv-torch, which has it")
        return
    import torch

    sys.path.insert(0, str(EXAMPLES))
    with torch.no_grad():
        for name, spent in fastest(forms()).items():
            print(f"{name}  {spent:8.2f} ms", flush=True)


if __name__ == "__main__":
    main()
