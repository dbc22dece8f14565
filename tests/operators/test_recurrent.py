"""RNN, GRU and LSTM: gates, peepholes, and where an LSTM is one operation."""

import numpy as np
import pytest
from onnx import helper, numpy_helper

from ep_nnapi.nnapi.errors import Reason
from tests.cases import each
from tests.operators.recurrent_layers import (
    BATCH,
    DIRECTIONS,
    GATES,
    INPUTS,
    ROUNDED,
    STEPS,
    UNITS,
    layer,
    quantized_lstm,
    weights,
)
from tests.oracle import FL, accepts, emitted, f16, f32, i32, matches, node, on_cpu, rejects

HALVES = 2e-3  # one rounding to float16 of numbers below 2, of inputs rounded alike
STATES = {
    "none": lambda d, count: [None] * count,
    "computed": lambda d, count: [f32(d, BATCH, UNITS)] * count,
    "constant": lambda d, count: [weights(d, BATCH, UNITS)] * count,
    "zeros": lambda d, count: [np.zeros((d, BATCH, UNITS), np.float32)] * count,
}


@pytest.mark.parametrize("target", [FL[2], FL[8]])
@each("states", STATES)
@each("direction", DIRECTIONS)
@pytest.mark.parametrize(
    ("op_type", "more"),
    [("RNN", {}), ("GRU", {}), ("GRU", {"linear_before_reset": 3}), ("LSTM", {})],
    ids=["RNN", "GRU", "GRU, linear before reset", "LSTM"],
)
def test_directions_and_states_match(op_type, more, direction, states, target):
    d, count = DIRECTIONS[direction], 2 if op_type == "LSTM" else 1
    case = layer(
        op_type,
        directions=d,
        direction=direction,
        bias=states != "constant",
        states=STATES[states](d, count),
        **more,
    )
    matches(case, target, atol=ROUNDED, oracle=on_cpu)


@pytest.mark.parametrize(
    ("op_type", "names"),
    [
        ("RNN", ["Relu"]),
        ("RNN", ["Sigmoid"]),
        ("GRU", ["Sigmoid", "Relu"]),
        ("LSTM", ["Sigmoid", "Relu", "Relu"]),
        ("LSTM", ["Sigmoid", "Tanh", "Relu"]),
        ("LSTM", ["Tanh", "Sigmoid", "Sigmoid"]),
    ],
)
def test_activations_match(op_type, names):
    matches(layer(op_type, activations=names), FL[8], atol=ROUNDED, oracle=on_cpu)
    both = layer(op_type, directions=2, direction="bidirectional", activations=names * 2)
    matches(both, FL[8], atol=ROUNDED, oracle=on_cpu)


def test_activations_are_of_each_direction_and_in_any_case():
    names = ["TANH", "sigmoid", "Sigmoid", "tanh"]
    both = layer("GRU", directions=2, direction="bidirectional", activations=names)
    matches(both, FL[8], atol=ROUNDED, oracle=on_cpu)


@pytest.mark.parametrize("sizes", [(1, 1), (1, 3), (5, 1)])
@pytest.mark.parametrize("op_type", GATES)
def test_one_step_and_one_sequence_match(op_type, sizes):
    for target in (FL[2], FL[8]):
        matches(layer(op_type, sizes=sizes), target, atol=ROUNDED, oracle=on_cpu)


@pytest.mark.parametrize("target", [FL[2], FL[3], FL[8]])
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("op_type", GATES)
def test_batch_first_matches(op_type, direction, target):
    batch_first_matches(op_type, target, (STEPS, BATCH), direction)


@pytest.mark.parametrize("op_type", GATES)
def test_one_step_batch_first_matches(op_type):
    batch_first_matches(op_type, FL[2], (1, BATCH), "forward")


def batch_first_matches(op_type, target, sizes, direction):
    """ONNX Runtime's CPU provider knows only steps first."""
    case = layer(op_type, directions=DIRECTIONS[direction], direction=direction, sizes=sizes)
    feeds = case.draw()
    steps_first = on_cpu(case.model, feeds)
    case.model.graph.node[0].attribute.add(name="layout", i=1, type=2)
    for value in case.model.graph.output:
        value.type.tensor_type.ClearField("shape")
    turned = {k: np.ascontiguousarray(x.swapaxes(0, 1)) for k, x in feeds.items()}
    # the drawn input is declared [STEPS, BATCH, ..]: the model is told of the other order
    dims = case.model.graph.input[0].type.tensor_type.shape.dim
    dims[1].dim_value, dims[0].dim_value = sizes
    y, *states = steps_first
    wanted = [y.transpose(2, 0, 1, 3), *(s.swapaxes(0, 1) for s in states)]
    matches(case, target, atol=ROUNDED, reference=wanted, feeds=turned)


@pytest.mark.parametrize("op_type", GATES)
def test_one_unit_matches(op_type):
    """Its gates are columns of one number, with gaps between them."""
    gates = GATES[op_type]
    constants = [weights(1, gates, INPUTS), weights(1, gates, 1), weights(1, 2 * gates)]
    case = node(op_type, f32(3, 4, INPUTS), *constants, hidden_size=1, outputs=2, opset=14)
    matches(case, FL[8], atol=ROUNDED, oracle=on_cpu)


@pytest.mark.parametrize("op_type", GATES)
def test_any_of_the_outputs_matches(op_type):
    for kept in range(1, 3 if op_type == "LSTM" else 2):
        case = layer(op_type)
        outputs = case.model.graph.node[0].output
        for i in range(len(outputs)):
            if i != kept:
                outputs[i] = ""
        del case.model.graph.output[kept + 1 :], case.model.graph.output[:kept]
        for target in (FL[2], FL[3], FL[8]):
            matches(case, target, atol=ROUNDED, oracle=on_cpu)


@pytest.mark.parametrize("op_type", GATES)
def test_halves_match(op_type):
    gates = GATES[op_type] * UNITS
    given = [(1, gates, INPUTS), (1, gates, UNITS), (1, 2 * gates)]
    halves = dict(enumerate((weights(*shape, dtype=np.float16) for shape in given), 1))
    case = layer(op_type, changed={0: f16(STEPS, BATCH, INPUTS)} | halves, outputs=2)
    floats = {at: half.astype(np.float32) for at, half in halves.items()}
    wide = layer(op_type, changed=floats, outputs=2)
    drawn = {"x0": case.draw()["x0"].astype(np.float32)}
    reference = [y.astype(np.float16) for y in on_cpu(wide.model, drawn)]
    matches(case, FL[8], reference=reference, atol=HALVES)


@pytest.mark.parametrize("opset", [7, 14, 22])
@pytest.mark.parametrize("op_type", GATES)
def test_every_opset_matches(op_type, opset):
    matches(layer(op_type, opset=opset), FL[8], atol=ROUNDED, oracle=on_cpu)


def test_a_step_is_a_dozen_operations():
    names = emitted(layer("GRU", states=[f32(1, BATCH, UNITS)], linear_before_reset=1), FL[3])
    assert names.count("FULLY_CONNECTED") == 2 + 2 * STEPS
    assert len(names) <= 12 + 11 * STEPS


@pytest.mark.parametrize("op_type", ["RNN", "GRU"])
def test_at_most_128_steps_are_written_out(op_type):
    accepts(layer(op_type, sizes=(128, 1)), FL[8])
    many = "x0 has 129 steps; at most 128 are unrolled"
    rejects(layer(op_type, sizes=(129, 1)), FL[8], Reason.SIZE, many)
    accepts(layer("LSTM", sizes=(129, 1)), FL[8])
    rejects(layer("LSTM", sizes=(129, 1)), FL[3], Reason.SIZE, "129 steps")


def test_level_2_slices_steps():
    for op_type in GATES:
        accepts(layer(op_type), FL[2])
        rejects(layer(op_type), FL[1], Reason.LEVEL, "STRIDED_SLICE")


def test_lengths_of_all_steps_match():
    every = np.full(BATCH, STEPS, np.int32)
    for op_type in GATES:
        matches(layer(op_type, lengths=every), FL[8], atol=ROUNDED, oracle=on_cpu)
        shorter = layer(op_type, lengths=every - [1, 0])
        rejects(shorter, FL[8], Reason.CONSTANT, "sequences of [3, 4] steps; only of all 4")
        rejects(layer(op_type, lengths=i32(BATCH)), FL[8], Reason.CONSTANT, "must be constant")


def test_computed_weights_are_refused():
    case = layer("RNN", changed={1: f32(1, UNITS, INPUTS)})
    rejects(case, FL[8], Reason.CONSTANT, "x1 must be constant")


def test_versions_before_7_are_refused():
    rejects(layer("RNN", opset=6), FL[8], Reason.OPSET, "RNN-1 is older than RNN-7")


@pytest.mark.parametrize("target", [FL[2], FL[8]])
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
    assert emitted(layer("LSTM", outputs=1), FL[3]) == ["UNIDIRECTIONAL_SEQUENCE_LSTM", "RESHAPE"]
    assert "UNIDIRECTIONAL_SEQUENCE_LSTM" not in emitted(layer("LSTM"), FL[3])  # no states yet
    assert emitted(layer("LSTM"), FL[4]).count("UNIDIRECTIONAL_SEQUENCE_LSTM") == 1
    assert "UNIDIRECTIONAL_SEQUENCE_LSTM" not in emitted(layer("LSTM", input_forget=1), FL[8])


STATE = f32(1, BATCH, UNITS)
QUANTIZED = {
    "int8": {},
    "uint8": {"unsigned": True},
    "reverse": {"direction": "reverse"},
    "both ways, a scale for each column": {"direction": "bidirectional", "columns": True},
    "no bias, only Y": {"bias": False, "outputs": 1},
    "states": {"states": (STATE, STATE), "unsigned": True, "columns": True},
}


@pytest.mark.parametrize("given", QUANTIZED.values(), ids=QUANTIZED)
def test_dynamic_quantize_lstm_matches(given):
    """The kernel rounds x and H to 8 bits in each step: by up to 2 / 255 of numbers up to 2."""
    matches(quantized_lstm(**given), FL[2], atol=0.01, oracle=on_cpu)


def test_other_dynamic_quantize_lstms_are_rejected():
    computed = quantized_lstm()
    for tensor in [t for t in computed.model.graph.initializer if t.name == "x1"]:
        computed.model.graph.initializer.remove(tensor)
        shape = helper.make_tensor_value_info("x1", tensor.data_type, tensor.dims)
        computed.model.graph.input.append(shape)
    rejects(computed, FL[8], Reason.CONSTANT, "x1 must be constant")
    other = quantized_lstm()
    (scale,) = (t for t in other.model.graph.initializer if t.name == "x8")
    scale.CopyFrom(numpy_helper.from_array(np.ones(3, np.float32), "x8"))
    rejects(other, FL[8], Reason.SHAPE, "x8 has 3 numbers; it must have 1 or 20")
