"""Conversion of a PyTorch module to one that runs on NNAPI."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from ep_nnapi.nnapi.errors import ModelError
from ep_nnapi.options.table import parse
from ep_nnapi.torch.export import reads_memory, to_onnx, traced
from ep_nnapi.torch.module import NnapiModule
from ep_nnapi.torch.structure import Arguments

_EAGER_QUANTIZED = (
    "torch.ao.nn.intrinsic.quantized",
    "torch.ao.nn.quantized.dynamic",
    "torch.ao.nn.quantized.modules.conv",
    "torch.ao.nn.quantized.modules.linear",
)
"""Where PyTorch keeps modules that its eager-mode quantization makes."""


def to_nnapi(
    module: torch.nn.Module,
    example_inputs: object,
    kwargs: object = None,
    *,
    dynamic_shapes: object = None,
    **options: object,
) -> NnapiModule:
    """Returns a module for inference that computes what `module` does, on NNAPI.

    module          in evaluation mode (`module.eval()`)
    example_inputs  a tuple or list of positional arguments, a dictionary of keyword arguments, or
                    the one tensor that is the argument. Numbers and strings in it become constants
    kwargs          keyword arguments beside these, as for torch.export.export
    dynamic_shapes  as for torch.export.export; sizes are fixed by default
    options         the provider's
    A module that calls `as_strided` takes contiguous tensors only. What NNAPI does not take runs
    on ONNX Runtime's CPU provider; `report` says why. Raises OptionError for invalid options, and
    ModelError if PyTorch cannot export the module, with the operator, its module and its line of
    source code.
    """
    parse(options)
    _require_module(module)
    args, named = _call(example_inputs)
    if not isinstance(kwargs, Mapping | None):
        raise ModelError(f"kwargs is of type {type(kwargs).__name__}; it must be a dictionary")
    named.update(kwargs or {})
    arguments = Arguments.of_call(module.forward, args, named)
    exported, results = traced(module, args, named, dynamic_shapes)
    program = to_onnx(exported)
    if any(reads_memory(exported)):
        arguments.require_contiguous()
        arguments.tensors(args, named)
    return NnapiModule.of_program(program, arguments, results, options)


def _require_module(module: object) -> None:
    if isinstance(module, torch.jit.ScriptModule):
        raise ModelError(
            "torch.export does not take TorchScript; convert the module that it was made of"
        )
    if not isinstance(module, torch.nn.Module):
        raise ModelError(
            f"module is of type {type(module).__name__}; it must be a torch.nn.Module, which calls "
            "the function in its forward"
        )
    for name, part in module.named_modules():
        if type(part).__module__.startswith(_EAGER_QUANTIZED):
            raise ModelError(
                f"{name or 'the module'} is quantized in eager mode ({type(part).__name__}), which "
                "torch.export does not take; quantize it by torchao's PT2E flow, or convert it by "
                "torch.backends._nnapi"
            )


def _call(example: object) -> tuple[tuple[object, ...], dict[str, object]]:
    """Returns the positional and keyword arguments that `example_inputs` stand for."""
    if isinstance(example, torch.Tensor):
        return (example,), {}
    if isinstance(example, Mapping):
        return (), {str(name): value for name, value in example.items()}
    if isinstance(example, tuple | list):
        return tuple(example), {}
    raise ModelError(
        f"example_inputs is of type {type(example).__name__}; it must be a tuple of positional "
        "arguments, a dictionary of keyword arguments or one tensor"
    )
