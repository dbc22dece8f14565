"""Modules that run on NNAPI: `NnapiModule`, its files, and `load`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import SupportsIndex

import torch

from ep_nnapi.diagnostics.check import source
from ep_nnapi.diagnostics.report_sources import with_lines
from ep_nnapi.graph.source_lines import lines_of_nodes
from ep_nnapi.nnapi.errors import ModelError, NnapiError
from ep_nnapi.preparation.batch import prepare
from ep_nnapi.report.report import Report
from ep_nnapi.torch.export import write
from ep_nnapi.torch.structure import Arguments, Results, from_json, to_json
from ep_nnapi.torch.tensor_session import TensorSession, session_of

_METADATA = "ep_nnapi.torch"


class NnapiModule(torch.nn.Module):
    """A module for inference on NNAPI, with the arguments and results of the one it was made of."""

    def __init__(
        self,
        session: TensorSession,
        arguments: Arguments,
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

    @classmethod
    def of_program(
        cls,
        program: torch.onnx.ONNXProgram,
        arguments: Arguments,
        results: Results,
        options: Mapping[str, object],
    ) -> NnapiModule:
        """Returns the module for what torch.onnx.export returned."""
        return cls(session_of(program, options), arguments, results, program, options)

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

    def save(self, path: str | os.PathLike[str], *, format: str = "context") -> None:
        """Writes the module as a prepared model, for `load` and for `ep-nnapi run`.

        path     an .onnx file; its weights are written beside it and mapped when it is loaded
        format   as for `prepare`: `context` has each cluster compiled, which needs fixed sizes;
                 `onnx` and `ort` (an .ort file) can be loaded by plain onnxruntime, too
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
            prepared(model, path, jobs=1, format=format, **self._options)


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
