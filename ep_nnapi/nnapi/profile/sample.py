"""Sample operations: small legal instances of an operation, with which a device is asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.codes import HIGHEST_LEVEL, OperandCode
from ep_nnapi.nnapi.errors import SpecError
from ep_nnapi.nnapi.immutable import replace
from ep_nnapi.nnapi.model import ChannelQuantization, Data, Model, Omitted, Operand, Operation
from ep_nnapi.nnapi.profile.form import ZERO_POINTS, OperationUse
from ep_nnapi.nnapi.shapes import infer
from ep_nnapi.nnapi.shapes.operands import Dims, ShapeOperand, Tensor
from ep_nnapi.nnapi.signature import OperationSpec, Param, Params, Typing
from ep_nnapi.nnapi.spec import RELU
from ep_nnapi.nnapi.validate import check_operand, check_operation

SCALE = 0.5
"""Scale of inputs, weights and outputs: larger than the product of two, which MUL demands."""
_CHANNEL_DIMS = {"DEPTHWISE_CONV_2D": 3}
_CORNERS = (1 / 8, 0)
_LSTM = "QUANTIZED_16BIT_LSTM"
_GATES = ("input_gate", "forget_gate", "cell", "output_gate")
_FIXED: Mapping[tuple[str, str], tuple[float, int]] = {
    ("GENERATE_PROPOSALS", "anchors"): _CORNERS,
    **{(_LSTM, name): (1 / 128, 128) for name in ("input", "output_state_in", "output_state_out")},
    **{
        (operation, name): (1 / 2048, 0)
        for operation in (_LSTM, "QUANTIZED_LSTM")
        for name in ("cell_state_in", "cell_state_out")
    },
    **{(_LSTM, f"{gate}_bias"): (SCALE / 128, 0) for gate in _GATES},
}
"""Scales and zero points that NNAPI demands of operands, beside TENSOR_QUANT16_ASYMM's corners."""


def quantized(spec: OperationSpec, name: str, operand: Operand) -> Operand:
    """The operand `name` with quantization parameters that the operation takes."""
    code = operand.type
    if code is OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL:
        dim = _CHANNEL_DIMS.get(spec.name, 0)
        count = operand.dimensions[dim] if operand.dimensions else 1
        return replace(operand, channels=ChannelQuantization(dim, (SCALE,) * count))
    scaled = code.quantized or ((spec.name, name) in _FIXED and code is OperandCode.TENSOR_INT32)
    if not (scaled and code.tensor):
        return operand
    corners = code is OperandCode.TENSOR_QUANT16_ASYMM
    usual = _CORNERS if corners else (SCALE, ZERO_POINTS.get(code, (0,))[0])
    scale, zero_point = _FIXED.get((spec.name, name), usual)
    fixed = spec.traits.output_quantization
    if name == "output" and fixed is not None and code in ZERO_POINTS:
        signed = code is OperandCode.TENSOR_QUANT8_ASYMM_SIGNED
        scale, zero_point = fixed[0], fixed[1] - 128 * signed
    return replace(operand, scale=scale, zero_point=zero_point)


def bias_scale(operand: Operand, filter_operand: Operand) -> float:
    """The scale of the bias for quantized data: that of the product, 0 for scales per channel."""
    return 0.0 if filter_operand.channels is not None else operand.scale * filter_operand.scale


Inputs = Mapping[str, tuple[Operand, ...]]
"""Operands by parameter name: several of a repeated parameter, else one."""

RELAXED_LEVEL = 2
"""Feature level from which on models can be relaxed."""

_ZEROS = np.zeros(1 << 16, np.uint8)
"""The bytes of all constants whose elements do not matter."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A sample operation before its outputs are known.

    outputs           number of outputs
    output_scale      replaces the scale of quantized outputs, output_zero_point the zero point
    unknown_outputs   True if the sizes of the outputs are declared as unknown
    """

    spec: OperationSpec
    typing: Typing
    params: Params
    output_params: Params
    inputs: Inputs
    relaxed: bool = False
    outputs: int = 1
    output_scale: float | None = None
    output_zero_point: int | None = None
    unknown_outputs: bool = False

    def input(self, name: str) -> Operand:
        """The (first) operand of that name."""
        return self.inputs[name][0]

    def tensors(self) -> Iterator[tuple[str, Operand]]:
        """The tensors that are not omitted, by name; of a repeated parameter the first one."""
        for name, operands in self.inputs.items():
            if operands[0].type.tensor and not isinstance(operands[0].value, Omitted):
                yield name, operands[0]

    def changed(self, **inputs: Operand | tuple[Operand, ...]) -> Sample:
        """The same with other operands of these names."""
        new = {n: o if isinstance(o, tuple) else (o,) for n, o in inputs.items()}
        return replace(self, inputs={**self.inputs, **new})

    def with_values(self, **values: Array | bool | int | float) -> Sample:
        """The same with other constants: scalars, and tensors of the values' shapes."""
        return self.changed(**{n: constant(self.input(n), v) for n, v in values.items()})

    def with_sizes(self, **sizes: tuple[int, ...]) -> Sample:
        """The same with tensors of other shapes."""
        return self.changed(**{n: reshaped(self.input(n), s) for n, s in sizes.items()})


def constant(operand: Operand, value: Array | bool | int | float) -> Operand:
    """The operand with that constant value."""
    array = np.asarray(value, operand.type.numpy)
    dims = array.shape if operand.type.tensor else ()
    return replace(operand, dimensions=dims, value=Data.of(array))


def reshaped(operand: Operand, dims: tuple[int, ...]) -> Operand:
    """The operand with other sizes; a constant gets zeros."""
    changed = replace(operand, dimensions=dims)
    return with_zeros(changed) if isinstance(operand.value, Data) else changed


def with_zeros(operand: Operand) -> Operand:
    """The operand as a constant of zeros."""
    size = operand.size * operand.type.numpy.itemsize
    zeros = _ZEROS[:size] if size <= _ZEROS.size else np.zeros(size, np.uint8)
    return replace(operand, value=Data(zeros))


def use_of(sample: Sample) -> tuple[OperationUse, int] | None:
    """The complete operation and the feature level that it needs; None if it is illegal."""
    inputs = tuple(o for operands in sample.inputs.values() for o in operands)
    by_name = {p.name: p for p in sample.params}
    params = tuple(p for n, p in by_name.items() for _ in sample.inputs[n])
    try:
        facts = {n: _fact(p, sample.inputs[n]) for n, p in by_name.items()}
        found = infer(sample.spec, facts, sample.outputs)
        several = sample.outputs - len(sample.output_params) + 1
        output_params = tuple(
            p for p in sample.output_params for _ in range(several if p.many else 1)
        )
        outputs = tuple(map(partial(_output, sample), output_params, found))
        level = _level(sample.spec, inputs, outputs)
    except (SpecError, ValueError):
        return None
    return (
        OperationUse(sample.spec, params, output_params, inputs, outputs, sample.relaxed),
        max(level, RELAXED_LEVEL) if sample.relaxed else level,
    )


def model_of(uses: Sequence[OperationUse]) -> Model:
    """One model of all operations, each with operands of its own; relaxed if the first one is.

    NNAPI takes no model without an input: a RELU after operations of constants alone has one.
    """
    operands: list[Operand] = []
    operations: list[Operation] = []
    inputs: list[int] = []
    outputs: list[int] = []
    for use in uses:
        first = len(operands)
        operands += (*use.inputs, *use.outputs)
        middle, end = first + len(use.inputs), len(operands)
        inputs += [i for i in range(first, middle) if operands[i].value is None]
        outputs += range(middle, end)
        ends = tuple(range(first, middle)), tuple(range(middle, end))
        operations.append(Operation(use.spec, *ends))
    if not inputs:
        x, y = len(operands), len(operands) + 1
        operands += [Operand(OperandCode.TENSOR_FLOAT32, (1,))] * 2
        operations.append(Operation(RELU, (x,), (y,)))
        inputs, outputs = [x], [*outputs, y]
    relaxed = bool(uses) and uses[0].relaxed
    return Model(tuple(operands), tuple(operations), tuple(inputs), tuple(outputs), relaxed)


def _fact(param: Param, operands: tuple[Operand, ...]) -> ShapeOperand | tuple[ShapeOperand, ...]:
    facts = tuple(None if isinstance(o.value, Omitted) else _known(o) for o in operands)
    return facts if param.many else facts[0]


def _known(operand: Operand) -> ShapeOperand:
    if not operand.type.tensor:
        scalar: bool | int | float = operand.array.item()
        return scalar
    dims = tuple(d or None for d in operand.dimensions)
    return Tensor(dims, operand.array if isinstance(operand.value, Data) else None)


def _output(sample: Sample, param: Param, dims: Dims | None) -> Operand:
    """An output of inferred sizes."""
    code = sample.typing.code(param.type)
    if code is None or dims is None:
        raise ValueError("an output of unknown type or rank")
    sizes = tuple(0 if sample.unknown_outputs else d or 0 for d in dims)
    first = next((o for _, o in sample.tensors()), None)
    described = quantized(sample.spec, param.name, Operand(code, sizes if code.tensor else ()))
    if sample.spec.traits.keeps_quantization and first is not None and first.type is code:
        described = replace(described, scale=first.scale, zero_point=first.zero_point)
    if code.quantized and sample.output_scale is not None:
        described = replace(described, scale=sample.output_scale)
    if code.quantized and sample.output_zero_point is not None:
        described = replace(described, zero_point=sample.output_zero_point)
    return described


def _level(spec: OperationSpec, inputs: tuple[Operand, ...], outputs: tuple[Operand, ...]) -> int:
    """The feature level of an operation and its operands; raise SpecError if it is illegal."""
    operands = (*inputs, *outputs)
    levels = [check_operand(i, operand, HIGHEST_LEVEL) for i, operand in enumerate(operands)]
    ends = tuple(range(len(inputs))), tuple(range(len(inputs), len(operands)))
    return max(check_operation(Operation(spec, *ends), operands, HIGHEST_LEVEL), *levels)


def typed(code: OperandCode, dims: tuple[int, ...]) -> Operand:
    """An operand without a value."""
    return Operand(code, dims if code.tensor else ())
