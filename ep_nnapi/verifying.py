"""A prepared model compared with the original, which is not there any more when it runs."""

from __future__ import annotations

import mmap
from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path

import numpy as np
from onnxruntime import GraphOptimizationLevel

from ep_nnapi.checking import open_session
from ep_nnapi.cpu import CPU, exact_options
from ep_nnapi.inputs import Feeds, fixed_specs, random_feeds, read_feeds, spec_of
from ep_nnapi.job import Verification
from ep_nnapi.nnapi.runtime import REFERENCE_DEVICE
from ep_nnapi.rejection import ModelError
from ep_nnapi.running import (
    Difference,
    differences_of,
    on_nnapi,
    outputs_of,
)
from ep_nnapi.sizes import Shapes
from ep_nnapi.tolerance import DEFAULT_TOLERANCE, QUANTIZED_TOLERANCE
from ep_nnapi.value import Array

_SEED = 0


def record(model: Path, how: Verification, fixed: Shapes, to: Path) -> float:
    """Writes inputs and what the CPU provider makes of them with the original; how near is equal.

    fixed  sizes of the inputs, which they have in the prepared model
    The tolerance, where none is given, is by whether the model has quantized layers; then it is no
    less than twice what ONNX Runtime's own levels, fused and not, are apart.
    """
    options = exact_options()
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # others need the CPU
    session = open_session(str(model), options, [CPU])
    inputs = [spec_of(i.name, i.type, i.shape) for i in session.get_inputs()]
    specs = fixed_specs(inputs, fixed)
    feeds = read_feeds(how.inputs, specs) if how.inputs else random_feeds(specs, _SEED)
    outputs = [outputs_of(session, fed, None) for fed in feeds.runs]
    arrays: dict[str, Array] = {}
    for i, (fed, found) in enumerate(zip(feeds.runs, outputs, strict=True)):
        arrays |= _numbered("in", i, fed) | _numbered("out", i, found)
    np.savez(to, allow_pickle=False, **arrays)
    if how.tolerance is not None:
        return how.tolerance
    if not _is_quantized(model):
        return DEFAULT_TOLERANCE
    return max(QUANTIZED_TOLERANCE, 2 * _between_levels(model, feeds, outputs))


def _between_levels(model: Path, feeds: Feeds, fused: Sequence[Mapping[str, Array]]) -> float:
    """How far ONNX Runtime's unfused layers are from its fused ones; 0 where no number says it."""
    options = exact_options()
    options.graph_optimization_level = GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = open_session(str(model), options, [CPU])
        unfused = [outputs_of(session, fed, None) for fed in feeds.runs]
    except ModelError:
        return 0.0  # some operators run only once they are fused
    apart = max((d.relative for d in differences_of(unfused, fused)), default=0.0)
    return apart if isfinite(apart) else 0.0


def compare(
    prepared: Path, recorded: Path, options: Mapping[str, object]
) -> tuple[Difference, ...]:
    """How far the prepared model on nnapi-reference is from what was recorded.

    Raises ModelError when it cannot be loaded, or has not the original's inputs and outputs.
    """
    with np.load(recorded, allow_pickle=False) as arrays:
        feeds, want = _runs("in", arrays), _runs("out", arrays)
    count = max(len(feeds), len(want))
    runs = Feeds(tuple(feeds.get(i, {}) for i in range(count)))
    _, got = on_nnapi(str(prepared), runs, {**options, "device": REFERENCE_DEVICE})
    wanted = [want.get(i, {}) for i in range(count)]
    if any(g.keys() != w.keys() for g, w in zip(got, wanted, strict=True)):
        raise ModelError("the prepared model's outputs have other names than the original's")
    return differences_of(got, wanted)


def _is_quantized(model: Path) -> bool:
    """Whether an operator's name says so: names are plain text in .onnx and .ort files."""
    with model.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        names = (b"QuantizeLinear", b"QLinear")
        # most models have not even what both names end in, which is one look at their weights
        return data.find(b"Linear") >= 0 and any(data.find(name) >= 0 for name in names)


def _numbered(side: str, run: int, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Arrays under keys that are no tensor names, which may be anything."""
    found: dict[str, Array] = {}
    for k, (name, array) in enumerate(arrays.items()):
        found[f"{side}.{run}.{k}"] = array
        found[f"{side}.{run}.{k}.name"] = np.array(name)
    return found


def _runs(side: str, arrays: Mapping[str, Array]) -> dict[int, dict[str, Array]]:
    runs: dict[int, dict[str, Array]] = {}
    for key in arrays:
        kind, run, *rest = key.split(".")
        if kind == side and len(rest) == 1:
            runs.setdefault(int(run), {})[str(arrays[f"{key}.name"])] = arrays[key]
    return runs
