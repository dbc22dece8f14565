"""A PyTorch module on NNAPI in one line, in four forms, and what each costs.

    python examples/torch_one_line.py

Compiled by torch.compile, at the first call, as it is or ahead; converted, saved and loaded;
quantized by torchao where it is installed.
"""

import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from time import perf_counter

import torch
from torch import nn
from torch_nnapi import SmallMobileNetV2

import ep_nnapi.torch

RUNS = 50


def quantized(model: nn.Module, image: torch.Tensor) -> nn.Module:
    """The model in 8 bits: torchao's PT2E flow, with one batch to find the ranges."""
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
    from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

    quantizer = x86.X86InductorQuantizer()
    quantizer.set_global(x86.get_default_x86_inductor_quantization_config())
    prepared = prepare_pt2e(torch.export.export(model, (image,)).module(), quantizer)
    prepared(image)
    return convert_pt2e(prepared)


def compiled_ahead(model: nn.Module, image: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
    """The model for inputs like this one, its parameters in the graph."""

    @torch.compile(backend="ep_nnapi", fullgraph=True)
    def scores(image: torch.Tensor) -> torch.Tensor:
        return model(image)

    with torch._dynamo.config.patch(install_free_tensors=True):
        return scores.aot_compile(((image,), {}))


def frozen(model: nn.Module, image: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
    """The model as it is now: PyTorch looks for no changes of it."""
    options = {"guard_filter_fn": torch.compiler.skip_guard_on_all_nn_modules_unsafe}
    compiled = torch.compile(model, backend="ep_nnapi", isolate_recompiles=True, options=options)
    with torch._dynamo.config.patch(install_free_tensors=True):
        compiled(image)
    return compiled


def milliseconds(run: Callable[[], object]) -> float:
    """Median of some runs after a warm-up."""
    times = []
    for _ in range(RUNS):
        started = perf_counter()
        run()
        times.append(1000 * (perf_counter() - started))
    return median(times[RUNS // 5 :])


def main() -> float:
    """The largest difference between NNAPI and eager PyTorch, relative to the largest score."""
    torch.manual_seed(0)
    model, image = SmallMobileNetV2(), torch.randn(1, 3, 64, 64)
    for _ in range(5):  # stands for training: batch norm gathers its statistics
        model(torch.randn(8, 3, 64, 64))
    model.eval()
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        eager = model(image)
        compiled = torch.compile(model, backend="ep_nnapi")
        converted = ep_nnapi.torch.to_nnapi(model, (image,))
        print(converted.report.summary)
        converted.save(Path(folder, "mobilenet.onnx"))
        loaded = ep_nnapi.torch.load(Path(folder, "mobilenet.onnx"))
        ahead, as_it_is = compiled_ahead(model, image), frozen(model, image)
        difference = max(
            float((run(image) - eager).abs().max() / eager.abs().max())
            for run in (compiled, as_it_is, ahead, converted, loaded)
        )
        print(f"largest difference {difference:.1e} of the largest score")
        forms = {"eager": model, "torch.compile": compiled, "frozen": as_it_is, "ahead": ahead}
        forms |= {"to_nnapi": converted}
        if find_spec("torchao") is not None:
            in_8_bits = quantized(model, image)
            forms |= {"8 bits, eager": in_8_bits}
            forms |= {"8 bits, to_nnapi": ep_nnapi.torch.to_nnapi(in_8_bits, (image,))}
        for name, run in forms.items():
            print(f"{name:18} {milliseconds(lambda run=run: run(image)):8.2f} ms")
    return difference


if __name__ == "__main__":
    main()
