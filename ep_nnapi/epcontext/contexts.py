"""Contexts of compiled clusters, and their weights: embedded, or in a file next to the model."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from ep_nnapi.epcontext.container import Container
from ep_nnapi.epcontext.layout import ALIGNMENT
from ep_nnapi.epcontext.names import EP_SOURCE
from ep_nnapi.epcontext.weights import WeightsLocation

AttributeValue: TypeAlias = int | str | bytes


def contexts_of(packed: Sequence[Container], model: Path | None) -> Iterator[bytes]:
    """Yields the contexts of a model's clusters, with embedded weights if `model` is None.

    Else all weights are written to one file next to the model file `model`, with its digest in the
    name, so that a replaced model never loads the weights of another.
    """
    if model is None:
        return (one.with_embedded_weights() for one in packed)
    return _with_weights_file(packed, model)


def _with_weights_file(packed: Sequence[Container], model: Path) -> Iterator[bytes]:
    unnamed, whole, places = model.with_suffix(".weights"), hashlib.sha256(), []
    with unnamed.open("wb") as stream:
        for one in packed:
            digest = hashlib.sha256()
            places.append((stream.tell(), digest))
            for block in one.weight_blocks():
                stream.write(block)
                digest.update(block)
            stream.write(b"\0" * (-stream.tell() % ALIGNMENT))
            whole.update(digest.digest())
        total = stream.tell()
    file = companion_name(model, whole.hexdigest(), ".weights")
    unnamed.rename(model.with_name(file))
    for one, (offset, digest) in zip(packed, places, strict=True):
        yield one.with_external_weights(
            WeightsLocation(file, offset, one.size, total, digest.digest())
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
