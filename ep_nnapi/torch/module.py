"""Modules that run on NNAPI: `to_nnapi`, `NnapiModule`, its files, and `load`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import SupportsIndex

import torch

from ep_nnapi.diagnostics.check import with_lines
from ep_nnapi.diagnostics.session_runs import source
from ep_nnapi.graph.source_lines import lines_of_nodes
from ep_nnapi.nnapi.errors import ModelError, NnapiError
from ep_nnapi.options.table import parse
from ep_nnapi.preparation.batch import prepare
from ep_nnapi.report.report import Report
from ep_nnapi.torch.export import reads_memory, to_onnx, traced, write
from ep_nnapi.torch.structure import ForwardArguments, Results, from_json, to_json
from ep_nnapi.torch.tensor_session import TensorSession, session_of

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
    arguments = ForwardArguments.of_call(module.forward, args, named)
    exported, results = traced(module, args, named, dynamic_shapes)
    program = to_onnx(exported)
    if any(reads_memory(exported)):
        arguments.require_contiguous()
        arguments.tensors(args, named)
    session = session_of(program, options)
    return NnapiModule(session, arguments, results, program, options)


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


_METADATA = "ep_nnapi.torch"


class NnapiModule(torch.nn.Module):
    """A module for inference on NNAPI, with the arguments and results of the one it was made of."""

    def __init__(
        self,
        session: TensorSession,
        arguments: ForwardArguments,
        results: Results,
        program: torch.onnx.ONNXProgram | None = None,
        options: Mapping[str, object] | None = None,
    ) -> None:
        """Use `to_nnapi` or `load`."""
        super().__init__()
        self._session, self._arguments, self._results = session, arguments, results
        self._result_of = results.builder()
        self._program, self._options = program, dict(options or {})
        taken = sum(leaf.tensor is not None for leaf in arguments.leaves)
        if taken != len(session.inputs):
            raise ModelError(
                f"the model has {len(session.inputs)} inputs and the module {taken} tensors as "
                "arguments; numbers cannot be dynamic, give them as tensors"
            )

    def forward(self, *args: object, **kwargs: object) -> object:
        """Returns what the original module returns; raises NnapiError if the model cannot run."""
        outputs = self._session.run(self._arguments.tensors(args, kwargs))
        return self._result_of(outputs)

    @property
    def report(self) -> Report:
        """Report of the partitioning; rejections have the module and the source line."""
        report = self._session.report
        if self._program is None:
            return report
        nodes = self._program.model.graph.all_nodes()
        found = ((n.name or "", [v.name for v in n.outputs], n.metadata_props) for n in nodes)
        return with_lines(report, lines_of_nodes(found))

    def __deepcopy__(self, memo: dict[int, object]) -> NnapiModule:
        """Returns a module with the same session, which nothing changes."""
        parts = self._session, self._arguments, self._results, self._program, self._options
        copied = NnapiModule(*parts)
        copied.train(self.training)
        return copied

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[object, ...]:
        """Raises NnapiError: a session cannot be pickled."""
        raise NnapiError(
            "an NnapiModule cannot be pickled; its save(path) writes a file for ep_nnapi.torch.load"
        )

    def __copy__(self) -> NnapiModule:
        """Returns a module with the same session."""
        return self.__deepcopy__({})

    def extra_repr(self) -> str:
        """Returns what NNAPI takes."""
        return self._session.report.summary

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        format: str = "context",
        alternatives: str | None = None,
    ) -> None:
        """Writes the module as a prepared model, for `load` and for `ep-nnapi run`.

        path          an .onnx file; its weights are written beside it and mapped when it is loaded
        format        as for `prepare`: `context` has each cluster compiled, which needs fixed
                      sizes; `onnx` and `ort` (an .ort file) can be loaded by plain onnxruntime, too
        alternatives  as for `prepare`, such as "litert,cpu": programs of each cluster
        The model is compared with the original before it is written. Raises ModelError if the two
        differ or if there is nothing to compile, OptionError if the format or an option does not
        fit.
        """
        if self._program is None:
            raise ModelError("the module is loaded from a file already; copy that file")
        text = to_json(self._arguments, self._results)
        with TemporaryDirectory(prefix="ep-nnapi-") as folder:
            model = Path(folder, "model.onnx")
            self._program.model.metadata_props[_METADATA] = text
            write(self._program, model)
            prepared: Callable[..., object] = prepare
            given = {"alternatives": alternatives} if alternatives is not None else {}
            prepared(model, path, jobs=1, format=format, **given, **self._options)


def load(path: str | os.PathLike[str], **options: object) -> NnapiModule:
    """Returns a module that `NnapiModule.save` has written, without PyTorch's exporter.

    options   the provider's
    Raises ModelError if the file is no saved module, OptionError for invalid options.
    """
    session = TensorSession(source(path), options)
    text = session.metadata.get(_METADATA)
    if text is None:
        raise ModelError(
            f"{os.fspath(path)} is no module that NnapiModule.save has written; run models in an "
            "onnxruntime.InferenceSession"
        )
    return NnapiModule(session, *from_json(text))
