"""Large weights are read where ONNX Runtime has them, also when it needs them no more."""

import gc
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from ep_nnapi.nnapi.array import Array
from ep_nnapi.ort import session as nnapi
from ep_nnapi.ort import shared
from ep_nnapi.ort.inner_session import InnerSession
from tests.onnx_graph import parsed, serialized
from tests.ort.conftest import settings
from tests.runtimes import host_only

pytestmark = host_only
SIZE = 512  # floats [SIZE, SIZE] take the least that is large


@pytest.fixture
def weights(monkeypatch: pytest.MonkeyPatch) -> list[Array]:
    """The weights of the sessions of devices."""
    found: list[Array] = []
    init = InnerSession.__init__

    def noted(session: InnerSession, *arguments: object) -> None:
        init(session, *arguments)
        found.extend(session.model.weights.values())

    monkeypatch.setattr(InnerSession, "__init__", noted)
    return found


def product(rows: object, *, size: int = SIZE) -> tuple[Array, Array]:
    """The product of a matrix and weights, and the same of numpy."""
    rng = np.random.default_rng(0)
    w, x = (rng.integers(-4, 5, (n, size)).astype(np.float32) for n in (size, 3))
    nodes = "p = MatMul (x, w) y = Neg (p)"
    content = serialized(f"(float[{rows},{size}] x) => (float[{rows},{size}] y) {{ {nodes} }}", w=w)
    options = settings()
    nnapi.append_execution_provider(options, device="host-cpu")
    session = onnxruntime.InferenceSession(content, options)
    gc.collect()
    return session.run(None, {"x": x})[0], -(x @ w)


@pytest.mark.parametrize("rows", [3, "n"], ids=["fixed", "open"])
def test_large_weights_are_not_copied(weights: list[Array], rows: object) -> None:
    ours, right = product(rows)
    np.testing.assert_array_equal(ours, right)
    (w,) = (each for each in weights if each.size == SIZE * SIZE)
    assert not w.flags.owndata
    assert not w.flags.writeable


@pytest.mark.parametrize("rows", [3, "n"], ids=["fixed", "open"])
def test_they_are_copied_where_sequences_have_copies(weights, rows, monkeypatch):
    monkeypatch.setattr(shared, "_shares", lambda: False)
    ours, right = product(rows)
    np.testing.assert_array_equal(ours, right)
    assert any(each.size == SIZE * SIZE for each in weights)


@pytest.mark.parametrize("add", ["add_external_initializers", "add_initializer"])
def test_memory_of_the_application_is_not_referred_to(tmp_path: Path, add: str) -> None:
    """It may be used for something else once the session is there."""
    w, x = (np.full((SIZE, SIZE), n, np.float32) for n in (2, 3))
    text = f"(float[{SIZE},{SIZE}] x) => (float[{SIZE},{SIZE}] y) {{ a = Add (x, w) y = Neg (a) }}"
    path = str(tmp_path / "m.onnx")
    onnx.save(parsed(text, w=w), path, save_as_external_data=True, location="w.data")
    options, given = settings(), w.copy()
    value = onnxruntime.OrtValue.ortvalue_from_numpy(given)
    several = add == "add_external_initializers"
    getattr(options, add)(*((["w"], [value]) if several else ("w", value)))
    nnapi.append_execution_provider(options, device="host-cpu")
    session = onnxruntime.InferenceSession(path, options)
    given[:] = 7
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], -(x + w))
