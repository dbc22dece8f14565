"""Libraries by path and the system's, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

import ep_nnapi
from ep_nnapi.nnapi.errors import OptionError
from ep_nnapi.nnapi.library import loading
from ep_nnapi.nnapi.library.loading import SYSTEM, load

OWN = ep_nnapi.libneuralnetworks_path()
fresh = load.__wrapped__  # without what this process has loaded before


def test_a_library_is_loaded_once() -> None:
    assert load(OWN) is load(OWN)
    assert load(OWN).path == OWN
    assert load(OWN).feature_level == 8


def test_a_relative_path_is_one_of_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not a name that the linker searches."""
    monkeypatch.chdir(Path(OWN).parent)
    assert fresh(Path(OWN).name).path == OWN
    monkeypatch.chdir("/")
    with pytest.raises(OptionError, match=r"runtime libc\.so\.6: no such file"):
        fresh("libc.so.6")


def test_a_folder_is_no_library(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"no such file; name a libneuralnetworks\.so, system or"):
        fresh(str(tmp_path))


def test_a_file_that_is_no_library_is_refused(tmp_path: Path) -> None:
    text = tmp_path / "libneuralnetworks.so"
    text.write_text("not a library")
    with pytest.raises(OptionError, match=f"runtime {text} cannot be loaded: "):
        fresh(str(text))


def test_the_systems_is_the_first_that_can_be_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "SYSTEM_PATHS", ("/nowhere/a.so", OWN, "/nowhere/b.so"))
    assert fresh(SYSTEM).path == OWN


def test_where_there_is_none_the_sentence_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "SYSTEM_PATHS", ("/nowhere/a.so", "/nowhere/b.so"))
    with pytest.raises(OptionError, match=r"runtime system: there is no .* name a library's path"):
        fresh(SYSTEM)
