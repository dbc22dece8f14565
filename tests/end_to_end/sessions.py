"""Stock ONNX Runtime sessions on the provider, the two models, and their digits."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np
import onnx
import onnxruntime
import pytest

import ep_nnapi
from ep_nnapi.sessions.cpu import exact_options, session_of

ROOT = Path(__file__).parents[2]
NAME = "NnapiPluginExecutionProvider"
CPU = "CPUExecutionProvider"
TOLERANCE = 1e-5  # of max(1, the largest reference value): sums of float32 products reordered


def nnapi_session(
    model: str | Path | bytes | onnx.ModelProto,
    *,
    severity: int | None = None,
    attributes: Mapping[str, object] = MappingProxyType({}),
    **options: object,
) -> onnxruntime.InferenceSession:
    """A stock session with the provider of these options.

    severity     of what its log has
    attributes   of the session's options
    """
    chosen = onnxruntime.SessionOptions()
    if severity is not None:
        chosen.log_severity_level = severity
    for name, value in attributes.items():
        setattr(chosen, name, value)
    ep_nnapi.append_execution_provider(chosen, **options)
    data = model.SerializeToString() if isinstance(model, onnx.ModelProto) else model
    return onnxruntime.InferenceSession(data, chosen)


def appended(model: str, options: onnxruntime.SessionOptions, **given: object):
    """The session option flag: the twin of OrtSessionOptionsAppendExecutionProvider_Nnapi."""
    ep_nnapi.append_execution_provider(options, **given)
    return onnxruntime.InferenceSession(model, options)


def listed(model: str | bytes, options: onnxruntime.SessionOptions, **given: object):
    """The stock `providers=` argument."""
    ep_nnapi.register()
    return onnxruntime.InferenceSession(model, options, providers=[(NAME, given), CPU])


WAYS: dict[str, Callable[..., onnxruntime.InferenceSession]] = {
    "append_execution_provider": appended,
    "providers": listed,
}


@dataclass(frozen=True)
class Example:
    """A model, its one input, and handwritten digits in the form it takes."""

    path: Path
    input: str
    shape: tuple[int, ...]
    scale: int

    def digits(self) -> np.ndarray:
        """Every held-out digit, one input each; enlarged by repetition for the larger model."""
        images = np.load(ROOT / "models" / "digits" / "held_out.npz")["images"]
        size = self.shape[-1]
        index = np.arange(size) * images.shape[-1] // size
        return (images[:, :, index][..., index] * self.scale).astype(np.float32)[:, None]

    def random(self, count: int, seed: int = 0) -> np.ndarray:
        rng = np.random.default_rng(seed)
        return (rng.random((count, *self.shape)) * self.scale).astype(np.float32)

    def cpu(self) -> onnxruntime.InferenceSession:
        return session_of(str(self.path))

    def run(self, session: onnxruntime.InferenceSession, x: np.ndarray) -> np.ndarray:
        return session.run(None, {self.input: x})[0]


DIGITS = Example(ROOT / "models" / "digits.onnx", "image", (1, 1, 8, 8), 1)
MNIST = Example(ROOT.parent / "shared" / "models" / "mnist.onnx", "Input3", (1, 1, 28, 28), 255)
without_mnist = pytest.mark.skipif(not MNIST.path.exists(), reason="no ../shared/models/mnist.onnx")
EXAMPLES = [pytest.param(DIGITS, id="digits"), pytest.param(MNIST, id="mnist", marks=without_mnist)]


def quiet() -> onnxruntime.SessionOptions:
    options = exact_options()
    options.log_severity_level = 3
    return options


def same(got: np.ndarray, want: np.ndarray) -> None:
    apart = np.abs(got - want).max() / max(1.0, np.abs(want).max())
    assert apart <= TOLERANCE


def profiled(session: onnxruntime.InferenceSession) -> list[str]:
    """The provider of every node that ran while the session was profiled."""
    events = json.loads(Path(session.end_profiling()).read_text())
    return [e["args"]["provider"] for e in events if e["name"].endswith("_kernel_time")]
