"""Files written whole or not at all, and digests in a limited time."""

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest

from ep_nnapi.nnapi import files
from ep_nnapi.nnapi.errors import ModelError, printable
from ep_nnapi.nnapi.files import (
    TEMPORARY_PREFIX,
    digest_of,
    file_name_of,
    read_regular,
    require_name,
    why_no_file,
    write_atomically,
)


def test_a_file_is_read_to_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"12345")
    assert read_regular(path, 5) == b"12345"
    with pytest.raises(OSError, match="it has more than 4 bytes"):
        read_regular(path, 4)


@pytest.mark.parametrize("kind", ["FIFO", "device"])
def test_what_may_never_end_is_not_read(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "f" if kind == "FIFO" else Path("/dev/zero")
    if kind == "FIFO":
        os.mkfifo(path)
    with pytest.raises(OSError, match="it is no regular file"):
        read_regular(path)


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("scores", "scores"),
        ("a-b_c.d~1", "a-b_c.d~1"),
        ("a/b:c d%", "a%2Fb%3Ac%20d%25"),
        ("Z\u00fcrich", "Z%C3%BCrich"),
        ("..", "%2E."),
        ("", ""),
    ],
)
def test_files_are_named_after_tensors(name: str, file: str) -> None:
    assert file_name_of(name) == file


def test_a_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("before, and longer")
    write_atomically(path, [b"af", memoryview(b"ter")])
    assert path.read_text() == "after"
    assert os.listdir(tmp_path) == ["file"]


def test_a_failed_write_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    def parts() -> Iterator[bytes]:
        yield b"some"
        raise OSError(28, "No space left on device")

    path = tmp_path / "file"
    path.write_text("before")
    with pytest.raises(OSError, match="No space"):
        write_atomically(path, parts())
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["file"]


def test_a_planted_link_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even one under the very name that the temporary file is going to have."""
    monkeypatch.setattr(files.secrets, "token_hex", lambda n: "0" * 2 * n)
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / f"{TEMPORARY_PREFIX}{'0' * 16}").symlink_to(victim)
    with pytest.raises(FileExistsError):
        write_atomically(tmp_path / "file", [b"data"])
    assert victim.read_text() == "precious"


def test_a_link_at_the_output_is_replaced_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "file").symlink_to(victim)
    write_atomically(tmp_path / "file", [b"data"])
    assert victim.read_text() == "precious"
    assert not (tmp_path / "file").is_symlink()


def test_devices_are_written_to_and_stay(tmp_path: Path) -> None:
    null, full = tmp_path / "null", tmp_path / "full"
    null.symlink_to("/dev/null")
    full.symlink_to("/dev/full")
    write_atomically(null, [b"data"])
    with pytest.raises(OSError, match="No space left"):
        write_atomically(full, [b"data"])
    for link in (null, full):
        assert link.is_symlink()
        assert stat.S_ISCHR(link.stat().st_mode)


def test_pipes_and_open_files_are_written_to_and_stay(tmp_path: Path) -> None:
    """As those of `-o /dev/stdout`, which another program or a shell has opened."""
    named = tmp_path / "pipe"
    os.mkfifo(named)
    reader = os.open(named, os.O_RDONLY | os.O_NONBLOCK)
    write_atomically(named, [b"to a ", b"pipe"])
    assert os.read(reader, 99) == b"to a pipe"
    os.close(reader)
    assert named.is_fifo()
    with (tmp_path / "file").open("w+") as file:
        write_atomically(f"/dev/fd/{file.fileno()}", [b"to a file"])
        assert file.read() == "to a file"


def test_names_that_a_model_may_have(tmp_path: Path) -> None:
    for name in ("a model", "ü'\"\\$\n", "-", "none", "loop"):
        require_name(tmp_path / name)


def test_names_that_no_model_may_have(tmp_path: Path) -> None:
    refused = {
        "a\0b": r"a\\x00b': no file can have this name, which has a NUL character",
        "a\udcff": r"a\\udcff': ONNX Runtime opens no file whose name is not UTF-8",
        "a" * 256: "a: File name too long",
    }
    for name, sentence in refused.items():
        with pytest.raises(ModelError, match=sentence):
            require_name(tmp_path / name)


def test_what_is_no_file_is_missing_or_of_another_kind(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/null")):
        assert why_no_file(path) == "it is no regular file; copy the model into one"
    assert why_no_file(tmp_path / "nothing") == "no such file"
    assert why_no_file(tmp_path / "nothing", "nowhere") == "nowhere"


def test_digests(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"data")
    assert digest_of(path) == hashlib.sha256(b"data").hexdigest()
    assert digest_of(path, monotonic() + 60) == digest_of(path)


def test_a_digest_ends_at_its_deadline(tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    with path.open("wb") as stream:
        stream.truncate(1 << 40)
    with pytest.raises(TimeoutError) as error:
        digest_of(path, monotonic())
    assert error.value.filename == str(path)


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("plain, größer", "plain, größer"),
        ("a\nb\x1b[31m", "a\\nb\\x1b[31m"),
        ("\u202e\udcff", "\\u202e\\udcff"),
    ],
)
def test_printable(text: str, escaped: str) -> None:
    assert printable(text) == escaped
