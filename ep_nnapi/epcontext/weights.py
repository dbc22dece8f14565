"""Weights of a container: embedded, or memory-mapped from a file next to the prepared model."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ep_nnapi.errors import ModelError
from ep_nnapi.graph.value import Array

CORRUPT = "the context is corrupt or truncated; prepare the model again"


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


def read_weights(location: WeightsLocation, embedded: bytes, folder: Path | None) -> Array:
    """Returns the weights as bytes, memory-mapped if external, after checking their digest.

    embedded  what follows the container's header
    folder    folder of the prepared model; None if the model was loaded from memory
    Raises ModelError.
    """
    if location.file:
        if embedded:
            raise ModelError(
                "the context is corrupt: data follows its header; prepare the model again"
            )
        weights = _map_weights(location, folder)
    else:
        weights = np.frombuffer(embedded, np.uint8)
    if weights.size != location.size:
        raise ModelError("the context's weights are truncated; prepare the model again")
    if hashlib.sha256(weights.data).digest() != location.sha256:
        raise ModelError("the context's weights are corrupt; prepare the model again")
    return weights


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
    return np.memmap(path, np.uint8, "r", offset, (size,)) if size else np.zeros(0, np.uint8)
