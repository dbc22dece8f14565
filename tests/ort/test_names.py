"""Names of the provider, its version and its options for ONNX Runtime."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError

import pytest

from ep_nnapi.ort import names


@pytest.mark.parametrize(
    ("installed", "said"), [("1.2.3", "1.2.3"), ("1.2.3.dev4+g1", "1.2.3"), ("1.2", "0.0.0")]
)
def test_the_version_has_three_numbers(
    installed: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(names, "version", lambda package: installed)
    assert names.semantic_version() == said


def test_a_source_tree_that_is_not_installed_has_version_0(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(package: str) -> str:
        raise PackageNotFoundError(package)

    monkeypatch.setattr(names, "version", missing)
    assert names.semantic_version() == "0.0.0"


def test_options_are_the_entries_of_this_provider() -> None:
    entries = {
        f"ep.{names.EP_NAME.lower()}.flags": "1",
        f"ep.{names.EP_NAME.lower()}.": "empty",
        "ep.other.flags": "2",
        "ep.context_enable": "1",
    }
    assert names.provider_options(entries) == {"flags": "1", "": "empty"}
    assert names.provider_options({}) == {}
