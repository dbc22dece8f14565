"""Prepared models as a user meets them: in a fresh process, away from the original."""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import onnx
from onnxruntime import GraphOptimizationLevel as Level

from ep_nnapi.sessions.cpu import exact_options, session_of
from tests.programs import python

ROOT = Path(__file__).parents[2]
CPU = ["CPUExecutionProvider"]
Arrays = dict[str, np.ndarray]
_RUN = """
import json, sys
import numpy as np
import onnxruntime as ort
plain, feeds, loads = json.load(sys.stdin)
if plain:
    sys.modules["ep_nnapi"] = None  # importing it is an error
    ort.set_default_logger_severity(4)
else:
    import ep_nnapi
given = dict(np.load(feeds))
for load in loads:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    for key, value in load["entries"].items():
        options.add_session_config_entry(key, value)
    if not plain:
        ep_nnapi.append_execution_provider(options, **load["options"])
    providers = ["CPUExecutionProvider"] if plain else None
    session = ort.InferenceSession(load["model"], options, providers=providers)
    names = [o.name for o in session.get_outputs()]
    np.savez(load["out"], **dict(zip(names, session.run(names, given))))
    print(load["out"])
"""
_REPLAYED = {"session.enable_saved_runtime_optimizations": "1"}


@dataclass(frozen=True, slots=True)
class Load:
    """One session: a prepared model, the provider's options, entries of the session's own."""

    model: str
    out: str
    options: dict[str, object]
    entries: dict[str, str]


def run(model: Path, feeds: Arrays, options: dict[str, object] | None) -> Arrays:
    """Its outputs in a fresh process; options None is plain onnxruntime without this package."""
    load = loading(model, options or {})
    outputs, said = run_all([load], feeds, model.parent, plain=options is None)
    assert outputs, said
    return outputs[0]


def loading(model: Path, options: dict[str, object], *, replay: bool = False) -> Load:
    """One session on `model`; `replay` asks for the optimizations that are recorded in it."""
    out = model.with_name(f"{model.name}.{replay}.npz")
    return Load(str(model), str(out), options, _REPLAYED if replay else {})


def run_all(
    loads: Sequence[Load], feeds: Arrays, folder: Path, *, plain: bool
) -> tuple[list[Arrays], str]:
    """Outputs of the sessions in their order, in a fresh process, up to one that fails.

    And what the process said. `plain` is onnxruntime where this package cannot be imported.
    """
    given = folder / "given.npz"
    np.savez(given, **feeds)
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = python(
        _RUN,
        status=None,
        cwd=folder,
        timeout=600,
        input=json.dumps([plain, str(given), [asdict(load) for load in loads]]),
        env=env,
    )
    return [dict(np.load(out)) for out in done.stdout.splitlines()], done.stderr


def original(model: onnx.ModelProto, feeds: Arrays, level: Level = Level.ORT_ENABLE_ALL) -> Arrays:
    options = exact_options()
    options.graph_optimization_level = level
    session = session_of(model.SerializeToString(), options)
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


def apart(got: Arrays, want: Arrays) -> float:
    """The largest difference, relative to max(1, the largest value); infinite for other shapes."""
    if got.keys() != want.keys():
        return float("inf")
    worst = 0.0
    for name, b in want.items():
        a = got[name]
        if a.shape != b.shape or a.dtype != b.dtype:
            return float("inf")
        largest = max(1.0, float(np.abs(b.astype(np.float64)).max(initial=0)))
        differences = np.abs(a.astype(np.float64) - b.astype(np.float64))
        worst = max(worst, float(np.nan_to_num(differences, nan=np.inf).max(initial=0)) / largest)
    return worst
