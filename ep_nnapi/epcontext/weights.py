"""Weights of a container: embedded, or memory-mapped from a file next to the prepared model."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

import numpy as np

from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.errors import ModelError

CORRUPT = "the context is corrupt or truncated; prepare the model again"


WeightsSource: TypeAlias = Path | Callable[[str], Array] | None
"""Where external weights are: in a folder, or what an application has under their name."""


@dataclass(frozen=True, slots=True)
class WeightsLocation:
    """Location of a container's weights: `size` bytes from `offset` in a file of `total` bytes.

    file    name of the file next to the model; empty if the weights are embedded
    sha256  digest of the weights
    """

    file: str
    offset: int
    size: int
    total: int
    sha256: bytes


def read_weights(location: WeightsLocation, embedded: bytes, source: WeightsSource) -> Array:
    """Returns the weights as bytes, memory-mapped if in a file, after checking their digest.

    embedded  what follows the container's header
    source    of external weights: the folder of the prepared model, or a function that returns what
              the application has under a name; None if the model was loaded from memory
    Raises ModelError.
    """
    if location.file:
        if embedded:
            raise ModelError(
                "the context is corrupt: data follows its header; prepare the model again"
            )
        weights = _external_weights(location, source)
    elif location.offset or location.total:
        raise ModelError(CORRUPT)
    else:
        weights = np.frombuffer(embedded, np.uint8)
    if weights.size != location.size:
        raise ModelError("the context's weights are truncated; prepare the model again")
    if _digest(weights, location, source) != location.sha256:
        raise ModelError("the context's weights are corrupt; prepare the model again")
    return weights


def _external_weights(location: WeightsLocation, source: WeightsSource) -> Array:
    if not callable(source):
        return _map_weights(location, source)
    content = source(location.file)
    if content.size != location.total:
        raise ModelError(
            f"the application's weights {location.file!r} have {content.size} bytes, not "
            f"{location.total}; prepare the model again"
        )
    return content[location.offset : location.offset + location.size]


def _map_weights(location: WeightsLocation, folder: Path | None) -> Array:
    name, offset, size = location.file, location.offset, location.size
    if folder is None:
        raise ModelError(f"the weights are in {name!r}; load the prepared model from its file")
    path = folder / name
    if Path(name).name != name or path.resolve().parent != folder.resolve():
        raise ModelError(f"the context's weights {name!r} are outside of the model's folder")
    if not path.is_file():
        raise ModelError(f"{path}: no such file; it holds the prepared model's weights")
    total = path.stat().st_size
    if offset < 0 or size < 0 or offset + size > total:
        raise ModelError(f"{path} is truncated; prepare the model again")
    if total != location.total:
        raise ModelError(f"{path} is corrupt: it has another size; prepare the model again")
    return _mapped(path, offset, size)


def _mapped(path: Path, offset: int, size: int) -> Array:
    """Returns a part of a file as a plain array, whose views are cheaper than those of a memmap."""
    if not size:
        return np.zeros(0, np.uint8)
    return np.asarray(np.memmap(path, np.uint8, "r", offset, (size,)))


def _digest(weights: Array, location: WeightsLocation, source: WeightsSource) -> bytes:
    """Returns the SHA-256 of the weights; that of a file is computed once while it is unchanged."""
    if not location.file or not isinstance(source, Path):
        return hashlib.sha256(weights.data).digest()
    path = source / location.file
    stat = path.stat()
    when = stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns
    return _file_digest(path, location.offset, location.size, *when)


@lru_cache(maxsize=64)
def _file_digest(path: Path, offset: int, size: int, *_when: int) -> bytes:
    return hashlib.sha256(_mapped(path, offset, size).data).digest()
