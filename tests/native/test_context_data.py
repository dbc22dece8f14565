"""Weights that an application keeps, through ONNX Runtime's callback that reads them."""

import numpy as np
import onnxruntime
import pytest

from tests.native.sessions import EP_NAME, LIBRARY, REFERENCE, devices
from tests.ort.test_context_data import ENOUGH, IMAGE, SCORES, Store, compiled
from tests.ort.test_context_data import pytestmark as needs_callbacks

pytestmark = needs_callbacks


def session(model: bytes, read: object) -> onnxruntime.InferenceSession:
    config = onnxruntime.SessionOptions()
    config.log_severity_level = 4
    config.add_provider_for_devices(devices()[:1], {"runtime": LIBRARY, "device": REFERENCE})
    config.set_ep_context_data_read_func(read, ENOUGH)
    return onnxruntime.InferenceSession(model, config)


def test_weights_come_from_the_application() -> None:
    """Once for all clusters of a model, and they stay for as long as the session."""
    store = Store()
    model = compiled(store.write, max_cluster_nodes=2)
    opened = session(model, store.read)
    assert opened.get_providers()[0] == EP_NAME
    np.testing.assert_allclose(opened.run(None, IMAGE)[0], SCORES, rtol=1e-5)  # another sum order
    assert store.asked == [*store.found]
    assert len(store.asked) == 1


def test_embedded_weights_are_not_asked_for() -> None:
    store = Store()
    opened = session(compiled(store.write, embed=True), store.read)
    np.testing.assert_allclose(opened.run(None, IMAGE)[0], SCORES, rtol=1e-5)  # another sum order
    assert store.asked == []


def test_an_error_of_the_callback_ends_the_session() -> None:
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
def test_other_weights_are_refused(change, message: str) -> None:
    store = Store()
    model = compiled(store.write)
    store.found = {name: change(data) for name, data in store.found.items()}
    with pytest.raises(Exception, match=message):
        session(model, store.read)
