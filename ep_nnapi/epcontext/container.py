"""Binary container of an EPContext node: the NNAPI model and border of one compiled cluster.

    magic | version | header size | SHA-256 of the header | header (JSON) | weights | end

The weights are embedded, or in a separate file next to the prepared model that is memory-mapped.
Loading is safe for untrusted data: no code, no pickles, and no path outside of the model's folder.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ep_nnapi.epcontext.serialize import (
    ALIGNMENT,
    ConstantPool,
    check_border,
    crossing_from_json,
    crossing_to_json,
    model_from_json,
    model_to_json,
)
from ep_nnapi.errors import ModelError, SpecError
from ep_nnapi.graph.value import Array
from ep_nnapi.lowering.border import Border
from ep_nnapi.lowering.model_builder import Lowered
from ep_nnapi.nnapi.validate import required_level, validate

FORMAT_VERSION = 1
_MAGIC = b"EP-NNAPI"
_PRELUDE = struct.Struct("<8sIQ32s")
_MALFORMED = (
    AttributeError,
    LookupError,
    OverflowError,
    RecursionError,
    SpecError,
    TypeError,
    ValueError,
)
_TERMINATOR = b"."  # trailing zeros of a string attribute are lost when it is read


@dataclass(frozen=True, slots=True)
class WeightsLocation:
    """Location of external weights: `offset` in a file of `total` bytes, and their SHA-256."""

    file: str
    offset: int
    total: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Container:
    """A cluster's container before it is written, with embedded or external weights.

    header    the JSON header, without the entry "weights"
    weights   blocks to write one after the other, each padded to `ALIGNMENT`
    size      bytes of all blocks with their padding
    """

    header: dict[str, Any]
    weights: tuple[Array, ...]
    size: int

    def with_embedded_weights(self) -> bytes:
        """Returns the container with embedded weights."""
        blob = b"".join(_aligned(self.weights))
        digest = hashlib.sha256(blob).hexdigest()
        where = {"file": None, "size": len(blob), "sha256": digest}
        return _with_prelude({**self.header, "weights": where}) + blob + _TERMINATOR

    def with_external_weights(self, location: WeightsLocation) -> bytes:
        """Returns the container without weights, which are stored at `place`."""
        where = {**asdict(location), "size": self.size}
        return _with_prelude({**self.header, "weights": where}) + _TERMINATOR

    def weight_blocks(self) -> Iterator[bytes]:
        """Yields the weights with their padding, block by block."""
        yield from _aligned(self.weights)


@dataclass(frozen=True, slots=True)
class ContainerContent:
    """A container's content: the lowered cluster and the feature level it needs.

    size  bytes of weights
    file  name of the weights' file next to the model; None if the weights are embedded
    """

    lowered: Lowered
    feature_level: int
    size: int
    file: str | None


def pack(lowered: Lowered) -> Container:
    """Returns a lowered cluster as a container ready to be written."""
    pool = ConstantPool()
    header = {
        "format": FORMAT_VERSION,
        "feature_level": required_level(lowered.model),
        "model": model_to_json(lowered.model, pool),
        "inputs": [crossing_to_json(c) for c in lowered.border.inputs],
        "outputs": [crossing_to_json(c) for c in lowered.border.outputs],
    }
    return Container(header, tuple(pool.arrays), pool.size)


def unpack(data: bytes, folder: Path | None, feature_level: int) -> ContainerContent:
    """Returns the content of a container.

    folder         folder of the prepared model; None if the model was loaded from memory
    feature_level  feature level of the runtime
    Raises ModelError with a one-sentence message if the container is corrupt or truncated, has a
    newer format, needs a higher feature level, or has weights outside of the folder.
    """
    text, rest = _split_container(data)
    try:
        header = json.loads(text)
        needed = int(header["feature_level"])
        if needed > feature_level:
            raise ModelError(
                f"the context needs feature level {needed}, the runtime offers {feature_level}; "
                "prepare the model for that level"
            )
        weights = _read_weights(header["weights"], rest, folder)
        model = model_from_json(header["model"], weights)
        border = Border(
            tuple(crossing_from_json(c) for c in header["inputs"]),
            tuple(crossing_from_json(c) for c in header["outputs"]),
        )
        validate(model, feature_level)
        check_border(border, model)
        file = header["weights"]["file"]
    except _MALFORMED as error:
        says = " ".join(str(error).split())
        raise ModelError(f"the context is malformed ({says}); prepare the model again") from None
    return ContainerContent(Lowered(model, border), needed, weights.size, file)


def _with_prelude(header: Mapping[str, Any]) -> bytes:
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + _PRELUDE.size) % ALIGNMENT)
    digest = hashlib.sha256(text).digest()
    return _PRELUDE.pack(_MAGIC, FORMAT_VERSION, len(text), digest) + text


def _split_container(data: bytes) -> tuple[bytes, bytes]:
    """Returns the header's text, after checking its digest, and the bytes that follow it."""
    if len(data) < _PRELUDE.size or not data.startswith(_MAGIC):
        raise ModelError(
            "the data is not an ep-nnapi context, or is corrupt; prepare the model again"
        )
    _, version, size, digest = _PRELUDE.unpack_from(data)
    if version > FORMAT_VERSION:
        raise ModelError(
            f"the context has format {version}, this version reads {FORMAT_VERSION}; "
            "upgrade ep-nnapi or prepare the model again"
        )
    text = data[_PRELUDE.size : _PRELUDE.size + size]
    if version < 1 or len(text) != size or hashlib.sha256(text).digest() != digest:
        raise ModelError("the context is corrupt or truncated; prepare the model again")
    rest = data[_PRELUDE.size + size :]
    if not rest.endswith(_TERMINATOR):
        raise ModelError("the context is truncated; prepare the model again")
    return text, rest[: -len(_TERMINATOR)]


def _read_weights(where: Mapping[str, Any], rest: bytes, folder: Path | None) -> Array:
    """Returns the weights as bytes, memory-mapped if external, after checking their digest."""
    if where["file"] is None:
        weights = np.frombuffer(rest, np.uint8)
    else:
        if rest:
            raise ModelError(
                "the context is corrupt: data follows its header; prepare the model again"
            )
        weights = _map_weights(where, folder)
    if weights.size != where["size"]:
        raise ModelError("the context's weights are truncated; prepare the model again")
    if hashlib.sha256(weights.data).hexdigest() != where["sha256"]:
        raise ModelError("the context's weights are corrupt; prepare the model again")
    return weights


def _map_weights(where: Mapping[str, Any], folder: Path | None) -> Array:
    name, offset, size = str(where["file"]), int(where["offset"]), int(where["size"])
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
    if total != where["total"]:
        raise ModelError(f"{path} is corrupt: it has another size; prepare the model again")
    return np.memmap(path, np.uint8, "r", offset, (size,)) if size else np.zeros(0, np.uint8)


def _aligned(arrays: Sequence[Array]) -> Iterator[bytes]:
    for array in arrays:
        yield array.tobytes()
        yield b"\0" * (-array.size % ALIGNMENT)
