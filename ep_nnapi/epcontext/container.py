"""A compiled cluster as bytes: its NNAPI model and border, for a model prepared ahead of time.

    magic | version | header size | SHA-256 of the header | header (JSON) | weights | end

The weights follow in the same bytes, or are in a file beside the prepared model, which the runtime
maps. Nothing in it is executed: no code, no pickles, and no path that leads out of the folder.
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
    Pool,
    check_border,
    crossing_data,
    crossing_from,
    model_data,
    model_from,
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
_END = b"."  # a string attribute that ended in zeros would lose them


@dataclass(frozen=True, slots=True)
class Place:
    """Where weights are: from `offset` of a file of `total` bytes, and their digest."""

    file: str
    offset: int
    total: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Packed:
    """A cluster's context in two parts, to be joined or kept apart.

    weights   aligned blocks, to be written one after the other from `offset` of their file on
    """

    header: dict[str, Any]
    weights: tuple[Array, ...]
    size: int

    def embedded(self) -> bytes:
        """All of it in one."""
        blob = b"".join(_aligned(self.weights))
        digest = hashlib.sha256(blob).hexdigest()
        where = {"file": None, "size": len(blob), "sha256": digest}
        return _sealed({**self.header, "weights": where}) + blob + _END

    def beside(self, place: Place) -> bytes:
        """The part without weights, which are in that place."""
        where = {**asdict(place), "size": self.size}
        return _sealed({**self.header, "weights": where}) + _END

    def blob(self) -> Iterator[bytes]:
        """The weights with their padding, block by block."""
        yield from _aligned(self.weights)


@dataclass(frozen=True, slots=True)
class Context:
    """What a context holds: the lowered cluster, and the feature level it needs.

    size  bytes of weights, in `file` beside the model; None: in the context itself
    """

    lowered: Lowered
    feature_level: int
    size: int
    file: str | None


def pack(lowered: Lowered) -> Packed:
    """A lowered cluster ready to be written."""
    pool = Pool()
    header = {
        "format": FORMAT_VERSION,
        "feature_level": required_level(lowered.model),
        "model": model_data(lowered.model, pool),
        "inputs": [crossing_data(c) for c in lowered.border.inputs],
        "outputs": [crossing_data(c) for c in lowered.border.outputs],
    }
    return Packed(header, tuple(pool.arrays), pool.size)


def unpack(data: bytes, folder: Path | None, feature_level: int) -> Context:
    """The context behind `data`.

    folder         where the prepared model is; None when it was loaded from memory
    feature_level  the runtime's
    Raises ModelError in one sentence: corrupt, truncated, of a newer format, above the level, or
    with weights outside of the folder.
    """
    text, rest = _opened(data)
    try:
        header = json.loads(text)
        needed = int(header["feature_level"])
        if needed > feature_level:
            raise ModelError(
                f"the context needs feature level {needed}, the runtime offers {feature_level}; "
                "prepare the model for that level"
            )
        weights = _read_weights(header["weights"], rest, folder)
        model = model_from(header["model"], weights)
        border = Border(
            tuple(crossing_from(c) for c in header["inputs"]),
            tuple(crossing_from(c) for c in header["outputs"]),
        )
        validate(model, feature_level)
        check_border(border, model)
        file = header["weights"]["file"]
    except _MALFORMED as error:
        says = " ".join(str(error).split())
        raise ModelError(f"the context is malformed ({says}); prepare the model again") from None
    return Context(Lowered(model, border), needed, weights.size, file)


def _sealed(header: Mapping[str, Any]) -> bytes:
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + _PRELUDE.size) % ALIGNMENT)
    digest = hashlib.sha256(text).digest()
    return _PRELUDE.pack(_MAGIC, FORMAT_VERSION, len(text), digest) + text


def _opened(data: bytes) -> tuple[bytes, bytes]:
    """The header's text, its digest checked, and what follows it."""
    if len(data) < _PRELUDE.size or not data.startswith(_MAGIC):
        raise ModelError("this is no ep-nnapi context, or it is corrupt; prepare the model again")
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
    if not rest.endswith(_END):
        raise ModelError("the context is truncated; prepare the model again")
    return text, rest[: -len(_END)]


def _read_weights(where: Mapping[str, Any], rest: bytes, folder: Path | None) -> Array:
    """The weights as bytes: mapped where they are in a file, their digest checked."""
    if where["file"] is None:
        weights = np.frombuffer(rest, np.uint8)
    else:
        if rest:
            raise ModelError("the context is corrupt: it goes on; prepare the model again")
        weights = _mapped(where, folder)
    if weights.size != where["size"]:
        raise ModelError("the context's weights are truncated; prepare the model again")
    if hashlib.sha256(weights.data).hexdigest() != where["sha256"]:
        raise ModelError("the context's weights are corrupt; prepare the model again")
    return weights


def _mapped(where: Mapping[str, Any], folder: Path | None) -> Array:
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
