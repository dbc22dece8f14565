"""Recurrent nodes that are refused, and their weights by gate."""

from collections.abc import Sequence

import numpy as np
import pytest

from ep_nnapi.graph.graph import GraphNode
from ep_nnapi.graph.value import Value
from ep_nnapi.nnapi.errors import Reason, Reject
from ep_nnapi.nnapi.spec import LOGISTIC, TANH
from ep_nnapi.operators.lib.node import Node
from ep_nnapi.operators.lib.recurrent_layer import (
    GATES,
    MAX_UNROLLED_STEPS,
    RecurrentLayer,
    gate_bias,
    gate_weights,
    initial_state,
    recurrent_layer,
    require_unrollable,
)
from ep_nnapi.options.target import Target
from tests.operators.lib.emitting import constant, emitted, floats, value

STEPS, BATCH, READS, UNITS = 4, 3, 5, 2
DEFAULTS = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}


def zeros(name: str, *shape: int) -> Value:
    return value(name, np.zeros(shape, np.float32))


def recurrent(
    op_type: str = "LSTM",
    directions: int = 1,
    *,
    changed: dict[int, Value | None] | None = None,
    outputs: Sequence[Value | None] = (),
    **attributes: object,
) -> Node:
    """A node with all inputs but those in `changed`, batch first with `layout` 1."""
    rows, first = GATES[op_type] * UNITS, attributes.get("layout") == 1
    state = (BATCH, directions, UNITS) if first else (directions, BATCH, UNITS)
    inputs: dict[int, Value | None] = {
        0: zeros("X", BATCH, STEPS, READS) if first else zeros("X", STEPS, BATCH, READS),
        1: zeros("W", directions, rows, READS),
        2: zeros("R", directions, rows, UNITS),
        3: zeros("B", directions, 2 * rows),
        4: None,
        5: zeros("h", *state),
    }
    inputs |= changed or {}
    given = tuple(inputs[i] for i in sorted(inputs))
    found = tuple(outputs) or (zeros("Y", STEPS, directions, BATCH, UNITS),)
    return Node(GraphNode(0, "n", op_type, "", 14, given, found, attributes), Target(8))


def layer(n: Node) -> RecurrentLayer:
    return recurrent_layer(n, DEFAULTS[n.node.op_type])


def refused(n: Node, reason: Reason, says: str) -> None:
    with pytest.raises(Reject, match=says) as caught:
        layer(n)
    assert caught.value.reason is reason


def test_activations_are_of_each_direction_and_in_any_case() -> None:
    names = ("TANH", "sigmoid", "Sigmoid", "tanh")
    n = recurrent("GRU", 2, direction="bidirectional", activations=names)
    assert layer(n).activations == ((TANH, LOGISTIC), (LOGISTIC, TANH))


REFUSED = {
    "direction": (recurrent(direction="up"), Reason.ATTRIBUTE, "direction is up"),
    "clip": (recurrent(clip=3.0), Reason.ATTRIBUTE, "clip is 3; only 0 is supported"),
    "activation": (
        recurrent("RNN", activations=("Elu",)),
        Reason.ATTRIBUTE,
        "activation Elu; NNAPI's are Sigmoid, Tanh and Relu",
    ),
    "number of activations": (
        recurrent("GRU", activations=("Tanh",)),
        Reason.ATTRIBUTE,
        "activations has 1 names; forward takes 2",
    ),
    "rank": (recurrent(changed={1: zeros("W", 8, 5)}), Reason.RANK, "W has rank 2; it must be 3"),
    "lengths of a run": (
        recurrent(changed={4: zeros("lengths", BATCH)}),
        Reason.CONSTANT,
        "lengths must be constant",
    ),
    "shorter sequences": (
        recurrent(changed={4: constant(np.array([4, 3, 4]), name="lengths")}),
        Reason.CONSTANT,
        r"lengths has sequences of \[3, 4\] steps; only of all 4",
    ),
    "W": (
        recurrent(changed={1: zeros("W", 1, 8, 4)}),
        Reason.SHAPE,
        r"W has shape \[1, 8, 4\]; it must be \[1, 8, 5\]",
    ),
    "R": (recurrent(changed={2: zeros("R", 1, 6, 2)}), Reason.SHAPE, r"R .* must be \[1, 8, 2\]"),
    "B": (recurrent(changed={3: zeros("B", 1, 8)}), Reason.SHAPE, r"B .* must be \[1, 16\]"),
    "state": (
        recurrent(changed={5: zeros("h", BATCH, 1, UNITS)}),
        Reason.SHAPE,
        r"h has shape \[3, 1, 2\]; it must be \[1, 3, 2\]",
    ),
    "state, batch first": (
        recurrent(layout=1, changed={5: zeros("h", 1, BATCH, UNITS)}),
        Reason.SHAPE,
        r"h .* must be \[3, 1, 2\]",
    ),
    "peepholes": (
        recurrent(changed={6: None, 7: zeros("P", 1, 4)}),
        Reason.SHAPE,
        r"P .* must be \[1, 6\]",
    ),
}


@pytest.mark.parametrize(("n", "reason", "says"), REFUSED.values(), ids=REFUSED)
def test_refused(n: Node, reason: Reason, says: str) -> None:
    refused(n, reason, says)


def test_sequences_of_full_length_are_accepted() -> None:
    lengths = constant(np.array([STEPS] * BATCH), name="lengths")
    assert layer(recurrent(changed={4: lengths})).steps == STEPS


def test_steps_at_the_limit_and_past_it() -> None:
    def steps(count: int) -> Node:
        return recurrent(changed={0: zeros("X", count, BATCH, READS)})

    n = steps(MAX_UNROLLED_STEPS)
    require_unrollable(n, layer(n))
    n = steps(MAX_UNROLLED_STEPS + 1)
    with pytest.raises(Reject, match="X has 129 steps; at most 128 are unrolled") as caught:
        require_unrollable(n, layer(n))
    assert caught.value.reason is Reason.SIZE


def test_weights_and_biases_of_a_gate() -> None:
    w, b = floats(2, 3 * UNITS, READS), floats(2, 6 * UNITS)
    n = recurrent(
        "GRU",
        2,
        direction="bidirectional",
        changed={1: constant(w, name="W"), 3: constant(b, name="B")},
    )
    second, other = slice(UNITS, 2 * UNITS), slice(4 * UNITS, 5 * UNITS)
    np.testing.assert_array_equal(gate_weights(n, 1, 1, second).array, w[1, 2:4])
    np.testing.assert_array_equal(gate_bias(n, 1, second, other).array, b[1, 2:4] + b[1, 8:10])
    assert gate_weights(n, 1, 0, slice(0, 3 * UNITS)).shape == (3 * UNITS, READS)
    without = recurrent("GRU", changed={3: None})
    np.testing.assert_array_equal(gate_bias(without, 0, second).array, np.zeros(UNITS))


def test_weights_of_a_run_are_refused() -> None:
    with pytest.raises(Reject, match="W must be constant"):
        gate_weights(recurrent(), 1, 0, slice(0, 2))


def test_a_state_of_zeros_is_none() -> None:
    n = recurrent(changed={5: constant(np.zeros((1, BATCH, UNITS), np.float32), name="h")})
    assert emitted(initial_state, n, layer(n), 5, 0).returned is None
    assert emitted(initial_state, n, layer(n), 6, 0).returned is None  # left out
