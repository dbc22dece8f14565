"""Contexts of compiled clusters, and their weights: embedded, or in a file next to the model."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeAlias

from ep_nnapi.epcontext.container import Container
from ep_nnapi.epcontext.layout import ALIGNMENT
from ep_nnapi.epcontext.names import EP_SOURCE
from ep_nnapi.epcontext.weights import WeightsLocation

AttributeValue: TypeAlias = int | str | bytes


class Place(NamedTuple):
    """Place of a cluster's weights among `total` bytes, and their digest."""

    offset: int
    total: int
    sha256: bytes


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
        return _with_sent_weights(packed, target)
    return _with_weights_file(packed, target)


def _with_weights_file(packed: Sequence[Container], model: Path) -> Iterator[bytes]:
    unnamed = model.with_suffix(".weights")
    with unnamed.open("wb") as stream:
        places, digest = _write_weights(packed, stream)
    file = companion_name(model, digest, ".weights")
    unnamed.rename(model.with_name(file))
    return _located(packed, places, file)


def _with_sent_weights(packed: Sequence[Container], receiver: WeightsReceiver) -> Iterator[bytes]:
    stream = io.BytesIO()
    places, digest = _write_weights(packed, stream)
    file = companion_name(receiver.model, digest, ".weights")
    receiver.write(file, stream.getvalue())
    return _located(packed, places, file)


def _write_weights(packed: Sequence[Container], stream: BinaryIO) -> tuple[list[Place], str]:
    """Writes the weights of all clusters; returns their places, and the digest of all."""
    whole, begun = hashlib.sha256(), []
    for one in packed:
        digest = hashlib.sha256()
        begun.append((stream.tell(), digest))
        for block in one.weight_blocks():
            stream.write(block)
            digest.update(block)
        stream.write(b"\0" * (-stream.tell() % ALIGNMENT))
        whole.update(digest.digest())
    total = stream.tell()
    places = [Place(offset, total, digest.digest()) for offset, digest in begun]
    return places, whole.hexdigest()


def _located(packed: Sequence[Container], places: list[Place], file: str) -> Iterator[bytes]:
    for one, place in zip(packed, places, strict=True):
        yield one.with_external_weights(
            WeightsLocation(file, place.offset, one.size, place.total, place.sha256)
        )


def companion_name(model: Path, digest: str, suffix: str) -> str:
    """Returns the name of a file that belongs to a model file, with a digest of its content."""
    return f"{model.stem}.{digest[:16]}{suffix}"


def context_attributes(context: bytes, partition_name: str) -> Mapping[str, AttributeValue]:
    """Returns the attributes of an EPContext node with this context.

    `embed_mode` is 1 also with weights in a file: the node has the program, which names the file.
    Source: ONNX Runtime's EPContext schema.
    """
    return {
        "ep_cache_context": context,
        "embed_mode": 1,
        "main_context": 1,
        "partition_name": partition_name,
        "source": EP_SOURCE,
    }
