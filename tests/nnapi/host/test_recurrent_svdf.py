"""SVDF against its definition in float64: filters over features, then over time."""

import numpy as np
import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.errors import RuntimeFailure
from ep_nnapi.nnapi.model import Operand
from tests.nnapi.host.oracle import F32, FLOATS, compare, run, store
from tests.nnapi.host.recurrent_cells import FUNCTIONS, drawn

BATCHES, INPUTS, UNITS = 2, 5, 3
ATOL = 2e-6
"""Of float32: sums of some ten products, of sums of five."""


def operands(rank, memory, bias, code=F32, batches=BATCHES):
    filters = UNITS * rank
    tensors = {
        "input": drawn(batches, INPUTS),
        "weights_feature": drawn(filters, INPUTS, salt=1),
        "weights_time": drawn(filters, memory, salt=2),
        "bias": drawn(UNITS, salt=3) if bias else None,
        "state_in": drawn(batches, filters * memory, salt=4),
    }
    return {name: None if v is None else store(v, code) for name, v in tensors.items()}


def step(w, rank, activation):
    """The state afterwards and the output; `w` by name."""
    batches, memory = len(w["input"]), w["weights_time"].shape[1]
    units = len(w["weights_feature"]) // rank
    state = w["state_in"].reshape(batches, -1, memory)[:, :, : memory - 1]
    now = w["input"] @ w["weights_feature"].T
    results = np.concatenate([state, now[:, :, np.newaxis]], axis=2)
    filtered = (results * w["weights_time"]).sum(axis=2)
    output = np.zeros((batches, units))
    for unit in range(units):
        output[:, unit] = filtered[:, unit * rank : (unit + 1) * rank].sum(axis=1)
    output = FUNCTIONS[activation](output + w.get("bias", 0))
    moved = np.concatenate([results[:, :, 1:], np.zeros_like(results[:, :, :1])], axis=2)
    return moved.reshape(batches, -1), output


@pytest.mark.parametrize("code", FLOATS, ids=lambda code: code.name)
@pytest.mark.parametrize(("rank", "memory"), [(1, 4), (2, 4), (3, 1), (1, 1), (2, 2)])
@pytest.mark.parametrize(("bias", "activation"), [(True, 0), (False, 0), (True, 1), (True, 4)])
def test_svdf_matches(rank, memory, bias, activation, code):
    given = operands(rank, memory, bias, code)
    w = {name: operand.real for name, operand in given.items() if operand is not None}
    expected = step(w, rank, activation)
    for constant in (False, True):
        scalars = {"rank": rank, "activation": activation}
        outputs = [Operand(code)] * 2
        results = run(spec.SVDF, given | scalars, *outputs, constant=constant)
        for result, numbers in zip(results, expected, strict=True):
            compare(result, Operand(code), numbers, ATOL, f"constant={constant}")


def test_a_sequence_of_steps_is_a_convolution_in_time():
    """Steps that hand on their state weigh the last results by time, the newest one last."""
    rank, memory, times = 2, 3, 7
    given = operands(rank, memory, bias=False)
    inputs = drawn(times, BATCHES, INPUTS, salt=9)
    given["state_in"] = store(np.zeros((BATCHES, UNITS * rank * memory)), F32)
    results = inputs @ given["weights_feature"].real.T
    for t in range(times):
        given["input"] = store(inputs[t], F32)
        state, output = run(spec.SVDF, given | {"rank": rank, "activation": 0}, *[Operand(F32)] * 2)
        given["state_in"] = store(state, F32)
        seen = [results[t - ago] if t >= ago else 0 * results[t] for ago in range(memory)]
        weighted = sum(
            past * given["weights_time"].real[:, memory - 1 - ago] for ago, past in enumerate(seen)
        )
        expected = weighted.reshape(BATCHES, UNITS, rank).sum(axis=2)
        compare(output, Operand(F32), expected, ATOL, f"time {t}")


def test_no_batches():
    given = operands(2, 3, bias=True, batches=0)
    state, output = run(spec.SVDF, given | {"rank": 2, "activation": 0}, *[Operand(F32)] * 2)
    assert state.shape == (0, 18)
    assert output.shape == (0, 3)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"rank": 0}, "rank 0 is not positive"),
        ({"rank": 4}, "6 filters do not divide into groups of rank 4"),
        ({"bias": store(drawn(4), F32)}, "sizes 4 and 3 must be equal"),
        ({"state_in": store(drawn(2, 12), F32)}, "sizes 12 and 18 must be equal"),
        ({"weights_time": store(drawn(5, 3), F32)}, "weights_time has 5 filters, others have 6"),
        ({"activation": 7}, "activation 7 is none of 0 to 3, 4 and 6"),
    ],
)
def test_refusals(change, sentence):
    given = operands(2, 3, bias=True) | {"rank": 2, "activation": 0} | change
    with pytest.raises(RuntimeFailure, match=sentence):
        run(spec.SVDF, given, *[Operand(F32)] * 2)
