"""Writing of reports for other tools: all files of a format, each whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

from ep_nnapi.errors import OptionError
from ep_nnapi.files import write_atomically, write_text
from ep_nnapi.report import Report
from ep_nnapi.report_formats import model_explorer


class Format(StrEnum):
    """Tools that a report can be written for."""

    MODEL_EXPLORER = "model-explorer"
    NETRON = "netron"


def write_format(form: Format, model: Path, report: Report, output: Path) -> list[Path]:
    """Writes a report, as of `check`, for a tool; returns the files.

    model-explorer   the graph at `output`, and beside it node data: `NAME.decision.json`, ...
    netron           an .onnx file at `output`
    Raises ModelError for a model that the tool cannot show, OptionError if a file cannot be written
    or `output` is the model itself.
    """
    if output.resolve() == model.resolve():
        raise OptionError(f"{output} is the model itself; give another output")
    return _WRITERS[form](model, report, output)


def _model_explorer(model: Path, report: Report, output: Path) -> list[Path]:
    contents = {output: model_explorer.collection(report, model.name)}
    for name, data in model_explorer.overlays(report).items():
        contents[output.with_name(f"{output.stem}.{name}.json")] = data
    for path, content in contents.items():
        write_text(path, json.dumps(content, indent=1, allow_nan=False))
    return list(contents)


def _netron(model: Path, report: Report, output: Path) -> list[Path]:
    from ep_nnapi.report_formats.netron import annotated

    content = annotated(model, report, output.parent)
    try:
        write_atomically(output, [content])
    except OSError as error:
        raise OptionError(f"{output} cannot be written: {error.strerror}") from None
    return [output]


_WRITERS: dict[Format, Callable[[Path, Report, Path], list[Path]]] = {
    Format.MODEL_EXPLORER: _model_explorer,
    Format.NETRON: _netron,
}
