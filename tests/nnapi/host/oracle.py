"""One operation on the host runtime against a formula in float64.

`matches(ROW, formula, ...)` makes a model of the one operation for each data type, feeds it numbers
as that type stores them, and compares with what the formula makes, in float64, of those numbers.
Every case runs twice: with all tensors as inputs of unknown shape, and with all but the first as
constants.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.host import HostRuntime
from ep_nnapi.nnapi.host.reference import ReferenceDevice
from ep_nnapi.nnapi.model import ChannelQuantization, Data, Model, Omitted, Operand, Operation
from ep_nnapi.nnapi.signature import OperationSpec, align
from ep_nnapi.nnapi.spec import BOOL8, F16, F32, I32, Q8, Q8C, Q8S
from ep_nnapi.ort_devices.device import CpuDevice

FLOATS = (F32, F16)
DATA = (F32, F16, Q8, Q8S)
HALF = 2.0**-10
"""Relative error of one rounding to float16, doubled for a sum or product before it."""

CPU_ATOL = 4e-6
"""Of host-cpu, times the greatest result: ONNX Runtime's exp, tanh and erf are polynomials."""

RUNTIME = HostRuntime((ReferenceDevice(), CpuDevice(threads=1)))
REFERENCE, HOST_CPU = RUNTIME.devices()


@dataclass(frozen=True)
class Stored:
    """Numbers as an operand stores them."""

    operand: Operand
    array: np.ndarray

    @property
    def real(self) -> np.ndarray:
        """The real numbers, in float64."""
        operand = self.operand
        if operand.channels is not None:
            shape = [1] * self.array.ndim
            shape[operand.channels.dim] = -1
            scales = np.float32(operand.channels.scales).astype(np.float64)
            return self.array * scales.reshape(shape)
        if operand.type.quantized:
            return (self.array - np.float64(operand.zero_point)) * np.float32(operand.scale)
        return self.array.astype(np.float64)


def store(numbers: np.ndarray, code: OperandCode, like: Operand | None = None) -> Stored:
    """Numbers as `code` stores them; a quantized range covers them, unless it is that of `like`."""
    numbers = np.asarray(numbers, np.float64)
    if not code.quantized:
        return Stored(Operand(code, numbers.shape), numbers.astype(code.numpy))
    operand = like or quantized(code, numbers)
    info = np.iinfo(code.numpy)
    scaled = np.round(numbers / np.float32(operand.scale)) + operand.zero_point
    array = np.clip(scaled, info.min, info.max).astype(code.numpy)
    return Stored(replace(operand, dimensions=numbers.shape), array)


def quantized(code: OperandCode, numbers: np.ndarray) -> Operand:
    """An operand of that type whose range covers the numbers and zero."""
    info = np.iinfo(code.numpy)
    low, high = min(0.0, numbers.min(initial=0)), max(0.0, numbers.max(initial=0))
    scale = float(np.float32(max(high - low, 1e-3) / (int(info.max) - int(info.min))))
    zero = 0
    if code in (Q8, Q8S, OperandCode.TENSOR_QUANT16_ASYMM):
        zero = int(np.clip(info.min - round(low / scale), info.min, info.max))
    return Operand(code, (), scale, zero)


def per_channel(numbers: np.ndarray, dim: int) -> Stored:
    """Weights with a scale for each channel."""
    others = tuple(i for i in range(numbers.ndim) if i != dim)
    scales = np.float32(np.abs(numbers).max(axis=others) / 127)
    shape = [1] * numbers.ndim
    shape[dim] = -1
    array = np.round(numbers / scales.reshape(shape)).astype(np.int8)
    channels = ChannelQuantization(dim, tuple(float(s) for s in scales))
    return Stored(Operand(Q8C, numbers.shape, channels=channels), array)


def integers(*numbers: int) -> Stored:
    """A vector of TENSOR_INT32."""
    return store(np.array(numbers), I32)


def matches(
    row: OperationSpec,
    formula: Callable[..., np.ndarray],
    *,
    types: tuple[OperandCode, ...] = DATA,
    atol: float = 1e-6,
    same_scale: bool = False,
    out: Operand | None = None,
    **operands: object,
) -> None:
    """Asserts that the operation is `formula` of the tensors as they are listed, for each type.

    types        of the data; arrays of floats among the operands are stored as that type
    atol         of float32, times the greatest result; its cause belongs beside the call
    same_scale   the output is quantized as the first operand, as the operation demands
    out          the output, where its type is not that of the data
    The device host-cpu is asked too, and where it takes the operation its results are compared.
    """
    for code in types:
        given = {name: _stored(value, code) for name, value in operands.items()}
        tensors = [_real(v) for v in given.values() if isinstance(v, Stored | list)]
        expected = np.asarray(formula(*tensors))
        output = out or _output(code, expected, given, same_scale)
        for constant in (False, True):
            (result,) = run(row, given, output, constant=constant)
            compare(result, output, expected, atol, f"{row} of {code.name}, constant={constant}")
            for result in on_host_cpu(row, given, output, constant=constant):
                compare(
                    result, output, expected, max(atol, CPU_ATOL), f"host-cpu: {row}, {code.name}"
                )


def compare(
    result: np.ndarray, output: Operand, expected: np.ndarray, atol: float, what: str
) -> None:
    """Asserts a result: 1 quantum, a float16 rounding, or `atol` of the greatest number."""
    assert result.shape == expected.shape, what
    if output.type.quantized:
        info = np.iinfo(output.type.numpy)
        exact = np.round(expected / np.float32(output.scale)) + output.zero_point
        wrong = np.abs(result - np.clip(exact, info.min, info.max)).max(initial=0)
        assert wrong <= 1, f"{what}: {wrong} quanta off"
    elif output.type in (I32, BOOL8):
        np.testing.assert_array_equal(result, expected, what)
    else:
        greatest = max(1.0, np.abs(expected).max(initial=0))
        within = (HALF if output.type is F16 else atol) * greatest
        np.testing.assert_allclose(result.astype(np.float64), expected, 0, within, err_msg=what)


def run(
    row: OperationSpec, operands: Mapping[str, object], *outputs: Operand, constant: bool = False
) -> list[np.ndarray]:
    """The operation's outputs; all tensors but the first are constants, or none is."""
    model, inputs = single(row, operands, *outputs, constant=constant)
    return RUNTIME.compile(model, REFERENCE).run(inputs)


def on_host_cpu(
    row: OperationSpec, operands: Mapping[str, object], *outputs: Operand, constant: bool
) -> list[np.ndarray]:
    """The outputs of host-cpu for inputs of known shapes; none if it declines the operation."""
    model, inputs = single(row, operands, *outputs, constant=constant)
    known = list(model.operands)
    for index, array in zip(model.inputs, inputs, strict=True):
        known[index] = replace(known[index], dimensions=array.shape)
    model = replace(model, operands=tuple(known))
    if any(0 in array.shape for array in inputs) or not all(RUNTIME.supported(model, HOST_CPU)):
        return []
    return RUNTIME.compile(model, HOST_CPU).run(inputs)


def single(
    row: OperationSpec, operands: Mapping[str, object], *outputs: Operand, constant: bool = False
) -> tuple[Model, list[np.ndarray]]:
    """A model of one operation with outputs of unknown shape, and what to feed."""
    made: list[Operand] = []
    fed: list[tuple[int, np.ndarray]] = []
    for name, value in _ordered(row, operands):
        stored = value if isinstance(value, Stored) else _scalar(row, name, value, operands)
        if stored is None:
            code = _expected(row, name, made[0].type)
            scale = 1.0 if code.quantized else 0.0
            made.append(Operand(code, scale=scale, value=Omitted.NO_VALUE))
        elif stored.operand.type.tensor and not (constant and fed and stored.array.size):
            known = stored.operand.dimensions if stored.operand.channels else ()
            fed.append((len(made), np.ascontiguousarray(stored.array)))
            made.append(replace(stored.operand, dimensions=known))
        else:
            made.append(replace(stored.operand, value=Data.of(np.asarray(stored.array))))
    count = len(made)
    operation = Operation(row, tuple(range(count)), tuple(range(count, count + len(outputs))))
    model = Model((*made, *outputs), (operation,), tuple(i for i, _ in fed), operation.outputs)
    return model, [array for _, array in fed]


def _ordered(row: OperationSpec, operands: Mapping[str, object]) -> list[tuple[str, object]]:
    """The operands in the order of the first form that has all of them and no gap."""
    many = {n: v for n, v in operands.items() if isinstance(v, list)}
    flat = sum(len(v) - 1 for v in many.values()) + len(operands)
    for form in row.input_params:
        names = [p.name for p in form]
        if not operands.keys() <= set(names):
            continue
        last = max(i for i, n in enumerate(names) if n in operands)
        gaps = [p for p in form[:last] if p.name not in operands and not p.optional]
        if gaps or (not many and align(form, last + 1) is None):
            continue
        found: list[tuple[str, object]] = []
        for name in names[: last + 1]:
            value = operands.get(name)
            found += [(name, v) for v in value] if name in many else [(name, value)]
        if flat <= len(found):
            return found
    raise AssertionError(f"{row} has no signature with {sorted(operands)}")


def _expected(row: OperationSpec, name: str, data: OperandCode) -> OperandCode:
    """The type of an operand that is left out."""
    param = next(p for form in row.input_params for p in form if p.name == name)
    return next(t.code(param.type) for t in row.typings if t.types.get("T") is data)


def _scalar(
    row: OperationSpec, name: str, value: object, operands: Mapping[str, object]
) -> Stored | None:
    """A scalar of the type that the operation takes: halves beside halves."""
    if value is None:
        return None
    if isinstance(value, bool):
        return Stored(Operand(OperandCode.BOOL), np.array(value))
    if isinstance(value, int):
        return Stored(Operand(OperandCode.INT32), np.array(value, np.int32))
    tensors = [v for v in operands.values() if isinstance(v, Stored)]
    half = any(v.operand.type is F16 for v in tensors)
    code = OperandCode.FLOAT16 if half else OperandCode.FLOAT32
    return Stored(Operand(code), np.array(value, code.numpy))


def _stored(value: object, code: OperandCode) -> object:
    if isinstance(value, np.ndarray):
        return store(value, code)
    return [_stored(v, code) for v in value] if isinstance(value, list) else value


def _real(value: object) -> object:
    if isinstance(value, Stored):
        return value.real
    return [_real(v) for v in value] if isinstance(value, list) else value


def _output(
    code: OperandCode, expected: np.ndarray, given: Mapping[str, object], same_scale: bool
) -> Operand:
    if not code.quantized:
        return Operand(code)
    if same_scale:
        first = next(iter(given.values()))
        stored = first[0] if isinstance(first, list) else first
        return replace(stored.operand, dimensions=(), value=None)
    return quantized(code, expected)
