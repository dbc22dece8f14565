"""LSTMs over sequences: one node, or step by step; what ONNX lacks is declined."""

import re

import numpy as np
import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.model import Model, Omitted, Operand
from ep_nnapi.nnapi.runtime import RunOptions
from ep_nnapi.nnapi.spec import F16, F32
from ep_nnapi.ort_devices.device import CpuDevice
from ep_nnapi.ort_devices.operation import Kernels
from ep_nnapi.ort_devices.session import open_on_provider
from ep_nnapi.ort_devices.to_onnx import obstacles
from ep_nnapi.sessions.device_session import Threads
from tests.nnapi.build import constant, one, scalar
from tests.nnapi.host.recurrent_cells import OPTIONS, SCALARS, drawn, steps, weights
from tests.ort_devices import networks
from tests.ort_devices.expressions import operators
from tests.ort_devices.test_session import provider

TIMES, BATCHES, INPUTS, UNITS = 5, 2, 4, 6
ATOL = 3e-6
"""Of float32: sums of some ten products, several times over."""


def cell(options: tuple[str, ...] = ()) -> dict[str, np.ndarray]:
    """A cell's weights and states in."""
    outputs = 3 if "projection" in options else UNITS
    found = weights(INPUTS, UNITS, outputs, options=options)
    found["output_state_in"] = drawn(BATCHES, outputs, salt=1)
    found["cell_state_in"] = drawn(BATCHES, UNITS, salt=2)
    return found


def sequence(*, time_major: bool = True) -> np.ndarray:
    found = drawn(TIMES, BATCHES, INPUTS, salt=3)
    return found if time_major else np.ascontiguousarray(found.swapaxes(0, 1))


def model_of(
    row: spec.OperationSpec,
    tensors: dict[str, np.ndarray],
    scalars: dict[str, object],
    *outputs: tuple[int, ...],
    computed: tuple[str, ...] = (),
    code: OperandCode = F32,
) -> Model:
    """The operation on a sequence; tensors named `computed` are inputs of the model too."""
    given = []
    for name in (param.name for param in row.input_params[0]):
        if name == "input" or name in computed:
            given.append(Operand(code, tensors.get(name, sequence()).shape))
        elif name in tensors:
            given.append(constant(tensors[name].astype(code.numpy)))
        elif name in scalars:
            half = code is F16 and isinstance(scalars[name], float)
            given.append(scalar(OperandCode.FLOAT16, scalars[name]) if half else scalars[name])
        else:
            given.append(Operand(code, value=Omitted.NO_VALUE))
    return one(row, given, [Operand(code, shape) for shape in outputs])


def computed(model: Model, *inputs: np.ndarray) -> list[np.ndarray]:
    dtype = model.operands[model.inputs[0]].type.numpy
    return networks.computed(model, CpuDevice(threads=1), [i.astype(dtype) for i in inputs])


STATES = ((BATCHES, UNITS), (BATCHES, UNITS))
WHOLE = (TIMES, BATCHES, UNITS)
UNIDIRECTIONAL = spec.UNIDIRECTIONAL_SEQUENCE_LSTM
LACKING = [options for name, options in OPTIONS.items() if name not in ("plain", "peephole")]


@pytest.mark.parametrize("activation", [1, 4, 6], ids=["relu", "tanh", "sigmoid"])
@pytest.mark.parametrize("options", [(), ("peephole",)], ids=["plain", "peephole"])
def test_an_lstm_is_one_node(options, activation):
    tensors, scalars = cell(options), SCALARS | {"activation": activation, "time_major": True}
    model = model_of(UNIDIRECTIONAL, tensors, scalars, WHOLE, *STATES)
    assert operators(model)["LSTM"] == 1
    assert operators(model)["Gemm"] == 0
    expected = steps(tensors, sequence(), scalars)
    for ours, theirs in zip(computed(model, sequence()), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, 0, ATOL)


def test_the_sequences_of_each_batch_may_come_first():
    tensors, scalars = cell(), SCALARS | {"time_major": False}
    given = sequence(time_major=False)
    tensors["input"] = given
    model = model_of(UNIDIRECTIONAL, tensors, scalars, (BATCHES, TIMES, UNITS))
    assert operators(model)["LSTM"] == 1
    (ours,) = computed(model, given)
    np.testing.assert_allclose(ours, steps(tensors, sequence())[0].swapaxes(0, 1), 0, ATOL)


def test_float16_is_computed_in_float32():
    tensors, scalars = cell(), SCALARS | {"time_major": True}
    model = model_of(UNIDIRECTIONAL, tensors, scalars, WHOLE, code=F16)
    assert operators(model)["LSTM"] == 1
    (ours,) = computed(model, sequence())
    np.testing.assert_allclose(ours, steps(tensors, sequence())[0], 0, 2e-3)  # float16 has 11 bits


@pytest.mark.parametrize(
    ("options", "change", "reason"),
    [
        *((options, {}, "which ONNX's LSTM lacks|1 - forget gate") for options in LACKING),
        ((), {"activation": 3}, "activation 3"),
        ((), {"cell_clip": 0.5}, "cell_clip, which ONNX's LSTM lacks"),
    ],
    ids=str,
)
def test_what_onnx_lacks_is_declined(options, change, reason):
    scalars = SCALARS | {"time_major": True} | change
    shape = (TIMES, BATCHES, 3 if "projection" in options else UNITS)
    (obstacle,) = obstacles(model_of(UNIDIRECTIONAL, cell(options), scalars, shape))
    assert re.search(reason, obstacle)


def test_weights_that_are_computed_are_declined():
    name = "recurrent_to_cell_weights"
    given = SCALARS | {"time_major": True}
    (obstacle,) = obstacles(model_of(UNIDIRECTIONAL, cell(), given, WHOLE, computed=(name,)))
    assert obstacle == f"operand {name} is not constant"


@pytest.mark.parametrize("activation", [1, 4, 6], ids=["relu", "tanh", "sigmoid"])
@pytest.mark.parametrize("options", [(), ("peephole",)], ids=["plain", "peephole"])
def test_providers_without_a_kernel_for_sequences_compute_step_by_step(options, activation):
    tensors, scalars = cell(options), SCALARS | {"activation": activation, "time_major": True}
    model = model_of(UNIDIRECTIONAL, tensors, scalars, WHOLE, *STATES)
    assert operators(model, Kernels())["LSTM"] == 0
    session = open_on_provider(model, provider(), Threads(1))
    outputs = session.execute([sequence().astype(np.float32)], (), RunOptions())
    for ours, theirs in zip(outputs, steps(tensors, sequence(), scalars), strict=True):
        np.testing.assert_allclose(ours, theirs, 0, ATOL)
