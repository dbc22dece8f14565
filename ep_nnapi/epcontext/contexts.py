"""Contexts of compiled clusters, their weights, and the checksum of a whole model file."""

from __future__ import annotations

import hashlib
import io
import json
import mmap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeAlias

from ep_nnapi.epcontext.container import Container, WeightsLocation
from ep_nnapi.epcontext.layout import ALIGNMENT, EP_SOURCE
from ep_nnapi.epcontext.pool import padded
from ep_nnapi.nnapi.errors import ModelError

if TYPE_CHECKING:
    from onnx import ModelProto

AttributeValue: TypeAlias = int | str | bytes


@dataclass(frozen=True, slots=True)
class WeightsReceiver:
    """A function that takes the weights of a model under a name, in place of a file.

    model   path that the model is written to, for the name
    """

    model: Path
    write: Callable[[str, bytes], None]


WeightsTarget: TypeAlias = Path | WeightsReceiver | None
"""Where weights go: next to a model's file, to a function, or into the contexts (None)."""


def contexts_of(packed: Sequence[Container], target: WeightsTarget) -> Iterator[bytes]:
    """Yields the contexts of a model's clusters, with embedded weights if `target` is None.

    Else all weights are written to one file next to the model file `target`, with its digest in the
    name, so that a replaced model never loads the weights of another; or to a WeightsReceiver under
    that name.
    """
    if target is None:
        return (one.with_embedded_weights() for one in packed)
    if isinstance(target, WeightsReceiver):
        content = io.BytesIO()
        places, digest = _write_weights(packed, content)
        file = companion_name(target.model, digest, ".weights")
        target.write(file, content.getvalue())
    else:
        unnamed = target.with_suffix(".weights")
        with unnamed.open("wb") as stream:
            places, digest = _write_weights(packed, stream)
        file = companion_name(target, digest, ".weights")
        unnamed.rename(target.with_name(file))
    pairs = zip(packed, places, strict=True)
    return (one.with_external_weights(replace(place, file=file)) for one, place in pairs)


def _write_weights(
    packed: Sequence[Container], stream: BinaryIO
) -> tuple[list[WeightsLocation], str]:
    """Writes the weights of all clusters; returns where they are, and the digest of all.

    Those that containers share are written once.
    """
    whole = hashlib.sha256()
    places: dict[int, WeightsLocation] = {}
    for one in packed:
        if id(one.weights) in places:
            continue
        digest, begin = hashlib.sha256(), stream.tell()
        for block in padded(one.weights):
            stream.write(block)
            digest.update(block)
        stream.write(b"\0" * (-stream.tell() % ALIGNMENT))
        whole.update(digest.digest())
        places[id(one.weights)] = WeightsLocation("", begin, one.size, 0, digest.digest())
    total = stream.tell()
    found = [replace(places[id(one.weights)], total=total) for one in packed]
    return found, whole.hexdigest()


def companion_name(model: Path, digest: str, suffix: str) -> str:
    """Returns the name of a file that belongs to a model file, with a digest of its content."""
    return f"{model.stem}.{digest[:16]}{suffix}"


def context_attributes(
    context: bytes, partition_name: str, nodes: Sequence[str]
) -> Mapping[str, AttributeValue]:
    """Returns the attributes of an EPContext node with this context.

    nodes   the names of the ONNX nodes that it computes; `notes` has them as a JSON list

    `embed_mode` is 1 also with weights in a file: the node has the program, which names the file.
    Source: ONNX Runtime's EPContext schema.
    """
    return {
        "ep_cache_context": context,
        "embed_mode": 1,
        "main_context": 1,
        "notes": json.dumps([*nodes]),
        "partition_name": partition_name,
        "source": EP_SOURCE,
    }


_METADATA_KEY = "ep_nnapi.sha256"
_ZEROS = "0" * 64
_ENCODED_ENTRY = _METADATA_KEY.encode() + b"\x12\x40"
"""The encoded start of the entry: its key, then tag and length (64) of the value (field 2).

Source: ONNX StringStringEntryProto; Protocol Buffers, length-delimited fields.
"""


def add_placeholder(proto: ModelProto) -> None:
    """Adds the metadata entry with a placeholder; `write_checksum` fills it in afterwards."""
    proto.metadata_props.add(key=_METADATA_KEY, value=_ZEROS)


def write_checksum(path: Path) -> None:
    """Writes the checksum into a model file that has the placeholder of `add_placeholder`."""
    start, digest = _digest(path)
    with path.open("r+b") as file:
        file.seek(start)
        file.write(digest.encode())


def verify_checksum(path: Path) -> None:
    """Raises ModelError if the checksum of a file is missing or wrong, or the file unreadable."""
    try:
        stat = path.stat()
        intact = _intact(path, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size)
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}") from None
    if not intact:
        raise ModelError(f"{path} is corrupt or was changed; prepare the model again")


def verify_checksum_of_bytes(data: bytes) -> None:
    """Raises ModelError if a model's bytes contain a wrong checksum; models without one pass."""
    start, digest = _digest_of(data)
    if start >= 0 and data[start : start + len(_ZEROS)] != digest.encode():
        raise ModelError("the model is corrupt or was changed; prepare it again")


@lru_cache(maxsize=64)
def _intact(path: Path, *_when: int) -> bool:
    """Returns True if the checksum is present and correct; cached while the file is unchanged."""
    start, digest = _digest(path)
    if start < 0:
        return False
    with path.open("rb") as file:
        file.seek(start)
        return file.read(len(_ZEROS)) == digest.encode()


def _digest(path: Path) -> tuple[int, str]:
    """Returns the offset of the checksum in the file (-1 if missing) and its correct value."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return _digest_of(data)


def _digest_of(data: bytes | mmap.mmap) -> tuple[int, str]:
    """Returns the same as `_digest`, for the bytes of a file."""
    start = data.rfind(_ENCODED_ENTRY)
    if start < 0:
        return -1, ""
    start += len(_ENCODED_ENTRY)
    with memoryview(data) as view:
        digest = hashlib.sha256(view[:start])
        digest.update(_ZEROS.encode())
        digest.update(view[start + len(_ZEROS) :])
    return start, digest.hexdigest()
