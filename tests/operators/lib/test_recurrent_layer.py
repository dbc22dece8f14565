"""Sizes of recurrent nodes, their weights by gate, and the joining of steps and directions."""

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
    flat_sequence,
    fully_connected,
    gate_bias,
    gate_weights,
    initial_state,
    join_steps,
    recurrent_layer,
    require_unrollable,
    write_outputs,
)
from ep_nnapi.options.target import Target
from tests.operators.lib.emitting import constant, emitted, floats, ran, returned, value

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


@pytest.mark.parametrize("layout", [0, 1])
@pytest.mark.parametrize("op_type", GATES)
def test_sizes(op_type: str, layout: int) -> None:
    found = layer(recurrent(op_type, layout=layout))
    assert (found.steps, found.batch, found.units) == (STEPS, BATCH, UNITS)
    assert found.batch_first is (layout == 1)
    assert len(found.activations[0]) == len(DEFAULTS[op_type])


@pytest.mark.parametrize(
    ("direction", "directions", "orders"),
    [
        ("forward", 1, [[0, 1, 2, 3]]),
        ("reverse", 1, [[3, 2, 1, 0]]),
        ("bidirectional", 2, [[0, 1, 2, 3], [3, 2, 1, 0]]),
    ],
)
def test_directions(direction: str, directions: int, orders: list[list[int]]) -> None:
    found = layer(recurrent(directions=directions, direction=direction))
    assert [list(found.order(d)) for d in range(directions)] == orders


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


@pytest.mark.parametrize("layout", [0, 1])
def test_a_sequence_has_its_steps_one_after_another(layout: int) -> None:
    n = recurrent(layout=layout)
    x = floats(*n.input(0).shape)
    made = emitted(flat_sequence, n, layer(n), inputs=[n.input(0)])
    found = ran(made, made.returned, {"X": x}, 8)
    in_order = x.transpose(1, 0, 2) if layout else x
    np.testing.assert_array_equal(found, in_order.reshape(STEPS * BATCH, READS))


def test_a_layer_of_one_step() -> None:
    x, w, b = floats(BATCH, READS), constant(floats(UNITS, READS)), constant(floats(UNITS))
    found = returned(lambda n, x: fully_connected(n, x, w.constant, b.constant), x)
    exact = x.astype(np.float64) @ w.constant.array.T + b.constant.array
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-5)  # sums in float32


@pytest.mark.parametrize("layout", [0, 1])
@pytest.mark.parametrize("known", [False, True])
def test_the_initial_state_of_a_direction(layout: int, known: bool) -> None:
    shape = (BATCH, 2, UNITS) if layout else (2, BATCH, UNITS)
    h = floats(*shape)
    given = constant(h, name="h") if known else value("h", h)
    n = recurrent(directions=2, direction="bidirectional", layout=layout, changed={5: given})
    exact = h[:, 1] if layout else h[1]
    made = emitted(initial_state, n, layer(n), 5, 1, inputs=[given])
    if known:
        assert made.calls == []
        np.testing.assert_array_equal(made.returned.constant.array, exact)
    else:
        np.testing.assert_array_equal(ran(made, made.returned, {"h": h}, 8), exact)


def test_a_state_of_zeros_is_none() -> None:
    n = recurrent(changed={5: constant(np.zeros((1, BATCH, UNITS), np.float32), name="h")})
    assert emitted(initial_state, n, layer(n), 5, 0).returned is None
    assert emitted(initial_state, n, layer(n), 6, 0).returned is None  # left out


@pytest.mark.parametrize("layout", [0, 1])
@pytest.mark.parametrize("steps", [1, STEPS])
def test_outputs_of_all_steps_are_joined(layout: int, steps: int) -> None:
    x = zeros("X", BATCH, steps, READS) if layout else zeros("X", steps, BATCH, READS)
    n = recurrent(layout=layout, changed={0: x})
    arrays = [floats(BATCH, UNITS) + i for i in range(steps)]
    each = [value(f"step{i}", a) for i, a in enumerate(arrays)]
    made = emitted(join_steps, n, layer(n), each, inputs=each)
    found = ran(made, made.returned, {v.name: a for v, a in zip(each, arrays, strict=True)}, 8)
    np.testing.assert_array_equal(found, np.stack(arrays, axis=1 if layout else 0))


@pytest.mark.parametrize("layout", [0, 1])
@pytest.mark.parametrize("directions", [1, 2])
def test_outputs_have_an_axis_of_directions(layout: int, directions: int) -> None:
    whole = (BATCH, STEPS, UNITS) if layout else (STEPS, BATCH, UNITS)
    arrays = [floats(*whole) + d for d in range(directions)]
    last = [floats(BATCH, UNITS) - d for d in range(directions)]
    outs = [value(f"out{d}", a) for d, a in enumerate(arrays)]
    states = [[value(f"state{d}", a)] for d, a in enumerate(last)]
    exact = np.stack(arrays, axis=2 if layout else 1)
    exact_h = np.stack(last, axis=1 if layout else 0)
    y, h = value("Y", exact), value("Y_h", exact_h)
    direction = "bidirectional" if directions == 2 else "forward"
    read = [*outs, *(s for d in states for s in d)]
    feeds = {v.name: a for v, a in zip(read, [*arrays, *last], strict=True)}
    for outputs, wanted in (([y], [(y, exact)]), ([None, h], [(h, exact_h)])):
        n = recurrent("GRU", directions, direction=direction, layout=layout, outputs=outputs)
        made = emitted(write_outputs, n, layer(n), outs, states, inputs=read)
        for output, array in wanted:
            np.testing.assert_array_equal(ran(made, output, feeds, 8), array)
