"""A CPU provider that saturates uint8 x int8 products on every processor, as a pytest plugin.

    python -m pytest -p tests.saturating PATHS

runs tests with it in place of ONNX Runtime's, whose products are exact on processors with VNNI and
on ARM. Tests that pass with it compare no such product with the CPU provider.
"""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnxruntime import GraphOptimizationLevel as Level

from ep_nnapi.sessions import cpu
from tests.products import FORMULAS, computed, saturating

# Their operators multiply integers, too; unfused, they are the formulas of tests.products.
_FUSIONS = ["MatMulIntegerToFloatFusion", "DynamicQuantizeMatMulFusion"]
_EXTENDED = (Level.ORT_ENABLE_EXTENDED, Level.ORT_ENABLE_ALL)
_stock = cpu.session_of


class SaturatingSession:
    """A session on the CPU provider whose products of uint8 and int8 saturate."""

    def __init__(self, session: onnxruntime.InferenceSession, optimized: onnx.ModelProto) -> None:
        self._session = session
        self._optimized = optimized
        constants = {t.name for t in optimized.graph.initializer}
        options = session.get_session_options()
        spares = _is_exact(options) and options.graph_optimization_level in _EXTENDED
        self._spared = constants if spares else set()

    def run(self, names: Sequence[str] | None, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        found = computed(self._optimized, feeds, saturating, self._spared)
        outputs = dict(zip((o.name for o in self._optimized.graph.output), found, strict=True))
        return [outputs[name] for name in names or outputs]

    def __getattr__(self, name: str) -> object:
        return getattr(self._session, name)


def session_of(
    model: str | bytes,
    options: onnxruntime.SessionOptions | None = None,
    providers: Sequence[object] = (cpu.CPU,),
    without: Sequence[str] = (),
) -> onnxruntime.InferenceSession | SaturatingSession:
    """As `cpu.session_of`; products saturate where a session has no other provider."""
    session = _stock(model, options, providers, without)
    if tuple(providers) != (cpu.CPU,):
        return session
    seen = _optimized(model, session.get_session_options().graph_optimization_level)
    if seen is None or not any(n.op_type in FORMULAS for n in seen.graph.node):
        return session
    return SaturatingSession(session, seen)


def _is_exact(options: onnxruntime.SessionOptions) -> bool:
    """True if the options request exact integer products."""
    try:
        return str(options.get_session_config_entry("session.x64quantprecision")) == "1"
    except RuntimeError:  # raised by ONNX Runtime if there is no such entry
        return False


def _optimized(model: str | bytes, level: Level) -> onnx.ModelProto | None:
    """The graph that the CPU provider runs, before weights are prepacked; None for an .ort file."""
    if isinstance(model, str) and model.endswith(".ort"):
        return None
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = min(level, Level.ORT_ENABLE_EXTENDED, key=int)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "optimized.onnx")
        options.optimized_model_filepath = str(path)
        _stock(model, options, without=_FUSIONS)
        return onnx.load(path)


def pytest_configure() -> None:
    """Takes the place of ONNX Runtime's sessions before any test is imported."""
    cpu.session_of = session_of
