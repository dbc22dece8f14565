"""Reader of containers of format version 1, whose header is JSON text.

magic | version | header size | SHA-256 of the header | header (JSON) | weights | end
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ep_nnapi.epcontext.layout import TERMINATOR
from ep_nnapi.epcontext.table_reader import check_border
from ep_nnapi.epcontext.weights import CORRUPT, WeightsLocation, WeightsSource, read_weights
from ep_nnapi.graph.value import DType
from ep_nnapi.lowering.border import Border, Crossing
from ep_nnapi.lowering.model_builder import Lowered
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.errors import ModelError
from ep_nnapi.nnapi.model import ChannelQuantization, Data, Model, Omitted, Operand, Operation
from ep_nnapi.nnapi.spec import BY_NAME

PRELUDE = struct.Struct("<8sIQ32s")


def read_header(data: bytes) -> tuple[dict[str, Any], bytes]:
    """Returns the header, after checking its digest, and the embedded weights.

    Raises ModelError, or an error for malformed JSON.
    """
    if len(data) < PRELUDE.size:
        raise ModelError(CORRUPT)
    _, _, size, digest = PRELUDE.unpack_from(data)
    text, rest = data[PRELUDE.size : PRELUDE.size + size], data[PRELUDE.size + size :]
    if len(text) != size or hashlib.sha256(text).digest() != digest:
        raise ModelError(CORRUPT)
    if not rest.endswith(TERMINATOR):
        raise ModelError("the context is truncated; prepare the model again")
    return json.loads(text), rest[: -len(TERMINATOR)]


def read_lowered(header: Mapping[str, Any], weights: Array) -> Lowered:
    """Returns the lowered cluster of a header, with constants as views of `weights`.

    Raises KeyError, TypeError, ValueError, OverflowError or RecursionError for malformed data.
    """
    model = model_from_json(header["model"], weights)
    border = Border(
        tuple(crossing_from_json(c) for c in header["inputs"]),
        tuple(crossing_from_json(c) for c in header["outputs"]),
    )
    check_border(border, model)
    return Lowered(model, border)


def weights_of(header: Mapping[str, Any], embedded: bytes, source: WeightsSource) -> Array:
    """Returns the weights after checking their digest; raises as `read_weights`."""
    found = header["weights"]
    location = WeightsLocation(
        str(found["file"]) if found["file"] is not None else "",
        int(found.get("offset", 0)),
        int(found["size"]),
        int(found.get("total", 0)),
        bytes.fromhex(found["sha256"]),
    )
    return read_weights(location, embedded, source)


def model_from_json(found: Mapping[str, Any], weights: Array) -> Model:
    """Returns the model of JSON data, with constants as views of `weights`.

    Raises KeyError, TypeError, ValueError, OverflowError or RecursionError for malformed data.
    """
    return Model(
        tuple(_operand_from_json(o, weights) for o in found["operands"]),
        tuple(
            Operation(BY_NAME[name], _ints(ins), _ints(outs), tuple(map(str, origin)))
            for name, ins, outs, origin in found["operations"]
        ),
        _ints(found["inputs"]),
        _ints(found["outputs"]),
        bool(found["relaxed"]),
    )


def _operand_from_json(found: Sequence[Any], weights: Array) -> Operand:
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
        _value_from_json(value, weights),
    )


def _value_from_json(value: object, weights: Array) -> Data | Omitted | Model | None:
    if value is None:
        return None
    if value == "omitted":
        return Omitted.NO_VALUE
    if isinstance(value, dict):
        return model_from_json(value, weights)
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


def crossing_from_json(found: Sequence[Any]) -> Crossing:
    """Returns the crossing of JSON data; raises as `model_from_json`."""
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
