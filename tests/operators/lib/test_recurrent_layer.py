"""Recurrent nodes that are refused, and their weights by gate."""

import numpy as np
import pytest

from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.operators.lib.node import Node
from ep_nnapi.operators.lib.recurrent_layer import (
    gate_bias,
    gate_weights,
    initial_state,
    recurrent_layer,
)
from tests.onnx_graph import graph_of
from tests.operators.lib.emitting import emitted
from tests.operators.recurrent_layers import BATCH, STEPS, UNITS, layer, weights
from tests.oracle import FL, Case, f32, rejects

REFUSED = {
    "direction": ({"direction": "up"}, Reason.ATTRIBUTE, "direction is up"),
    "clip": ({"clip": 3.0}, Reason.ATTRIBUTE, "clip is 3; only 0 is supported"),
    "activation": (
        {"activations": ["Elu", "Tanh", "Tanh"]},
        Reason.ATTRIBUTE,
        "activation Elu; NNAPI's are Sigmoid, Tanh and Relu",
    ),
    "number of activations": (
        {"activations": ["Tanh"]},
        Reason.ATTRIBUTE,
        "activations has 1 names; forward takes 3",
    ),
    "rank": ({1: weights(20, 3)}, Reason.RANK, "x1 has rank 2; it must be 3"),
    "W": ({1: weights(1, 20, 4)}, Reason.SHAPE, "x1 has shape [1, 20, 4]; it must be [1, 20, 3]"),
    "R": ({2: weights(1, 18, 5)}, Reason.SHAPE, "x2 has shape [1, 18, 5]; it must be [1, 20, 5]"),
    "B": ({3: weights(1, 20)}, Reason.SHAPE, "x3 has shape [1, 20]; it must be [1, 40]"),
    "state": (
        {"states": [f32(BATCH, 1, UNITS)]},
        Reason.SHAPE,
        "x5 has shape [2, 1, 5]; it must be [1, 2, 5]",
    ),
    "state, batch first": (
        {"states": [f32(1, STEPS, UNITS)], "layout": 1},
        Reason.SHAPE,
        "x5 has shape [1, 4, 5]; it must be [4, 1, 5]",
    ),
    "peepholes": (
        {"states": [None, None], "more": [weights(1, 4)]},
        Reason.SHAPE,
        "x7 has shape [1, 4]; it must be [1, 15]",
    ),
}


@pytest.mark.parametrize(("given", "reason", "says"), REFUSED.values(), ids=REFUSED)
def test_refused(given: dict, reason: Reason, says: str) -> None:
    changed = {at: array for at, array in given.items() if isinstance(at, int)}
    named = {name: value for name, value in given.items() if isinstance(name, str)}
    rejects(layer("LSTM", changed=changed, **named), FL[8], reason, says)


def of(case: Case) -> Node:
    return Node(graph_of(case.model).nodes[0], FL[8])


def test_weights_and_biases_of_a_gate() -> None:
    w, b = weights(2, 3 * UNITS, 3), weights(2, 6 * UNITS)
    n = of(layer("GRU", directions=2, direction="bidirectional", changed={1: w, 3: b}))
    second, other = slice(UNITS, 2 * UNITS), slice(4 * UNITS, 5 * UNITS)
    np.testing.assert_array_equal(gate_weights(n, 1, 1, second).array, w[1, second])
    np.testing.assert_array_equal(gate_bias(n, 1, second, other).array, b[1, second] + b[1, other])
    assert gate_weights(n, 1, 0, slice(0, 3 * UNITS)).shape == (3 * UNITS, 3)
    without = of(layer("GRU", bias=False))
    np.testing.assert_array_equal(gate_bias(without, 0, second).array, np.zeros(UNITS))


def test_a_state_of_zeros_is_none() -> None:
    n = of(layer("LSTM", states=[np.zeros((1, BATCH, UNITS), np.float32)]))
    read = recurrent_layer(n, ["Sigmoid", "Tanh", "Tanh"])
    assert emitted(initial_state, n, read, 5, 0).returned is None
    assert emitted(initial_state, n, read, 6, 0).returned is None  # left out
