"""Sessions that run on the fake provider."""

from collections.abc import Callable

import onnxruntime
import pytest

from ep_nnapi.ort import compute, plugin, session
from ep_nnapi.sessions import device_session
from tests.ort.fake import FakeProvider
from tests.ort.look import Look

NAME = "NnapiPluginExecutionProvider"
Install = Callable[..., FakeProvider]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Puts a FakeProvider in place of the package's; gives it back."""

    def put(*take: str, together: bool = False, provider: object = None) -> FakeProvider:
        fake = provider or FakeProvider(take, together)
        monkeypatch.setattr(plugin.factory, "open_provider", fake.open)
        session.register()
        return fake

    return put


def settings() -> onnxruntime.SessionOptions:
    """Session options that log nothing but fatal errors."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return options


def start(model: bytes, **options: object) -> onnxruntime.InferenceSession:
    """A session with the plugin first; `options` are attributes of the session options."""
    chosen = settings()
    for name, value in options.items():
        setattr(chosen, name, value)
    providers = [NAME, "CPUExecutionProvider"]
    return onnxruntime.InferenceSession(model, chosen, providers=providers)


@pytest.fixture
def no_run_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine is."""
    monkeypatch.setattr(device_session, "LONG_RUN", 1000.0)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A line for each run through Python."""
    found: list[str] = []
    through_python = compute.FusedNode.compute

    def counted(node: compute.FusedNode, call: object) -> None:
        found.append("run")
        through_python(node, call)

    monkeypatch.setattr(compute.FusedNode, "compute", counted)
    return found


@pytest.fixture
def look(install: Install):
    def at(serialized: bytes, **options: object) -> Look:
        seen = install(provider=Look())
        start(serialized, **options)
        return seen

    return at
