"""Weights of containers, embedded or in a file: missing, cut, damaged or elsewhere."""

import hashlib
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ep_nnapi.epcontext.container import WeightsLocation, read_weights
from ep_nnapi.nnapi.errors import ModelError

DATA = bytes(range(192))
PART = WeightsLocation("w", 64, 128, 192, hashlib.sha256(DATA[64:]).digest())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "w").write_bytes(DATA)
    return tmp_path


def test_a_part_of_a_file_is_mapped(folder: Path) -> None:
    weights = read_weights(PART, b"", folder)
    assert isinstance(weights.base, np.memmap)
    assert weights.tobytes() == DATA[64:]


def test_an_unchanged_file_is_checked_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read_weights(PART, b"", folder)
    with monkeypatch.context() as patch:
        patch.setattr(hashlib, "sha256", None)
        assert read_weights(PART, b"", folder).tobytes() == DATA[64:]
    (folder / "w").write_bytes(bytes(192))
    os.utime(folder / "w", ns=(0, 0))  # clocks of file systems may be coarse
    with pytest.raises(ModelError, match="weights are corrupt"):
        read_weights(PART, b"", folder)


def test_embedded_weights_are_not_copied() -> None:
    location = WeightsLocation("", 0, 192, 0, hashlib.sha256(DATA).digest())
    weights = read_weights(location, DATA, None)
    assert np.shares_memory(weights, np.frombuffer(DATA, np.uint8))


def test_there_may_be_none(folder: Path) -> None:
    nothing = hashlib.sha256().digest()
    assert read_weights(WeightsLocation("", 0, 0, 0, nothing), b"", None).size == 0
    assert read_weights(WeightsLocation("w", 64, 0, 192, nothing), b"", folder).size == 0


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"offset": 128}, "w is truncated"),
        ({"offset": -64}, "w is truncated"),
        ({"total": 193}, "another size"),
        ({"size": 64}, "weights are corrupt"),
        ({"file": "v"}, "v: no such file; it holds the prepared model's weights"),
        ({"file": "../w"}, "outside of the model's folder"),
        ({"file": ".."}, "outside of the model's folder"),
    ],
)
def test_what_is_not_there_is_refused(change: dict[str, object], says: str, folder: Path) -> None:
    with pytest.raises(ModelError, match=says):
        read_weights(replace(PART, **change), b"", folder)


def test_a_model_from_memory_has_no_folder() -> None:
    with pytest.raises(ModelError, match="load the prepared model from its file"):
        read_weights(PART, b"", None)


def test_nothing_follows_a_header_whose_weights_are_elsewhere(folder: Path) -> None:
    with pytest.raises(ModelError, match="data follows its header"):
        read_weights(PART, b"x", folder)


def test_embedded_weights_that_are_cut_are_refused() -> None:
    location = WeightsLocation("", 0, 192, 0, hashlib.sha256(DATA).digest())
    with pytest.raises(ModelError, match="truncated"):
        read_weights(location, DATA[:-1], None)
