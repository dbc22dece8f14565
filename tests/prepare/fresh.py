"""A prepared model as a user meets it: in a fresh process, away from the original."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

ROOT = Path(__file__).parents[2]
CPU = ["CPUExecutionProvider"]
_RUN = """
import json, sys
import numpy as np
import onnxruntime as ort
model, feeds, out, options = sys.argv[1:]
session_options = ort.SessionOptions()
session_options.log_severity_level = 4
if options == "plain":
    session = ort.InferenceSession(model, session_options, providers=["CPUExecutionProvider"])
    assert "ep_nnapi" not in sys.modules
else:
    import ep_nnapi
    ep_nnapi.append_execution_provider(session_options, **json.loads(options))
    session = ort.InferenceSession(model, session_options)
given = dict(np.load(feeds))
names = [o.name for o in session.get_outputs()]
np.savez(out, **dict(zip(names, session.run(names, given))))
"""


def run(model: Path, feeds: dict[str, np.ndarray], options: dict[str, object] | None) -> dict:
    """Its outputs in a fresh process; options None is plain onnxruntime without this package."""
    given, out = model.with_suffix(".in.npz"), model.with_suffix(".out.npz")
    np.savez(given, **feeds)
    text = "plain" if options is None else json.dumps(options)
    command = [sys.executable, "-c", _RUN, str(model), str(given), str(out), text]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        cwd=model.parent,
        env=environment,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return dict(np.load(out))


def original(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=CPU)
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


def assert_close(got: dict[str, np.ndarray], want: dict[str, np.ndarray], tolerance: float) -> None:
    assert got.keys() == want.keys()
    for name, b in want.items():
        a = got[name]
        assert a.shape == b.shape
        largest = max(1.0, float(np.abs(b.astype(np.float64)).max(initial=0)))
        apart = np.abs(a.astype(np.float64) - b.astype(np.float64)).max(initial=0)
        assert apart <= tolerance * largest, f"{name}: {apart} of {largest}"
