"""Models from their listings: a listing with its data has all of a model."""

import json
import re
from base64 import b64decode

import numpy as np

from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.model import ChannelQuantization, Data, Model, Omitted, Operand, Operation
from ep_nnapi.nnapi.spec import BY_NAME

_OPERAND = re.compile(
    r"%\d+: (?P<type>\w+)(?: \[(?P<dims>[^\]]*)\])?(?: scale=(?P<scale>\S+))?"
    r"(?: zero_point=(?P<zero>\S+))?(?: channels=(?P<dim>-?\d+):\[(?P<scales>[^\]]*)\])?"
    r" (?P<value>[^\[].*)"
)
_OPERATION = re.compile(r"(?P<name>\w+)\((.*?)\) ->(.*?)(?: from (?P<origin>\[.*\]))?")


def parse(text: str) -> Model:
    """The model of a text that `listing` wrote."""
    lines = [line for line in text.split("\n") if line]
    model = _model(lines, "")
    assert not lines, lines
    return model


def _model(lines: list[str], indent: str) -> Model:
    """The model that begins at the first line, whose lines are taken away."""
    header, inputs, outputs = (lines.pop(0).removeprefix(indent) for _ in range(3))
    operands, operations, stated = [], [], []
    while lines and re.match(rf"{indent}  \S", lines[0]):
        line = lines.pop(0).removeprefix(indent + "  ")
        if line.startswith("%"):
            stated.append(line)
            operands.append(_operand(line, lines, indent + "    "))
        else:
            operations.append(_operation(line))
    relaxed = {"model": False, "model relaxed": True}[header]
    model = Model(tuple(operands), tuple(operations), _ids(inputs), _ids(outputs), relaxed)
    for i, (line, lifetime) in enumerate(zip(stated, model.lifetimes, strict=True)):
        assert re.fullmatch(rf"%{i}: .*\b{lifetime}( .*)?", line), line
    return model


def _operand(line: str, lines: list[str], indent: str) -> Operand:
    m = _OPERAND.fullmatch(line)
    assert m is not None, line
    code, dims, (kind, _, value) = OperandCode[m["type"]], m["dims"], m["value"].partition(" ")
    values = {"subgraph": lambda: _model(lines, indent), "no": lambda: Omitted.NO_VALUE}
    return Operand(
        code,
        tuple(json.loads(f"[{'' if dims in (None, '?') else dims}]")),
        float(m["scale"] or 0),
        int(m["zero"] or 0),
        None if m["dim"] is None else ChannelQuantization(int(m["dim"]), _floats(m["scales"])),
        _constant(code, value) if kind == "constant" else values.get(kind, lambda: None)(),
    )


def _constant(code: OperandCode, text: str) -> Data:
    if text.startswith("base64"):
        return Data(np.frombuffer(b64decode(text.removeprefix("base64")), np.uint8))
    kind = {"b": "True".__eq__, "f": float}.get(code.numpy.kind, int)
    return Data.of(np.array([kind(item) for item in text.strip("[]").split(", ")], code.numpy))


def _operation(line: str) -> Operation:
    m = _OPERATION.fullmatch(line)
    assert m is not None, line
    return Operation(BY_NAME[m[1]], _ids(m[2]), _ids(m[3]), tuple(json.loads(m["origin"] or "[]")))


def _floats(text: str) -> tuple[float, ...]:
    return tuple(float(item) for item in text.split(", ") if item)


def _ids(text: str) -> tuple[int, ...]:
    return tuple(int(index) for index in re.findall(r"%(\d+)", text))
