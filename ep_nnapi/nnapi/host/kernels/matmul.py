"""Matrix multiplication kernels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.host.codec import scaled
from ep_nnapi.nnapi.host.kernel import Types, real, stored
from ep_nnapi.nnapi.host.kernels.linear import (
    Finish,
    as_factors,
    exact,
    factors,
    finish,
    max_magnitude,
)
from ep_nnapi.nnapi.host.kernels.sums import multiply
from ep_nnapi.nnapi.spec import F16, F32, I32, Q8, Q8S


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """Packed weights [K, N], and the epilogue."""

    matrix: Array
    finish: Finish


def pack(weights: Array, bias: Array, activation: int, types: Types) -> Weights:
    """Packs the weights [N, K] of a fully connected layer."""
    matrix = factors(weights, types["weights"], bias, types["input"], axis=0).T
    return Weights(matrix, finish(bias, types["weights"], activation, types, matrix.dtype))


def fully_connected(
    input: Array, weights: Weights, bias: Array, activation: int, *, types: Types, out: Array
) -> None:
    """Fully connected layer. Source: NDK ANEURALNETWORKS_FULLY_CONNECTED."""
    rows = as_factors(input, types["input"], weights.matrix.dtype)
    sums = weights.finish.receiver(out)
    depth = weights.matrix.shape[0]
    multiply(rows.reshape(out.shape[0], depth), weights.matrix, sums)
    weights.finish(sums, out)


def batch_matmul(
    input1: Array, input2: Array, adj_x: bool = False, adj_y: bool = False, *, out: Array
) -> None:
    """Batched matrix product; adj_x, adj_y transpose. Source: NDK ANEURALNETWORKS_BATCH_MATMUL."""
    multiply(_matrix(input1, adj_x), _matrix(input2, adj_y), out)


def batch_matmul_quantized(
    input1: Array,
    input2: Array,
    adj_x: bool = False,
    adj_y: bool = False,
    *,
    types: Types,
    out: Array,
) -> None:
    """`batch_matmul` of quantized tensors, on exact integer sums."""
    first, second, output = types["input1"], types["input2"], types["output"]
    depth = input1.shape[-2 if adj_x else -1]
    dtype = exact(depth * max_magnitude(first) * max_magnitude(second))
    sums = np.matmul(
        _matrix(as_factors(input1, first, dtype), adj_x),
        _matrix(as_factors(input2, second, dtype), adj_y),
    )
    scaled(sums, np.float64(first.scale) * second.scale / output.scale, output, out)


def _matrix(tensor: Array, transposed: bool) -> Array:
    return tensor.swapaxes(-1, -2) if transposed else tensor


KERNELS = (
    stored(spec.FULLY_CONNECTED, fully_connected, F32, F16, Q8, Q8S, weights=pack),
    real(spec.BATCH_MATMUL, batch_matmul, F32, F16),
    stored(spec.BATCH_MATMUL, batch_matmul, I32),
    stored(spec.BATCH_MATMUL, batch_matmul_quantized, Q8S),
)
