"""Names, atomic writes and SHA-256 digests of files."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic
from urllib.parse import quote

from ep_nnapi.nnapi.errors import ModelError, NnapiError, OptionError

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK = 1 << 22

TEMPORARY_PREFIX = ".ep-nnapi-"
"""The prefix of temporary files and folders beside outputs."""


@contextmanager
def os_errors(what: str, kind: type[NnapiError] = OptionError) -> Iterator[None]:
    """Has an OSError raise a `kind` that says `what`, and why."""
    try:
        yield
    except OSError as error:
        raise kind(f"{what}: {error.strerror}") from None


def file_name_of(name: str) -> str:
    """Returns the name of a file for a tensor or model: two names never have the same.

    Percent-encoded as in a URL (RFC 3986), a dot at the beginning too; native/whole_file.c does the
    same.
    """
    encoded = quote(name, safe="")
    return f"%2E{encoded[1:]}" if encoded.startswith(".") else encoded


def write_atomically(path: str | Path, parts: Iterable[bytes | memoryview]) -> None:
    """Write or replace a file atomically. On failure, raises OSError and leaves no partial file.

    Devices, pipes and links such as /dev/stdout are written to, and stay what they are.
    The temporary file is in the same directory. It has an unpredictable name and is created
    exclusively, so a symbolic link planted there is not followed.
    """
    if _stays(path):
        with open(path, "wb") as file:
            file.writelines(parts)
        return
    if os.path.isdir(path):  # "." is busy where it is replaced
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    temporary = os.path.join(os.path.dirname(path), TEMPORARY_PREFIX + secrets.token_hex(8))
    descriptor = os.open(temporary, _CREATE, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(parts)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _stays(path: str | Path) -> bool:
    """True if the file system has at `path` what is not to be replaced by a file."""
    try:
        kind = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    link = os.path.islink(path) and os.path.abspath(path).startswith(("/dev/", "/proc/"))
    return link or stat.S_ISCHR(kind) or stat.S_ISFIFO(kind)


def read_regular(path: str | Path, most: int = 64 << 20) -> bytes:
    """Returns the content of a file; raises OSError also for a FIFO, a device or a larger file.

    most  bytes
    """
    with open(path, "rb", opener=_without_waiting) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"it has more than {most} bytes", str(path))
    return content


def _without_waiting(path: str, flags: int) -> int:
    """Opens it even if it is a FIFO that nobody writes to."""
    return os.open(path, flags | os.O_NONBLOCK)


def why_no_file(path: Path, missing: str = "no such file") -> str:
    """Return why a model cannot be read from `path`, which is no file: `missing`, or what it is."""
    return "it is no regular file; copy the model into one" if path.exists() else missing


def require_file(path: Path) -> None:
    """Raises ModelError if no model is at `path`: it is no file, or an empty one."""
    require_name(path)
    if path.is_dir():
        raise ModelError(
            f"{path} is a directory; give one .onnx or .ort file (`check` and `prepare` take "
            "directories)"
        )
    if not path.is_file():
        raise ModelError(f"{path}: {why_no_file(path)}")
    if path.stat().st_size == 0:
        raise ModelError(f"{path}: the file is empty")


def require_name(path: Path) -> None:
    """Raises ModelError if no file can be at `path`, or ONNX Runtime can open none there."""
    name = str(path)
    if "\0" in name:
        raise ModelError(f"{name!r}: no file can have this name, which has a NUL character")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ModelError(f"{name!r}: ONNX Runtime opens no file whose name is not UTF-8") from None
    with os_errors(name, ModelError):  # what is_file does not take for a file that is not there
        path.is_file()


def write_output(path: Path, content: str | bytes) -> None:
    """Write a file atomically, text as UTF-8. Raises OptionError if it cannot be written."""
    with os_errors(f"{path} cannot be written"):
        write_atomically(path, [content.encode() if isinstance(content, str) else content])


def require_writable(path: str, name: str) -> None:
    """Raises OptionError, which names the option `name`, if no file can be written at `path`."""
    try:
        if not path or os.path.isdir(path):  # as a Path, no name is the current folder
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        with suppress(FileNotFoundError):
            os.lstat(path)  # raises for a name that no file can have
        if not _stays(path):
            probe = os.path.join(os.path.dirname(path), TEMPORARY_PREFIX + secrets.token_hex(8))
            os.close(os.open(probe, _CREATE))
            os.unlink(probe)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise OptionError(f"{name} is {path!r}, which cannot be written: {why}") from None


def digest_of(file: str | Path | bytes, deadline: float | None = None) -> str:
    """SHA-256 of a file or of its contents, in hex.

    Raises OSError; TimeoutError past `deadline` (time.monotonic).
    """
    if isinstance(file, bytes):
        return hashlib.sha256(file).hexdigest()
    digest = hashlib.sha256()
    with open(file, "rb") as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
            if deadline is not None and monotonic() > deadline:
                raise TimeoutError(errno.ETIMEDOUT, "reading it took too long", str(file))
    return digest.hexdigest()
