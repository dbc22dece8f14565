"""Registration of the plugin library, and selection by `append_execution_provider`."""

from __future__ import annotations

from pathlib import Path

import onnxruntime
import pytest

import ep_nnapi
from ep_nnapi import OptionError
from ep_nnapi.ort import plugin, session


def test_the_library_is_a_file_with_one_provider():
    assert Path(session.get_library_path()).is_file()
    assert session.get_ep_names() == ["NnapiPluginExecutionProvider"]


def test_registering_twice_is_harmless():
    session.register()
    session.register()
    found = [d for d in onnxruntime.get_ep_devices() if d.ep_name in session.get_ep_names()]
    assert len(found) == 1


def test_validation_opens_no_provider(monkeypatch: pytest.MonkeyPatch):
    """A provider is made by the session; appending one only checks the options."""
    opened: list[object] = []
    monkeypatch.setattr(plugin.factory, "open_provider", opened.append)
    ep_nnapi.append_execution_provider(onnxruntime.SessionOptions(), feature_level=4)
    assert opened == []


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"colour": 1}, "option 'colour' is unknown"),
        ({"feature_level": 9}, "must be 1 to 8"),
        ({"device": "vpu"}, "device 'vpu' is unknown"),
        ({"custom_ops_library": "ops.so"}, "register_custom_ops_library"),
    ],
)
def test_invalid_options_are_refused_at_once(given: dict[str, object], message: str):
    options = onnxruntime.SessionOptions()
    with pytest.raises(OptionError, match=message):
        ep_nnapi.append_execution_provider(options, **given)
    ep_nnapi.append_execution_provider(options)  # nothing was appended before


def test_flags_twice_and_the_provider_twice_are_refused():
    options = onnxruntime.SessionOptions()
    with pytest.raises(OptionError, match="flags is given twice"):
        ep_nnapi.append_execution_provider(options, 1, flags=1)
    ep_nnapi.append_execution_provider(options, 1)
    with pytest.raises(OptionError, match="is appended to these session options already"):
        ep_nnapi.append_execution_provider(options)
