"""Matrix products against numpy in float64."""

import numpy as np
import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.model import Operand
from tests.nnapi.host.oracle import (
    DATA,
    F16,
    F32,
    I32,
    Q8S,
    Stored,
    compare,
    matches,
    quantized,
    run,
    store,
)

SEED = 20260804


def drawn(*shape):
    return np.random.default_rng([SEED, *shape]).uniform(-1, 1, shape)


@pytest.mark.parametrize("shape", [(3, 20), (2, 3, 10), (1, 2, 2, 5), (0, 20)], ids=str)
@pytest.mark.parametrize("code", DATA, ids=lambda c: c.name)
def test_fully_connected_matches(shape, code):
    """Inputs of any rank are rows of 20 elements, or of 10 twice a matrix's."""
    source, weights = store(drawn(*shape), code), store(drawn(6, 20), code)
    bias = store(drawn(6), code)
    if code.quantized:
        scale = source.operand.scale * weights.operand.scale
        bias = Stored(Operand(I32, (6,), scale), np.round(drawn(6) / scale).astype(np.int32))
    real = bias.real * (bias.operand.scale if code.quantized else 1)
    expected = np.maximum(source.real.reshape(-1, 20) @ weights.real.T + real, 0)
    output = quantized(code, expected) if code.quantized else Operand(code)
    given = {"input": source, "weights": weights, "bias": bias, "activation": 1}
    for constant in (False, True):
        (result,) = run(spec.FULLY_CONNECTED, given, output, constant=constant)
        compare(result, output, expected, 1e-6, f"{code.name}, constant={constant}")


@pytest.mark.parametrize("types", [(F32, F16), (Q8S,)], ids=["floats", "signed"])
@pytest.mark.parametrize("adj_x", [False, True])
@pytest.mark.parametrize("adj_y", [False, True])
def test_batch_matmul_matches(types, adj_x, adj_y):
    def formula(a, b):
        return np.matmul(a.swapaxes(-1, -2) if adj_x else a, b.swapaxes(-1, -2) if adj_y else b)

    matches(
        spec.BATCH_MATMUL,
        formula,
        types=types,
        input1=drawn(2, 3, *((7, 4) if adj_x else (4, 7))),
        input2=drawn(2, 3, *((5, 7) if adj_y else (7, 5))),
        adj_x=adj_x,
        adj_y=adj_y,
    )


def test_batch_matmul_of_integers_is_exact():
    a = store(np.array([[2**14, -3], [5, 7]]), I32)
    matches(spec.BATCH_MATMUL, np.matmul, types=(I32,), input1=a, input2=a, adj_x=None, adj_y=None)
