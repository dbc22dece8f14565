"""Normalizations along an axis."""

from __future__ import annotations

import numpy as np

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.host.kernel import real
from ep_nnapi.nnapi.spec import F16, F32, Q8, Q8S
from ep_nnapi.value import Array


def softmax(input: Array, beta: float, axis: int = -1, *, out: Array) -> None:
    """exp(beta * x) divided by its sum along `axis`. Source: NDK ANEURALNETWORKS_SOFTMAX."""
    np.subtract(input, input.max(axis=axis, keepdims=True, initial=-np.inf), out=out)
    out *= out.dtype.type(beta)
    np.exp(out, out=out)
    out /= out.sum(axis=axis, keepdims=True)


KERNELS = (real(spec.SOFTMAX, softmax, F32, F16, Q8, Q8S),)
