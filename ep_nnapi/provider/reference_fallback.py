"""Fallback of a cluster on nnapi-reference, the reference device of the host runtime."""

from __future__ import annotations

from collections.abc import Sequence

from ep_nnapi.lowering.border import Allocate, BoundBorder
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.model import Model
from ep_nnapi.nnapi.runtime import CompileOptions, RunOptions
from ep_nnapi.provider.compiler import Compiler
from ep_nnapi.provider.cpu_fallback import Executor, Stop
from ep_nnapi.provider.device_health import health_of
from ep_nnapi.provider.devices import fallback_device


def is_on_reference(compiler: Compiler) -> bool:
    """Returns True if the device of the compiler is that of the fallback."""
    runtime, reference = fallback_device()
    return compiler.health is health_of(runtime) and compiler.device == reference


def reference_executor(compiler: Compiler, model: Model, border: BoundBorder) -> Executor:
    """Returns what runs a cluster's model on nnapi-reference, as precisely as `compiler` asks."""
    runtime, reference = fallback_device()
    options = CompileOptions(precise=compiler.options.precise)
    compilation = runtime.compile(model, reference, options)

    def run(inputs: Sequence[Array], allocate: Allocate, stop: Stop) -> None:
        border.run(compilation, inputs, allocate, RunOptions(stop=stop))

    return run
