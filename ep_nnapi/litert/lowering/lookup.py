"""Rows by key, and projections by hash functions."""

from __future__ import annotations

from ep_nnapi.litert.operation import FlatOp
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.spec import F16, F32, I32, Q8
from ep_nnapi.ort_devices.graph import require
from ep_nnapi.ort_devices.operation import row


def hashtable_lookup(op: FlatOp) -> None:
    """Rows of `values` by key, and hits."""
    op.same_quantization("values")
    inputs = [op.tensor(name, signed=False) for name in ("lookups", "keys", "values")]
    op.graph.operator("HASHTABLE_LOOKUP", inputs, [op.out(), op.out("hits")])


def lsh_projection(op: FlatOp) -> None:
    """Bits of hash functions of the stored input."""
    halves = F16 in (op.operand("hash").type, op.operand("input").type)
    require(not halves, "float16 numbers have other hashes in float32")
    kind = _PROJECTIONS.get(op.number("type"))
    require(kind is not None, "the deprecated kind of sparse projections")
    names = ("hash", "input", *(["weight"] if op.given("weight") else []))
    inputs = [op.tensor(name, signed=False) for name in names]
    op.run("LSH_PROJECTION", inputs, type=kind or 0)


_PROJECTIONS = {2: 2, 3: 1}
"""LiteRT's types of projections by NNAPI's: dense, sparse."""

ROWS = (
    row(spec.HASHTABLE_LOOKUP, hashtable_lookup, F32, I32, Q8),
    row(spec.LSH_PROJECTION, lsh_projection, F32, I32, Q8),
)
