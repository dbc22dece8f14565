"""Writing of reports for other tools: all files of a format, each whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

from ep_nnapi.nnapi.errors import OptionError
from ep_nnapi.nnapi.files import write_atomically, write_text
from ep_nnapi.report import model_explorer
from ep_nnapi.report.report import Report


class Format(StrEnum):
    """Tools that a report can be written for."""

    MODEL_EXPLORER = "model-explorer"
    NETRON = "netron"


def write_format(
    form: Format,
    model: Path,
    report: Report,
    output: Path,
    values: Mapping[str, Mapping[str, float]] = model_explorer.NO_VALUES,
) -> list[Path]:
    """Writes a report, as of `check`, for a tool; returns the files.

    model-explorer   the graph at `output`, and beside it node data: `NAME.decision.json`, ...
    netron           an .onnx file at `output`
    values           more node data of Model Explorer by name: a number for each node that has one
    Raises ModelError for a model that the tool cannot show, OptionError if a file cannot be written
    or `output` is the model itself.
    """
    if output.resolve() == model.resolve():
        raise OptionError(f"{output} is the model itself; give another output")
    if form is Format.NETRON:
        return _netron(model, report, output)
    return _model_explorer(model, report, output, values)


def _model_explorer(
    model: Path, report: Report, output: Path, values: Mapping[str, Mapping[str, float]]
) -> list[Path]:
    contents = {output: model_explorer.collection(report, model.name)}
    for name, data in model_explorer.overlays(report, values).items():
        contents[output.with_name(f"{output.stem}.{name}.json")] = data
    for path, content in contents.items():
        write_text(path, json.dumps(content, indent=1, allow_nan=False))
    return list(contents)


def _netron(model: Path, report: Report, output: Path) -> list[Path]:
    from ep_nnapi.report.netron import annotated

    content = annotated(model, report, output.parent)
    try:
        write_atomically(output, [content])
    except OSError as error:
        raise OptionError(f"{output} cannot be written: {error.strerror}") from None
    return [output]
