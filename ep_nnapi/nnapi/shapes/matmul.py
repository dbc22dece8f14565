"""Shape inference for matrix products."""

from __future__ import annotations

from math import prod

from ep_nnapi.nnapi.shapes.elementwise import broadcast
from ep_nnapi.nnapi.shapes.operands import Dim, Dims, Tensor, by_name, require, unify


def fully_connected(input: Tensor, weights: Tensor, bias: Tensor) -> Dims:
    """Input of any rank, reshaped to [rows, K], with weights [N, K], to [rows, N]."""
    units, depth = weights.dims
    return (_rows(input.dims, depth), unify(units, bias.dims[0]))


def _rows(dims: Dims, depth: Dim) -> Dim:
    sizes = [size for size in dims if size is not None]
    if depth is None or len(sizes) < len(dims):
        return dims[0] if len(dims) == 2 else None
    if depth == 0:
        return dims[0]
    require(prod(sizes) % depth == 0, f"{prod(sizes)} elements do not fill rows of {depth}")
    return prod(sizes) // depth


def batch_matmul(input1: Tensor, input2: Tensor, adj_x: bool = False, adj_y: bool = False) -> Dims:
    """[..., M, K] by [..., K, N] to [..., M, N]; optional transposes, batch axes broadcast."""
    rows, depth = input1.dims[-2:][:: -1 if adj_x else 1]
    depth2, columns = input2.dims[-2:][:: -1 if adj_y else 1]
    unify(depth, depth2)
    return (*broadcast(Tensor(input1.dims[:-2]), Tensor(input2.dims[:-2])), rows, columns)


SHAPES = by_name(fully_connected, batch_matmul)
