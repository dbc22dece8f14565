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
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ep_nnapi.border import Border, Crossing
from ep_nnapi.lowering import Lowered
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.model import (
    ChannelQuantization,
    Data,
    Model,
    Omitted,
    Operand,
    Operation,
)
from ep_nnapi.nnapi.spec import BY_NAME
from ep_nnapi.nnapi.validate import required_level, validate
from ep_nnapi.rejection import ModelError, SpecError
from ep_nnapi.value import Array, DType

FORMAT_VERSION = 1
ALIGNMENT = 64  # bytes: a cache line, and what any SIMD load may ask for
_MAGIC = b"EP-NNAPI"
_PRELUDE = struct.Struct("<8sIQ32s")
_END = b"."  # a string attribute that ended in zeros would lose them


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
        return _sealed({**self.header, "weights": _weights(None, 0, blob)}) + blob + _END

    def beside(self, file: str, offset: int, digest: str) -> bytes:
        """The part without weights, which are in `file` from `offset` on."""
        where = {"file": file, "offset": offset, "size": self.size, "sha256": digest}
        return _sealed({**self.header, "weights": where}) + _END

    def blob(self) -> Iterator[bytes]:
        """The weights with their padding, block by block."""
        yield from _aligned(self.weights)


@dataclass(frozen=True, slots=True)
class Context:
    """What a context holds: the lowered cluster and the feature level it needs."""

    lowered: Lowered
    feature_level: int


def pack(lowered: Lowered) -> Packed:
    """A lowered cluster ready to be written."""
    pool = _Pool()
    header = {
        "format": FORMAT_VERSION,
        "feature_level": required_level(lowered.model),
        "model": _model(lowered.model, pool),
        "inputs": [_crossing(c) for c in lowered.border.inputs],
        "outputs": [_crossing(c) for c in lowered.border.outputs],
    }
    return Packed(header, tuple(pool.arrays), pool.size)


def unpack(data: bytes, folder: Path | None, feature_level: int) -> Context:
    """The context behind `data`.

    folder         where the prepared model is; None when it was loaded from memory
    feature_level  the runtime's
    Raises ModelError in one sentence: corrupt, truncated, of a newer format, above the level, or
    with weights outside of the folder.
    """
    header, rest = _opened(data)
    needed = header.get("feature_level")
    if not isinstance(needed, int) or needed > feature_level:
        raise ModelError(
            f"the context needs feature level {needed}, the runtime offers {feature_level}; "
            "prepare the model for that level"
        )
    try:
        weights = _read_weights(header["weights"], rest, folder)
        model = _model_from(header["model"], weights)
        border = Border(
            tuple(_crossing_from(c) for c in header["inputs"]),
            tuple(_crossing_from(c) for c in header["outputs"]),
        )
        validate(model, feature_level)
        _check_border(border, model)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, SpecError) as error:
        raise ModelError(f"the context is malformed ({error}); prepare the model again") from None
    return Context(Lowered(model, border), needed)


def _sealed(header: Mapping[str, Any]) -> bytes:
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + _PRELUDE.size) % ALIGNMENT)
    digest = hashlib.sha256(text).digest()
    return _PRELUDE.pack(_MAGIC, FORMAT_VERSION, len(text), digest) + text


def _opened(data: bytes) -> tuple[dict[str, Any], bytes]:
    """The header, its digest checked, and what follows it."""
    if len(data) < _PRELUDE.size or not data.startswith(_MAGIC):
        raise ModelError("this is no ep-nnapi context, or it is corrupt; prepare the model again")
    _, version, size, digest = _PRELUDE.unpack_from(data)
    if version > FORMAT_VERSION:
        raise ModelError(
            f"the context has format {version}, this version reads {FORMAT_VERSION}; "
            "upgrade ep-nnapi or prepare the model again"
        )
    text = data[_PRELUDE.size : _PRELUDE.size + size]
    if len(text) != size or hashlib.sha256(text).digest() != digest:
        raise ModelError("the context is corrupt or truncated; prepare the model again")
    rest = data[_PRELUDE.size + size :]
    if not rest.endswith(_END):
        raise ModelError("the context is truncated; prepare the model again")
    return json.loads(text), rest[: -len(_END)]


def _weights(file: str | None, offset: int, blob: bytes) -> dict[str, Any]:
    digest = hashlib.sha256(blob).hexdigest()
    return {"file": file, "offset": offset, "size": len(blob), "sha256": digest}


def _read_weights(where: Mapping[str, Any], rest: bytes, folder: Path | None) -> Array:
    """The weights as bytes: mapped where they are in a file, their digest checked."""
    if where["file"] is None:
        weights = np.frombuffer(rest, np.uint8)
    else:
        weights = _mapped(str(where["file"]), where["offset"], where["size"], folder)
    if weights.size != where["size"]:
        raise ModelError("the context's weights are truncated; prepare the model again")
    if hashlib.sha256(weights.data).hexdigest() != where["sha256"]:
        raise ModelError("the context's weights are corrupt; prepare the model again")
    return weights


def _mapped(name: str, offset: int, size: int, folder: Path | None) -> Array:
    if folder is None:
        raise ModelError(f"the weights are in {name!r}; load the prepared model from its file")
    path = folder / name
    if Path(name).name != name or path.resolve().parent != folder.resolve():
        raise ModelError(f"the context's weights {name!r} are outside of the model's folder")
    if not path.is_file():
        raise ModelError(f"{path}: no such file; it holds the prepared model's weights")
    if size == 0:
        return np.zeros(0, np.uint8)
    if offset < 0 or size < 0 or offset + size > path.stat().st_size:
        raise ModelError(f"{path} is truncated; prepare the model again")
    return np.memmap(path, np.uint8, "r", offset, (size,))


def _aligned(arrays: Sequence[Array]) -> Iterator[bytes]:
    for array in arrays:
        yield array.tobytes()
        yield b"\0" * (-array.size % ALIGNMENT)


@dataclass
class _Pool:
    """Constants in the order in which they are written, each once."""

    arrays: list[Array] = field(default_factory=list)
    size: int = 0
    _found: dict[int, tuple[int, int]] = field(default_factory=dict)

    def add(self, data: Array) -> tuple[int, int]:
        """Offset and size of a constant's bytes."""
        if id(data) not in self._found:
            self._found[id(data)] = (self.size, data.size)
            self.arrays.append(data)
            self.size += data.size + (-data.size % ALIGNMENT)
        return self._found[id(data)]


def _model(model: Model, pool: _Pool) -> dict[str, Any]:
    return {
        "operands": [_operand(o, pool) for o in model.operands],
        "operations": [
            [op.spec.name, list(op.inputs), list(op.outputs), list(op.origin)]
            for op in model.operations
        ],
        "inputs": list(model.inputs),
        "outputs": list(model.outputs),
        "relaxed": model.relaxed,
    }


def _operand(operand: Operand, pool: _Pool) -> list[Any]:
    value: object = None
    if isinstance(operand.value, Data):
        value = pool.add(operand.value.bytes)
    elif isinstance(operand.value, Model):
        value = _model(operand.value, pool)
    elif operand.value is not None:
        value = "omitted"
    channels = operand.channels and [operand.channels.dim, list(operand.channels.scales)]
    name, dims = operand.type.name, list(operand.dimensions)
    return [name, dims, operand.scale, operand.zero_point, channels, value]


def _model_from(found: Mapping[str, Any], weights: Array) -> Model:
    return Model(
        tuple(_operand_from(o, weights) for o in found["operands"]),
        tuple(
            Operation(BY_NAME[name], _ints(ins), _ints(outs), tuple(map(str, origin)))
            for name, ins, outs, origin in found["operations"]
        ),
        _ints(found["inputs"]),
        _ints(found["outputs"]),
        bool(found["relaxed"]),
    )


def _operand_from(found: Sequence[Any], weights: Array) -> Operand:
    name, dims, scale, zero, channels, value = found
    quantized = channels and ChannelQuantization(
        int(channels[0]), tuple(float(s) for s in channels[1])
    )
    code = OperandCode[name]
    return Operand(
        code,
        _ints(dims),
        float(scale),
        int(zero),
        quantized or None,
        _value_from(value, weights),
    )


def _value_from(value: object, weights: Array) -> Data | Omitted | Model | None:
    if value is None:
        return None
    if value == "omitted":
        return Omitted.NO_VALUE
    if isinstance(value, dict):
        return _model_from(value, weights)
    if not isinstance(value, list):
        raise TypeError(f"an operand's value is {value!r}")
    offset, size = _ints(value)
    if offset < 0 or size < 0 or offset + size > weights.size:
        raise ValueError("a constant lies outside of the weights")
    return Data(weights[offset : offset + size])


def _ints(found: Sequence[Any]) -> tuple[int, ...]:
    if not all(type(i) is int for i in found):
        raise TypeError(f"{found!r} are no integers")
    return tuple(found)


def _crossing(c: Crossing) -> list[Any]:
    perm = None if c.perm is None else list(c.perm)
    shape, held = list(c.shape), list(c.nnapi_shape)
    return [c.name, int(c.dtype), shape, c.operand, perm, held, c.nnapi_dtype.str]


def _crossing_from(found: Sequence[Any]) -> Crossing:
    name, dtype, shape, operand, perm, held, nnapi_dtype = found
    if not isinstance(nnapi_dtype, str) or np.dtype(nnapi_dtype).hasobject:
        raise TypeError(f"{nnapi_dtype!r} is no element type")
    return Crossing(
        str(name),
        DType(dtype),
        _ints(shape),
        int(operand),
        None if perm is None else _ints(perm),
        _ints(held),
        np.dtype(nnapi_dtype),
    )


def _check_border(border: Border, model: Model) -> None:
    """Raises ValueError unless every crossing fits its operand."""
    sides: tuple[tuple[Sequence[Crossing], Sequence[int]], ...] = (
        (border.inputs, model.inputs),
        (border.outputs, model.outputs),
    )
    for crossings, indexes in sides:
        if {c.operand for c in crossings} != set(range(len(indexes))):
            raise ValueError("the border does not fit the model")
        for c in crossings:
            operand = model.operands[indexes[c.operand]]
            fits = (
                c.nnapi_shape == operand.dimensions
                and c.nnapi_dtype == operand.type.numpy
                and prod(c.shape) == prod(c.nnapi_shape)
                and (c.perm is None or sorted(c.perm) == list(range(len(c.shape))))
            )
            if not fits:
                raise ValueError(f"{c.name} does not fit its operand")
