"""Compiled models whose weights an application keeps: callbacks in place of a file."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import ep_nnapi
from ep_nnapi.ort.api import EP_NAME
from ep_nnapi.sessions.cpu import session_of
from tests.native import sessions

pytestmark = pytest.mark.skipif(
    not hasattr(onnxruntime.ModelCompiler, "set_ep_context_data_write_func"),
    reason="this ONNX Runtime has no callbacks for the data of EPContext nodes",
)
ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "models" / "digits.onnx"
IMAGE = {"image": np.load(ROOT / "models" / "digits" / "samples.npz")["images"][0][None]}
SCORES = session_of(DIGITS.read_bytes()).run(None, IMAGE)[0]
TOLERANCE = 1e-5  # float32 sums, added in different orders
ENOUGH = 1 << 20


class Store:
    """An application's store of named data."""

    def __init__(self) -> None:
        self.found: dict[str, bytes] = {}
        self.asked: list[str] = []

    def write(self, name: str, data: object) -> None:
        self.found[name] = data.read()  # type: ignore[attr-defined]

    def read(self, name: str, buffer: object) -> None:
        self.asked.append(name)
        buffer.allocate(len(self.found[name]))  # type: ignore[attr-defined]
        buffer.write(self.found[name], 0)  # type: ignore[attr-defined]


def options(**given: object) -> onnxruntime.SessionOptions:
    made = onnxruntime.SessionOptions()
    made.log_severity_level = 4
    ep_nnapi.append_execution_provider(made, **given)
    return made


def compiled(write: object, embed: bool = False, **given: object) -> bytes:
    """digits.onnx, compiled to bytes."""
    compiler = onnxruntime.ModelCompiler(options(**given), str(DIGITS), embed)
    compiler.set_ep_context_data_write_func(write)
    content: bytes = compiler.compile_to_bytes()
    return content


def of_the_plugin_in_c() -> onnxruntime.SessionOptions:
    made = onnxruntime.SessionOptions()
    made.log_severity_level = 4
    given = {"runtime": sessions.LIBRARY, "device": sessions.REFERENCE}
    made.add_provider_for_devices(sessions.devices()[:1], given)
    return made


WAYS = {EP_NAME: options, sessions.EP_NAME: of_the_plugin_in_c}
"""Both read weights that an application keeps; the one in C writes no models."""
Open = Callable[..., onnxruntime.InferenceSession]


@pytest.fixture(params=WAYS)
def session(request: pytest.FixtureRequest) -> Open:
    """Opens a model whose weights come from a callback."""

    def opened(model: bytes | str, read: object) -> onnxruntime.InferenceSession:
        chosen = WAYS[request.param]()
        chosen.set_ep_context_data_read_func(read, ENOUGH)
        made = onnxruntime.InferenceSession(model, chosen)
        assert made.get_providers()[0] == request.param
        return made

    return opened


def test_a_model_without_any_file(session: Open):
    """Its clusters share what is read once; the name has a digest of the weights."""
    store = Store()
    model = compiled(store.write, max_cluster_nodes=2)
    (name,) = store.found
    assert name.startswith("digits_ctx.")
    assert name.endswith(".weights")
    opened = session(model, store.read)
    np.testing.assert_allclose(opened.run(None, IMAGE)[0], SCORES, rtol=TOLERANCE)
    assert store.asked == [name]  # and kept for as long as the session


def test_beside_a_file_there_is_no_other(session: Open, tmp_path: Path):
    store = Store()
    compiler = onnxruntime.ModelCompiler(options(), str(DIGITS), False)
    compiler.set_ep_context_data_write_func(store.write)
    compiler.compile_to_file(str(tmp_path / "m.onnx"))
    assert [file.name for file in tmp_path.iterdir()] == ["m.onnx"]
    opened = session(str(tmp_path / "m.onnx"), store.read)
    np.testing.assert_allclose(opened.run(None, IMAGE)[0], SCORES, rtol=TOLERANCE)


def test_embedded_weights_go_to_no_callback(session: Open):
    store = Store()
    model = compiled(store.write, embed=True)
    opened = session(model, store.read)
    np.testing.assert_allclose(opened.run(None, IMAGE)[0], SCORES, rtol=TOLERANCE)
    assert store.found == {}
    assert store.asked == []


def test_an_error_of_the_callback_ends_the_compilation():
    def full(name: str, data: object) -> None:
        raise OSError("the store is full")

    with pytest.raises(Exception, match="the store is full"):
        compiled(full)


def test_an_error_of_the_callback_ends_the_session(session: Open):
    model = compiled(Store().write)

    def locked(name: str, buffer: object) -> None:
        raise OSError("the store is locked")

    with pytest.raises(Exception, match=r"the application's weights 'digits_ctx\..*is locked"):
        session(model, locked)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data[:-1], r"the application's weights 'digits_ctx.* have \d+ bytes, not"),
        (lambda data: data[:-64] + bytes(64), "the context's weights are corrupt"),
        (lambda data: b"", "have 0 bytes, not"),
    ],
    ids=["short", "changed", "empty"],
)
def test_other_weights_are_refused(session: Open, change, message: str):
    store = Store()
    model = compiled(store.write)
    store.found = {name: change(data) for name, data in store.found.items()}
    with pytest.raises(Exception, match=message):
        session(model, store.read)


def test_a_session_without_the_callback_says_what_it_needs():
    model = compiled(Store().write)
    with pytest.raises(Exception, match=r"the weights are in 'digits_ctx\..*load the prepared mod"):
        onnxruntime.InferenceSession(model, options())
