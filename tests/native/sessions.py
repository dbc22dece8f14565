"""Sessions with the plugin for prepared models, and the same with Python's provider."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

import ep_nnapi
from ep_nnapi.preparation.job import job_of
from ep_nnapi.preparation.pipeline import save_prepared
from tests.end_to_end.sessions import nnapi_session

EP_NAME = "NnapiContextExecutionProvider"
REFERENCE = "nnapi-reference"
LIBRARY = ep_nnapi.libneuralnetworks_path()


def devices() -> list[onnxruntime.OrtEpDevice]:
    """The plugin's devices; registers its library at the first call."""
    found = [d for d in onnxruntime.get_ep_devices() if d.ep_name == EP_NAME]
    if not found:
        path = ep_nnapi.context_library_path()
        onnxruntime.register_execution_provider_library(EP_NAME, path)
        found = [d for d in onnxruntime.get_ep_devices() if d.ep_name == EP_NAME]
    return found


def settings() -> onnxruntime.SessionOptions:
    config = onnxruntime.SessionOptions()
    config.log_severity_level = 4
    config.intra_op_num_threads = 1  # threads take most of the time of a small session
    return config


def session(model: Path | bytes, **options: str) -> onnxruntime.InferenceSession:
    """A session with the plugin, on this project's library and its reference device."""
    config = settings()
    chosen = {"runtime": LIBRARY, "device": REFERENCE, **options}
    config.add_provider_for_devices(devices()[:1], chosen)
    source = model if isinstance(model, bytes) else str(model)
    made = onnxruntime.InferenceSession(source, config)
    assert made.get_providers()[0] == EP_NAME
    return made


def python_session(model: Path | bytes, **options: str) -> onnxruntime.InferenceSession:
    """The same with Python's provider."""
    return of_contexts(model, **{"runtime": LIBRARY, "device": REFERENCE, **options})


def of_contexts(model: Path | bytes, **options: object) -> onnxruntime.InferenceSession:
    """A session with Python's provider, which takes what the one in C takes and nothing else."""
    embedded = isinstance(model, bytes)
    proto = onnx.load_model_from_string(model) if embedded else onnx.load(model, None, False)
    left = {n.op_type for n in proto.graph.node} - {"EPContext"}
    attributes = {"intra_op_num_threads": 1}
    given = {"exclude": ",".join(left)} if left else {}
    return nnapi_session(model, severity=4, attributes=attributes, **{**given, **options})


def prepared(proto: onnx.ModelProto, folder: Path, **options: object) -> Path:
    """The model with its clusters compiled, in this process: `prepare` starts others."""
    (folder / "out").mkdir(parents=True, exist_ok=True)
    onnx.save(proto, folder / "model.onnx")
    out = folder / "out" / "model_ctx.onnx"
    save_prepared(folder / "model.onnx", out, job_of({"format": "context", **options}))
    return out


def run_both(model: Path, feeds: Mapping[str, np.ndarray]) -> None:
    """Both give the same bits."""
    ours = session(model).run(None, dict(feeds))
    theirs = python_session(model).run(None, dict(feeds))
    for one, other in zip(ours, theirs, strict=True):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        assert one.tobytes() == other.tobytes()
