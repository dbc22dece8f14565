"""Ranges of INT64 inputs that the user states: checked, and kept by the inputs of a comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
from onnx import ModelProto, TensorProto

from ep_nnapi.errors import valid_names
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.errors import OptionError

Interval: TypeAlias = tuple[int, int]
"""The least and the greatest element."""

_INT32 = np.iinfo(np.int32)
_SEED = 0


def int64_inputs(model: ModelProto) -> list[str]:
    """Returns the names of the inputs that callers give as INT64."""
    constants = {t.name for t in model.graph.initializer}
    return [
        i.name
        for i in model.graph.input
        if i.type.tensor_type.elem_type == TensorProto.INT64 and i.name not in constants
    ]


def check_ranges(model: ModelProto, ranges: Mapping[str, Interval]) -> None:
    """Raises OptionError for a range of no INT64 input, an empty one, and one beyond INT32."""
    inputs = int64_inputs(model)
    for name, (low, high) in ranges.items():
        if name not in inputs:
            there = valid_names(name, inputs) if inputs else "none"
            raise OptionError(f"range: the model has no INT64 input {name!r}; it has {there}")
        if not _INT32.min <= low <= high <= _INT32.max:
            raise OptionError(
                f"range of {name} is {low}:{high}; it must be LOW:HIGH from {_INT32.min} to "
                f"{_INT32.max}"
            )


def inputs_in_range(
    runs: Sequence[Mapping[str, Array]],
    files: tuple[str, ...],
    ranges: Mapping[str, Interval],
    folder: Path,
) -> tuple[str, ...]:
    """Returns files of inputs whose elements are in the ranges.

    runs   the inputs: those of `files`, or random ones if there are no files
    files  what is returned, unless there are none: then a new file in `folder`
    Raises OptionError if an element of a given input is outside of its range.
    """
    if files:
        for name, (low, high) in observed_ranges(runs).items():
            least, greatest = ranges.get(name, (low, high))
            if low < least or high > greatest:
                raise OptionError(
                    f"the given {name} has elements from {low} to {high}, outside of its range "
                    f"{least}:{greatest}"
                )
        return files
    chance = np.random.default_rng(_SEED)
    inside = {n: chance.integers(*r, runs[0][n].shape, endpoint=True) for n, r in ranges.items()}
    path = folder / "in_range.npz"
    np.savez(path, allow_pickle=False, **{**runs[0], **inside})
    return (str(path),)


def observed_ranges(runs: Sequence[Mapping[str, Array]]) -> dict[str, Interval]:
    """Returns the ranges of the elements of INT64 inputs over all runs; empty inputs have none."""
    found: dict[str, Interval] = {}
    for fed in runs:
        for name, array in fed.items():
            if array.dtype == np.int64 and array.size:
                low, high = found.get(name, (int(array.min()), int(array.max())))
                found[name] = min(low, int(array.min())), max(high, int(array.max()))
    return found
