"""Writer of containers of format version 1, which the package only reads."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np

from ep_nnapi.epcontext.layout import ALIGNMENT, MAGIC
from ep_nnapi.epcontext.table_writer import ConstantPool, padded
from ep_nnapi.epcontext.version1 import PRELUDE
from ep_nnapi.lowering.border import Crossing
from ep_nnapi.lowering.model_builder import Lowered
from ep_nnapi.nnapi.model import Data, Model, Operand
from ep_nnapi.nnapi.validate import required_level


def pack(lowered: Lowered) -> bytes:
    """A container with embedded weights."""
    header, weights = header_of(lowered)
    return with_checksum(json.dumps(header).encode(), weights)


def header_of(lowered: Lowered) -> tuple[dict[str, Any], bytes]:
    """The header as JSON data, and the weights."""
    pool = ConstantPool()
    header = {
        "format": 1,
        "feature_level": required_level(lowered.model),
        "model": model_to_json(lowered.model, pool),
        "inputs": [crossing_to_json(c) for c in lowered.border.inputs],
        "outputs": [crossing_to_json(c) for c in lowered.border.outputs],
    }
    weights = b"".join(padded(pool.arrays))
    digest = hashlib.sha256(weights).hexdigest()
    header["weights"] = {"file": None, "size": len(weights), "sha256": digest}
    return json.loads(json.dumps(header)), weights


def with_checksum(text: bytes, weights: bytes = b"") -> bytes:
    """A container whose header is any text, its checksum right."""
    text += b" " * (-(len(text) + PRELUDE.size) % ALIGNMENT)
    digest = hashlib.sha256(text).digest()
    return PRELUDE.pack(MAGIC, 1, len(text), digest) + text + weights + b"."


def model_to_json(model: Model, pool: ConstantPool) -> dict[str, Any]:
    return {
        "operands": [_operand_to_json(o, pool) for o in model.operands],
        "operations": [
            [op.spec.name, list(op.inputs), list(op.outputs), list(op.origin)]
            for op in model.operations
        ],
        "inputs": list(model.inputs),
        "outputs": list(model.outputs),
        "relaxed": model.relaxed,
    }


def _operand_to_json(operand: Operand, pool: ConstantPool) -> list[Any]:
    value: object = None
    if isinstance(operand.value, Data):
        value = pool.add(operand.value.bytes)
    elif isinstance(operand.value, Model):
        value = model_to_json(operand.value, pool)
    elif operand.value is not None:
        value = "omitted"
    channels = operand.channels and [operand.channels.dim, list(operand.channels.scales)]
    name, dims = operand.type.name, list(operand.dimensions)
    return [name, dims, operand.scale, operand.zero_point, channels, value]


def crossing_to_json(c: Crossing) -> list[Any]:
    perm = None if c.perm is None else list(c.perm)
    held = np.dtype(c.nnapi_dtype).str
    return [c.name, int(c.dtype), list(c.shape), c.operand, perm, list(c.nnapi_shape), held]
