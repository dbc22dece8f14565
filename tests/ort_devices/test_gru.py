"""GRU layers found in their steps, as `ep_nnapi.ops` writes them out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ep_nnapi.nnapi.host import HostRuntime
from ep_nnapi.nnapi.host.reference import ReferenceDevice
from ep_nnapi.nnapi.model import Data, Model
from ep_nnapi.nnapi.spec import MUL
from ep_nnapi.ort_devices.device import CpuDevice
from ep_nnapi.ort_devices.operation import Kernels
from tests.ops.recurrent_layers import (
    BATCH,
    INPUTS,
    ROUNDED,
    STEPS,
    UNITS,
    layer,
    weights,
)
from tests.oracle import FL8, f16, f32, lowered, node
from tests.ort_devices.expressions import operators
from tests.ort_devices.networks import feed

STATES = {"zeros": None, "computed": f32(1, BATCH, UNITS), "constant": weights(1, BATCH, UNITS)}


def steps_of(case: object) -> Model:
    return lowered(case, FL8).model


def assert_close(model: Model, atol: float = ROUNDED) -> None:
    """The results are the reference's."""
    found = []
    for device in (CpuDevice(threads=1), ReferenceDevice()):
        runtime = HostRuntime((device,))
        found.append(runtime.compile(model, runtime.devices()[0]).run(feed(model)))
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, 0, atol)


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("after", [0, 1], ids=["reset before", "reset after"])
@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_a_layer_is_one_node(direction, after, state):
    states = [STATES[state]]
    model = steps_of(layer("GRU", states=states, direction=direction, linear_before_reset=after))
    found = operators(model)
    assert found["GRU"] == 1
    assert not {"Gemm", "Sigmoid", "Tanh", "Split", "Concat"} & found.keys()
    assert_close(model)


@pytest.mark.parametrize("bias", [False, True], ids=["no bias", "bias"])
@pytest.mark.parametrize("after", [0, 1], ids=["reset before", "reset after"])
def test_both_directions_are_two_nodes(after, bias):
    more = {"direction": "bidirectional", "linear_before_reset": after}
    case = layer("GRU", directions=2, bias=bias, **more)
    found = operators(steps_of(case))
    assert found["GRU"] == 2
    assert found["Gemm"] == 0
    assert_close(steps_of(case))


@pytest.mark.parametrize("kept", [0, 1], ids=["all states", "last state"])
def test_either_output_alone_is_one_node(kept):
    case = layer("GRU", linear_before_reset=1)
    case.model.graph.node[0].output[1 - kept] = ""
    del case.model.graph.output[1 - kept]
    model = steps_of(case)
    assert operators(model)["GRU"] == 1
    assert operators(model)["Gemm"] == 0
    assert_close(model)


def test_one_sequence_is_one_node():
    model = steps_of(layer("GRU", sizes=(STEPS, 1)))
    assert operators(model)["GRU"] == 1
    assert_close(model)


def test_float16_is_computed_in_float32():
    shapes = [(1, 3 * UNITS, INPUTS), (1, 3 * UNITS, UNITS), (1, 6 * UNITS)]
    constants = [weights(*shape, dtype=np.float16) for shape in shapes]
    given = [f16(STEPS, BATCH, INPUTS), *constants]
    model = steps_of(node("GRU", *given, hidden_size=UNITS, outputs=2, opset=14))
    assert operators(model)["GRU"] == 1
    assert_close(model, 2e-3)  # float16 has 11 bits; the reference rounds each result


def test_one_step_is_computed_as_it_is_written():
    model = steps_of(layer("GRU", sizes=(1, BATCH), states=[f32(1, BATCH, UNITS)]))
    assert operators(model)["GRU"] == 0
    assert_close(model)


def test_other_activations_stay_steps():
    model = steps_of(layer("GRU", activations=["Sigmoid", "Relu"]))
    assert operators(model)["GRU"] == 0
    assert_close(model)


def test_a_number_inside_a_step_that_is_read_keeps_the_steps():
    """A product of the last step is an output of the model too."""
    model = steps_of(layer("GRU", linear_before_reset=1))
    product = max(o.outputs[0] for o in model.operations if o.spec == MUL)
    seen = replace(model, outputs=(*model.outputs, product))
    assert operators(seen)["GRU"] == 0
    assert_close(seen)


@pytest.mark.parametrize("position", [0, 1, 2, 3])
def test_steps_with_weights_of_their_own_stay_steps(position):
    """One step reads another constant than the rest: recurrent weights or biases."""
    model = steps_of(layer("GRU", linear_before_reset=1, states=[f32(1, BATCH, UNITS)]))
    products = [n for n, o in enumerate(model.operations) if str(o.spec) == "FULLY_CONNECTED"]
    n = products[2 + 2 + position // 2]  # after those of all inputs, the second step's
    operation, at = model.operations[n], 1 + position % 2
    operand = model.operands[operation.inputs[at]]
    other = replace(operand, value=Data.of(operand.array + np.float32(0.25)))
    inputs = list(operation.inputs)
    inputs[at] = len(model.operands)
    operations = list(model.operations)
    operations[n] = replace(operation, inputs=tuple(inputs))
    changed = replace(model, operands=(*model.operands, other), operations=tuple(operations))
    assert operators(changed)["GRU"] == 0
    assert_close(changed)


def test_providers_without_kernels_for_sequences_compute_step_by_step():
    assert operators(steps_of(layer("GRU")), Kernels())["GRU"] == 0
