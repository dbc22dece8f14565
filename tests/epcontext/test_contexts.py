"""Contexts of clusters, and the checksum of a model's file."""

from pathlib import Path

import onnx
import pytest

import ep_nnapi
from ep_nnapi.epcontext.contexts import (
    add_placeholder,
    verify_checksum,
    verify_checksum_of_bytes,
    write_checksum,
)
from ep_nnapi.nnapi.errors import ModelError
from tests.epcontext.test_container import prepared
from tests.preparation.test_batch import tiny


def test_a_model_that_was_changed_is_refused(tmp_path: Path) -> None:
    path = prepared(tmp_path, format="context")
    proto = onnx.load(path)
    proto.doc_string = "changed"
    onnx.save(proto, path)
    with pytest.raises(ModelError, match="corrupt or was changed; prepare the model again"):
        ep_nnapi.check(path)


def test_changed_bytes_are_refused_by_check(tmp_path: Path) -> None:
    """Of the whole model, also of what would run on the CPU; a session is not shown the bytes."""
    path = prepared(tmp_path, format="context", embed=True)
    assert ep_nnapi.check(path.read_bytes()).clusters
    proto = onnx.load(path)
    proto.doc_string = "changed"
    with pytest.raises(ModelError, match="corrupt or was changed; prepare it again"):
        ep_nnapi.check(proto.SerializeToString())


def test_a_file_is_verified_as_it_is_now(tmp_path: Path) -> None:
    path = prepared(tmp_path, format="context")
    verify_checksum(path)
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(ModelError, match="corrupt or was changed"):
        verify_checksum(path)
    path.unlink()
    with pytest.raises(ModelError, match="cannot be read: No such file"):
        verify_checksum(path)


def written(path: Path) -> Path:
    """A model with its checksum."""
    proto = onnx.load(tiny(path))
    add_placeholder(proto)
    onnx.save(proto, path)
    write_checksum(path)
    return path


def test_a_written_checksum_is_correct(tmp_path: Path) -> None:
    path = written(tmp_path / "a.onnx")
    verify_checksum(path)
    verify_checksum_of_bytes(path.read_bytes())
    (entry,) = (e for e in onnx.load(path).metadata_props if e.key == "ep_nnapi.sha256")
    assert len(entry.value) == 64
    assert set(entry.value) <= set("0123456789abcdef")
    assert entry.value != "0" * 64


def test_every_changed_byte_is_found(tmp_path: Path) -> None:
    """Also one of the checksum itself, in every 7th place from the first to the last byte."""
    data = written(tmp_path / "a.onnx").read_bytes()
    for i in {*range(0, len(data), 7), len(data) - 1}:
        changed = data[:i] + bytes([data[i] ^ 1]) + data[i + 1 :]
        if b"ep_nnapi.sha256" in changed:  # without the key, bytes have no checksum
            with pytest.raises(ModelError, match="prepare it again"):
                verify_checksum_of_bytes(changed)


def test_a_file_needs_a_checksum_and_bytes_do_not(tmp_path: Path) -> None:
    """Bytes may be of any model; a prepared file always has one."""
    path = tiny(tmp_path / "a.onnx")
    verify_checksum_of_bytes(path.read_bytes())
    with pytest.raises(ModelError, match="prepare the model again"):
        verify_checksum(path)
