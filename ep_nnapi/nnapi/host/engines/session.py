"""Sessions on ONNX Runtime's CPU provider for converted models."""

from __future__ import annotations

import onnxruntime

from ep_nnapi.nnapi.host.engines.convert import convert
from ep_nnapi.nnapi.host.engines.prepared import PreparedSession
from ep_nnapi.nnapi.model import Model
from ep_nnapi.sessions.cpu import saturates, session_of


def open_model(model: Model, int8_weights: bool | None, threads: int) -> PreparedSession:
    """Convert a model and open a session for it; the parameters are those of `CpuDevice`."""
    int8 = not saturates() if int8_weights is None else int8_weights
    found = convert(model, int8_weights=int8)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = threads
    # its threads spin during a run only, so that they take no processor from the outer session
    options.add_session_config_entry("session.force_spinning_stop", "1")
    weights = list(found.weights.items())
    options.add_external_initializers(
        [name for name, _ in weights],
        [onnxruntime.OrtValue.ortvalue_from_numpy(array) for _, array in weights],
    )
    session = session_of(found.proto.SerializeToString(), options)
    return PreparedSession(session, found.inputs, found.outputs, found.loops, found.weights)
