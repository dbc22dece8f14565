"""Text serialization of NNAPI models, from which an equal model can be made.

    model relaxed
      inputs %0
      outputs %3
      %0: TENSOR_FLOAT32 [1, 4] input
      %1: TENSOR_FLOAT32 [4] constant [0.5, 1.0, -2.0, 0.0]
      %2: INT32 constant 1
      %3: TENSOR_FLOAT32 [1, 4] output
      ADD(input1=%0, input2=%1, activation=%2) -> output=%3 from ["Add_0"]

Constants of more than MAX_INLINE_ELEMENTS elements are written as base64. The submodel of a MODEL
operand follows the operand, indented one step. Names before "=" are for readers only; operand order
decides.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256

import numpy as np

from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.errors import Reject
from ep_nnapi.nnapi.model import Data, Model, Operand, Operation

INDENT = "  "
"""Indentation of a model's content relative to its first line."""

MAX_INLINE_ELEMENTS = 16
"""Largest number of elements of a constant that is printed as numbers."""

_READERS: Mapping[str, Callable[[str], object]] = {"b": "True".__eq__, "f": float}


def listing(model: Model, *, data: bool = True) -> str:
    """Return `model` as text.

    data   True: large constants are printed in full. False: only by size and digest
    """
    return "\n".join(_lines(model, data)) + "\n"


def _lines(model: Model, data: bool) -> Iterator[str]:
    yield "model relaxed" if model.relaxed else "model"
    yield INDENT + " ".join(["inputs", *(f"%{i}" for i in model.inputs)])
    yield INDENT + " ".join(["outputs", *(f"%{i}" for i in model.outputs)])
    lifetimes = model.lifetimes
    for index, operand in enumerate(model.operands):
        stated: str = lifetimes[index]
        if isinstance(operand.value, Data):
            stated = _constant(operand.type, operand.value, data)
        yield f"{INDENT}%{index}: {_type(operand)} {stated}"
        if isinstance(operand.value, Model):
            yield from (INDENT * 2 + line for line in _lines(operand.value, data))
    for operation in model.operations:
        yield INDENT + _operation(operation, model.operands)


def _type(operand: Operand) -> str:
    parts = [operand.type.name]
    if operand.dimensions:
        parts.append(str(list(operand.dimensions)))
    elif operand.type.tensor:
        parts.append("[?]")
    if operand.scale:
        parts.append(f"scale={float(operand.scale)!r}")
    if operand.zero_point:
        parts.append(f"zero_point={operand.zero_point}")
    if operand.channels is not None:
        scales = [float(scale) for scale in operand.channels.scales]
        parts.append(f"channels={operand.channels.dim}:{scales}")
    return " ".join(parts)


def _constant(code: OperandCode, value: Data, data: bool) -> str:
    numbers = _numbers(code, value)
    if numbers is not None:
        return f"constant {numbers}"
    raw = value.bytes.tobytes()
    if data:
        return f"constant base64 {b64encode(raw).decode()}"
    return f"constant of {len(raw)} bytes, sha256 {sha256(raw).hexdigest()}"


def _numbers(code: OperandCode, value: Data) -> str | None:
    """A small constant as numbers; None if it is too large or would not round-trip exactly."""
    if code is OperandCode.MODEL:
        return None
    count, rest = divmod(value.size, code.numpy.itemsize)
    if rest or not 0 < count <= MAX_INLINE_ELEMENTS:
        return None
    array = np.frombuffer(value.bytes.tobytes(), code.numpy)
    texts = [str(number) for number in array]
    text = f"[{', '.join(texts)}]" if code.tensor or count > 1 else texts[0]
    read = np.array([_READERS.get(code.numpy.kind, int)(number) for number in texts], code.numpy)
    return text if read.tobytes() == array.tobytes() else None


def _operation(operation: Operation, operands: Sequence[Operand]) -> str:
    ins, outs = _names(operation, operands)
    text = f"{operation.spec.name}({_arguments(ins, operation.inputs)})"
    text += f" -> {_arguments(outs, operation.outputs)}"
    if operation.origin:
        text += f" from {json.dumps(list(operation.origin))}"
    return text.rstrip()


def _names(operation: Operation, operands: Sequence[Operand]) -> tuple[list[str], list[str]]:
    """Prefixes "name=" of inputs and outputs; empty if the operation does not match its spec."""
    try:
        match = operation.match(operands, feature_level=8)
    except (Reject, IndexError):
        return [""] * len(operation.inputs), [""] * len(operation.outputs)
    return [f"{p.name}=" for p in match.inputs], [f"{p.name}=" for p in match.outputs]


def _arguments(names: Sequence[str], indexes: Sequence[int]) -> str:
    return ", ".join(f"{name}%{i}" for name, i in zip(names, indexes, strict=True))
