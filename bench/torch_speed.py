"""Time of MobileNetV2 in PyTorch and on NNAPI, in float32 and in 8 bits, with one and two threads.

torchvision's network at 224 x 224 pixels with random weights, or the one of
examples/torch_nnapi.py where torchvision is not installed. The forms take
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
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import torch

ROUNDS = 10
_LIBRARIES: list[torch.library.Library] = []  # declarations live as long as these
THREADS = (1, 2)
EXAMPLES = Path(__file__).parents[1] / "examples"


class Form(NamedTuple):
    """The network in one precision, who runs it, and by how many threads."""

    precision: str
    road: str
    threads: int


def mobilenet() -> torch.nn.Module:
    """The network in evaluation mode; its batch norms have seen a batch."""
    import torch

    torch.manual_seed(0)
    if find_spec("torchvision") is None:
        model: torch.nn.Module = import_module("torch_nnapi").SmallMobileNetV2()
    else:
        model = torchvision_models().mobilenet_v2()
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.momentum = 1.0
    model(torch.randn(4, 3, 224, 224))
    return model.eval()


def torchvision_models() -> ModuleType:
    """torchvision.models, also of a wheel for another PyTorch, whose operators do not load."""
    import torch

    try:
        return import_module("torchvision.models")
    except RuntimeError:  # asks for operators that MobileNetV2 does not use
        library = torch.library.Library("torchvision", "FRAGMENT")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _LIBRARIES.append(library)
        return import_module("torchvision.models")


def fastest(calls: Mapping[Form, Callable[[], object]]) -> dict[Form, float]:
    """Milliseconds of the fastest run of each call, which take turns with their own threads."""
    import torch

    least = dict.fromkeys(calls, float("inf"))
    for _ in range(ROUNDS):
        for form, call in calls.items():
            torch.set_num_threads(form.threads)
            started = perf_counter_ns()
            call()
            least[form] = min(least[form], (perf_counter_ns() - started) / 1e6)
    return least


def forms() -> dict[Form, Callable[[], object]]:
    """The calls to measure."""
    import torch

    from ep_nnapi.torch import to_nnapi

    image = torch.randn(1, 3, 224, 224)
    modules = {"float32": mobilenet()}
    if find_spec("torchao") is not None:
        modules["8 bits"] = import_module("torch_one_line").quantized(modules["float32"], image)
    calls: dict[Form, Callable[[], object]] = {}
    for precision, module in modules.items():
        for threads in THREADS:
            on_nnapi = to_nnapi(module, (image,), intra_op_num_threads=threads)
            calls[Form(precision, "eager PyTorch", threads)] = partial(module, image)
            calls[Form(precision, "NNAPI", threads)] = partial(on_nnapi.forward, image)
    return calls


def figures() -> dict[Form, float]:
    """Milliseconds of each form."""
    import torch

    sys.path.insert(0, str(EXAMPLES))
    with torch.no_grad():
        return fastest(forms())


def main() -> None:
    """Prints a row for each form of the network and number of threads."""
    if find_spec("torch") is None:
        print("PyTorch is not installed; `make test-torch` sets up .venv-torch, which has it")
        return
    for form, spent in figures().items():
        print(f"{form.precision:8} {form.road:14} {form.threads}  {spent:8.2f} ms", flush=True)


if __name__ == "__main__":
    main()
