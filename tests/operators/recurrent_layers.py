"""Nodes of recurrent layers with random weights, for the tests of RNN, GRU and LSTM."""

import numpy as np
from onnx import TensorProto, helper

from tests.oracle import f32, node

ROUNDED = 1e-6  # a few steps of sums of 8 numbers below 1, sigmoid and tanh, in float32
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
RNG = np.random.default_rng(0)
STEPS, BATCH, INPUTS, UNITS = 4, 2, 3, 5


def weights(*shape, dtype=np.float32):
    return RNG.uniform(-0.5, 0.5, shape).astype(dtype)


def layer(
    op_type, *, directions=1, bias=True, states=(), more=(), sizes=None, changed=None, **attributes
):
    """states: initial H and C; more: P; changed: other inputs by their number"""
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
    for at, array in (changed or {}).items():
        given[at] = array
    while given[-1] is None:
        given.pop()
    opset = attributes.pop("opset", 14)
    return node(op_type, *given, outputs=outputs, opset=opset, hidden_size=UNITS, **attributes)


DIRECTIONS = {"forward": 1, "reverse": 1, "bidirectional": 2}


def quantized_lstm(
    *, direction="forward", columns=False, unsigned=False, bias=True, states=(), outputs=3
):
    """DynamicQuantizeLSTM; columns: scales for each of the last axis. 7 bits do not saturate."""
    ways = DIRECTIONS[direction]
    numbers = RNG.integers(-63, 64, (ways, INPUTS + UNITS, 4 * UNITS))
    numbers = (numbers + 64).astype(np.uint8) if unsigned else numbers.astype(np.int8)
    shape = (ways, 4 * UNITS) if columns else (ways,)
    scales = [RNG.uniform(0.004, 0.008, shape).astype(np.float32) for _ in "WR"]
    zeros = np.full(shape, 64 if unsigned else 0, numbers.dtype)
    given = [
        f32(STEPS, BATCH, INPUTS),
        *(numbers[:, :INPUTS], numbers[:, INPUTS:]),
        weights(ways, 8 * UNITS) if bias else None,
        *(None, *(states or (None, None)), None),
        *(scales[0], zeros, scales[1], zeros),
    ]
    sizes = [(STEPS, ways, BATCH, UNITS), *[(ways, BATCH, UNITS)] * 2][:outputs]
    types = [helper.make_tensor_type_proto(TensorProto.FLOAT, size) for size in sizes]
    named = {"hidden_size": UNITS, "direction": direction, "output_types": types}
    return node("DynamicQuantizeLSTM", *given, domain="com.microsoft", outputs=outputs, **named)
