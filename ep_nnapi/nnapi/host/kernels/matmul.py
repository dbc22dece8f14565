"""Matrix products."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.host.kernel import Types, stored
from ep_nnapi.nnapi.host.kernels.linear import Finish, as_factors, factors, finish
from ep_nnapi.nnapi.spec import F16, F32, Q8, Q8S
from ep_nnapi.value import Array


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """Weights [K, N], and what follows the sums."""

    matrix: Array
    finish: Finish


def pack(weights: Array, bias: Array, activation: int, types: Types) -> Weights:
    """The weights [N, K] of a fully connected layer."""
    matrix = factors(weights, types["weights"], bias, types["input"], axis=0).T
    return Weights(matrix, finish(bias, types["weights"], activation, types, matrix.dtype))


def fully_connected(
    input: Array, weights: Weights, bias: Array, activation: int, *, types: Types, out: Array
) -> None:
    """Rows of the input times all weights. Source: NDK ANEURALNETWORKS_FULLY_CONNECTED."""
    rows = as_factors(input, types["input"], weights.matrix.dtype)
    sums = weights.finish.receiver(out)
    np.matmul(rows.reshape(out.shape[0], -1), weights.matrix, out=sums)
    weights.finish(sums, out)


KERNELS = (stored(spec.FULLY_CONNECTED, fully_connected, F32, F16, Q8, Q8S, weights=pack),)
