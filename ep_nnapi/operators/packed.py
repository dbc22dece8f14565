"""Products with, and rows of, constant weights of 4 or 8 bits that have a scale for each block.

NNAPI has no such weights: they are dequantized when the model is written. A device that has the
operators finds the packed weights in their composites.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np

from ep_nnapi.graph.graph import MICROSOFT_DOMAIN
from ep_nnapi.graph.value import MAX_RANK, Constant, DType, Recipe, Value, operand_shape
from ep_nnapi.lowering.call import Call
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.operators.lib.matmul import write_fully_connected
from ep_nnapi.operators.lib.node import Node, op, zeros
from ep_nnapi.operators.lib.quantizing import require_bytes

_BITS = (4, 8)
_SMALLEST_BLOCK = 16


@op("MatMulNBits", since=1, domain=MICROSOFT_DOMAIN, keeps=True)
def matmul_nbits(n: Node) -> Iterator[Call]:
    """Rows times constant weights of 4 or 8 bits, dequantized up to `max_dequantized_bytes`.

    A [..., K]; B [N, blocks, bytes]; scales [N, blocks]; zero_points [N, blocks], or packed like B
    (default: half the range); bias [N]; blocks of 16, 32, 64 ... along K. `g_idx` and weights that
    are packed in a device's own way are rejected.
    """
    a, y = n.input(0), n.output()
    depth, units = n.integer("K"), n.integer("N")
    detail = "g_idx is given; the columns of the weights must be in their order"
    n.require(not n.has(4), Reason.ATTRIBUTE, detail)
    prepacked = n.integer("weight_prepacked", 0)
    n.require(prepacked == 0, Reason.ATTRIBUTE, f"weight_prepacked is {prepacked}; it must be 0")
    n.require(a.rank > 0 and a.shape[-1] == depth, Reason.SHAPE, f"{a.name} has no rows of {depth}")
    weights = _weights(n, (units, depth), (1, 2, 3), y.dtype)
    rows = yield from n.reshaped(a, (a.size // depth, depth))
    result = n.output_or_temp(y, (a.size // depth, units))
    bias = n.input(5) if n.has(5) else n.value("zeros", zeros(units, y.dtype))
    yield from write_fully_connected(n, rows, weights, bias, result)
    yield from n.write_output(result, y)


@op("GatherBlockQuantized", since=1, domain=MICROSOFT_DOMAIN, keeps=True)
def gather_block_quantized(n: Node) -> Iterator[Call]:
    """Rows of a constant table of 4 or 8 bits, dequantized up to `max_dequantized_bytes`.

    data [R, ..., bytes] UINT8; scales [R, ..., blocks]; zero_points as the scales, packed as the
    data (default: half the range); blocks of 16, 32, 64 ... along the last axis
    """
    data, index, scales, y = n.input(0), n.input(1), n.input(2), n.output()
    bits = n.integer("bits", 4)
    detail = f"{data.name} is {data.dtype.name}; tables are packed in UINT8"
    n.require(data.dtype is DType.UINT8, Reason.DTYPE, detail)
    for name, default, wanted in (("gather_axis", 0, 0), ("quantize_axis", 1, data.rank - 1)):
        axis = n.normalized(n.integer(name, default), data.rank, name)
        n.require(axis == wanted, Reason.ATTRIBUTE, f"{name} is {axis}; it must be {wanted}")
    shape = (*data.shape[:-1], data.shape[-1] * 8 // (bits if bits in _BITS else 8))
    n.require(scales.rank == data.rank, Reason.RANK, f"{scales.name} has rank {scales.rank}")
    table = _weights(n, shape, (0, 2, 3), y.dtype)
    found = yield from n.indices(index, shape[0])
    rows = yield from n.reshaped(table, (shape[0], prod(shape[1:])))
    if index.rank >= MAX_RANK:
        found = yield from n.reshaped(found, (index.size,))
    gathered = (*operand_shape(found.shape), prod(shape[1:]))
    yield from n.compute_as(y, gathered, spec.GATHER, rows, axis=0, indices=found)


def _weights(n: Node, shape: tuple[int, ...], inputs: tuple[int, int, int], dtype: DType) -> Value:
    """Return weights in blocks along the last axis, dequantized when the model is written.

    inputs   indexes of the node's inputs: packed weights, scales, zero points
    Raises Reject for other bits, blocks or sizes, and for more than `max_dequantized_bytes`.
    """
    bits, block = n.integer("bits", 4), n.integer("block_size", 128)
    n.require(bits in _BITS, Reason.ATTRIBUTE, f"bits is {bits}; 4 and 8 are supported")
    fits = block >= _SMALLEST_BLOCK and not block & (block - 1)
    detail = f"block_size is {block}; it must be a power of two from {_SMALLEST_BLOCK} on"
    n.require(fits, Reason.ATTRIBUTE, detail)
    rows, depth = prod(shape[:-1]), shape[-1]
    count = -(-depth // block)
    stored = count * block if n.node.op_type == "MatMulNBits" else depth
    sources = [
        _of_size(n, inputs[0], rows * (stored * bits // 8)),
        _of_size(n, inputs[1], rows * count),
    ]
    if n.has(inputs[2]):
        is_packed = n.input(inputs[2]).dtype is DType.UINT8
        size = rows * -(-count * bits // 8) if is_packed else rows * count
        sources.append(_of_size(n, inputs[2], size))

    def dequantized(given: Sequence[Array]) -> Array:
        numbers = np.zeros((rows, count * block), np.float32)
        numbers[:, :stored] = _unpacked(given[0].reshape(rows, -1), bits)
        blocks = numbers.reshape(rows, count, block)
        blocks -= _in_blocks(given[2:], rows, count, bits)
        blocks *= given[1].reshape(rows, count, 1).astype(np.float32)
        return numbers[:, :depth].astype(dtype.numpy).reshape(shape)

    constant = Constant.made(shape, dtype, Recipe(tuple(sources), dequantized))
    made = n.value(f"{n.input(inputs[0]).name} dequantized", constant)
    require_bytes(made, n.target.max_dequantized_bytes)
    return made


def _of_size(n: Node, index: int, size: int) -> Constant:
    """Return the constant of an input; raise Reject unless it has as many elements."""
    value, constant = n.input(index), n.constant(index)
    detail = f"{value.name} has {prod(value.shape)} elements; it must have {size}"
    n.require(prod(value.shape) == size, Reason.SHAPE, detail)
    return constant


def _in_blocks(given: Sequence[Array], rows: int, count: int, bits: int) -> Array:
    """Return the zero points [rows, blocks, 1]; half the range if none are given."""
    if not given:
        return np.array(1 << (bits - 1), np.float32)
    numbers = given[0].reshape(rows, -1)
    if numbers.dtype == np.uint8:
        numbers = _unpacked(numbers, bits)[:, :count]
    return numbers.astype(np.float32)[..., np.newaxis]


def _unpacked(packed: Array, bits: int) -> Array:
    """Return numbers of 4 or 8 bits [rows, n] as bytes; the lower half of a byte comes first."""
    if bits == 8:
        return packed
    return np.stack([packed & 15, packed >> 4], axis=-1).reshape(len(packed), -1)
