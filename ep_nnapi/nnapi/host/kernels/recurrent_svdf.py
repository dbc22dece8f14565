"""SVDF (singular value decomposition filter) kernel: filters of rank-1 factors, with memory."""

from __future__ import annotations

import numpy as np

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.host.kernel import real
from ep_nnapi.nnapi.host.kernels.recurrence import State, activate, product
from ep_nnapi.nnapi.spec import F16, F32


def svdf(
    input: Array,
    weights_feature: Array,
    weights_time: Array,
    state_in: Array,
    rank: int,
    activation: int,
    bias: Array | float = 0.0,
    *,
    out: State,
) -> None:
    """Weights each filter's recent results by time; `rank` filters are summed per unit.

    The state [batches, filters * memory] holds the results, oldest first. The new result is stored
    last; then all are shifted by one, which leaves zero in the last place, as on Android.
    Source: NDK ANEURALNETWORKS_SVDF.
    """
    state_out, output = out
    filters, memory = weights_time.shape
    batches = input.shape[0]
    results = state_in.reshape(batches, filters, memory).copy()
    results[..., -1:] = product(input, weights_feature.T)[..., np.newaxis]
    sums = np.einsum("bfm,fm->bf", results, weights_time, dtype=np.float64, casting="same_kind")
    np.copyto(output, sums.reshape(*output.shape, rank).sum(axis=-1), casting="same_kind")
    output += bias
    activate(output, activation)
    apply_deltas = state_out.reshape(batches, filters, memory)
    apply_deltas[..., :-1] = results[..., 1:]
    apply_deltas[..., -1:] = 0


KERNELS = (real(spec.SVDF, svdf, F32, F16),)
