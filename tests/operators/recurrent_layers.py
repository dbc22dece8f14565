"""Nodes of recurrent layers with random weights, for the tests of RNN, GRU and LSTM."""

import numpy as np

from tests.oracle import f32, node

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
