"""Comparison of LiteRT flatbuffers with recorded outputs of the original, in their own process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ep_nnapi.diagnostics.run_and_compare import compared, relaxed
from ep_nnapi.diagnostics.verdict import Verdict
from ep_nnapi.litert.interpreter import FlatModel, load
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.errors import ModelError
from ep_nnapi.preparation.job import FLATBUFFER
from ep_nnapi.preparation.verify import read_recorded


def compare_flatbuffers(folder: Path, recorded: Path, options: Mapping[str, object]) -> Verdict:
    """Runs all flatbuffers of a folder in LiteRT's interpreter and judges their outputs.

    Each gets its inputs from the recorded values, so that no error of one hides another's. Raises
    ModelError if one cannot be run, or if no values of its names were recorded.
    """
    known = read_recorded(recorded)
    got: list[dict[str, Array]] = [{} for _ in known.feeds]
    for path in sorted(folder.glob(f"*{FLATBUFFER}")):
        found = load(path)
        for n, (fed, values) in enumerate(zip(known.feeds, known.outputs, strict=True)):
            got[n] |= found.run(_inputs(found, path, {**values, **fed}))
    wanted = [
        {name: array for name, array in values.items() if name in results}
        for values, results in zip(known.outputs, got, strict=True)
    ]
    _check_names(got, wanted)
    half = relaxed(options)
    return compared(known.model, known.feeds, (got, wanted), known.tolerance, half=half)


def _inputs(model: FlatModel, path: Path, values: Mapping[str, Array]) -> dict[str, Array]:
    missing = sorted(set(model.inputs) - values.keys())
    if missing:
        raise ModelError(f"{path.name} has an input {missing[0]} that the original does not have")
    return {name: values[name] for name in model.inputs}


def _check_names(got: Sequence[Mapping[str, Array]], wanted: Sequence[Mapping[str, Array]]) -> None:
    for results, values in zip(got, wanted, strict=True):
        unknown = sorted(results.keys() - values.keys())
        if unknown or not results:
            raise ModelError(f"the flatbuffers compute {unknown[:1]}, which was not recorded")
