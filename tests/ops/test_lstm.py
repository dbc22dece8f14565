"""LSTM: gates, peepholes, and where it is one operation."""

import numpy as np
import pytest

from tests.oracle import (
    FL2,
    FL3,
    FL4,
    FL8,
    emitted,
    f32,
    matches,
    node,
    on_cpu,
)

ROUNDED = 1e-6  # a few steps of sums of 8 numbers below 1, sigmoid and tanh, in float32
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
RNG = np.random.default_rng(0)
STEPS, BATCH, INPUTS, UNITS = 4, 2, 3, 5


def weights(*shape, dtype=np.float32):
    return RNG.uniform(-0.5, 0.5, shape).astype(dtype)


def layer(op_type, *, directions=1, bias=True, states=(), more=(), sizes=None, **attributes):
    """states: initial H and C; more: P"""
    steps, batch = sizes or (STEPS, BATCH)
    gates = GATES[op_type] * UNITS
    outputs = attributes.pop("outputs", 3 if op_type == "LSTM" else 2)
    given = [
        f32(steps, batch, INPUTS),
        weights(directions, gates, INPUTS),
        weights(directions, gates, UNITS),
        weights(directions, 2 * gates) if bias else None,
        attributes.pop("lengths", None),
        *states,
        *more,
    ]
    while given[-1] is None:
        given.pop()
    opset = attributes.pop("opset", 14)
    return node(op_type, *given, outputs=outputs, opset=opset, hidden_size=UNITS, **attributes)


DIRECTIONS = {"forward": 1, "reverse": 1, "bidirectional": 2}


@pytest.mark.parametrize("target", [FL2, FL8])
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("coupled", [0, 1])
def test_peepholes_and_coupled_gates_match(coupled, direction, target):
    d = DIRECTIONS[direction]
    states = [f32(d, BATCH, UNITS)] * 2
    peepholes = [weights(d, 3 * UNITS)]
    case = layer(
        "LSTM",
        directions=d,
        direction=direction,
        states=states,
        more=peepholes,
        input_forget=coupled,
    )
    matches(case, target, atol=ROUNDED, oracle=on_cpu)


def test_an_lstm_is_a_sequence_where_the_level_has_it():
    assert emitted(layer("LSTM", outputs=1), FL3) == ["UNIDIRECTIONAL_SEQUENCE_LSTM", "RESHAPE"]
    assert "UNIDIRECTIONAL_SEQUENCE_LSTM" not in emitted(layer("LSTM"), FL3)  # no states yet
    assert emitted(layer("LSTM"), FL4).count("UNIDIRECTIONAL_SEQUENCE_LSTM") == 1
    assert "UNIDIRECTIONAL_SEQUENCE_LSTM" not in emitted(layer("LSTM", input_forget=1), FL8)
