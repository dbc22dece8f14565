"""Parser for the text format of models that `listing` writes."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.errors import ModelError
from ep_nnapi.nnapi.model import (
    ChannelQuantization,
    Data,
    Lifetime,
    Model,
    Omitted,
    Operand,
    OperandValue,
    Operation,
)
from ep_nnapi.nnapi.spec import BY_NAME

INDENT = "  "
"""Indentation of a model's content relative to its first line."""

UNKNOWN_RANK = "?"
MAX_DEPTH = 128

_T = TypeVar("_T")
_OPERAND = re.compile(
    r"%(?P<index>\d{1,9}): (?P<type>\w+)(?: \[(?P<dims>[^\]]*)\])?(?: scale=(?P<scale>\S+))?"
    r"(?: zero_point=(?P<zero>\S+))?(?: channels=(?P<dim>[^:]+):\[(?P<scales>[^\]]*)\])?"
    r" (?P<value>[^\[].*)"
)
_OPERATION = re.compile(
    r"(?P<name>\w+)\((?P<inputs>[^)]*)\) ->(?P<outputs>[^\[]*?)(?: from (?P<origin>\[.*\]))?"
)
_ARGUMENT = re.compile(r"(?:\w+=)?%(\d{1,9})")
_BOOLEANS = {"False": False, "True": True}


def parse(text: str) -> Model:
    """Return the model that `text`, as written by `listing`, describes.

    Raises ModelError with the line number and the error.
    """
    reader = _Reader(text)
    model = reader.model(depth=0)
    reader.end()
    return model


def constant(code: OperandCode, text: str) -> Data:
    """Parse a constant: a number, a list of numbers, or base64.

    Raises ValueError, KeyError or ArithmeticError if `text` is malformed.
    """
    if text.startswith("base64"):
        raw = b64decode(text.removeprefix("base64").strip(), validate=True)
        return Data(np.frombuffer(raw, np.uint8))
    numbers = _items(text[1:-1] if text.startswith("[") and text.endswith("]") else text)
    kind = code.numpy.kind
    if kind == "b":
        return Data.of(np.array([_BOOLEANS[number] for number in numbers], np.bool_))
    if kind == "f":
        with np.errstate(over="raise"):
            return Data.of(np.array([float(number) for number in numbers], code.numpy))
    limits = np.iinfo(code.numpy)
    values = [int(number) for number in numbers]
    if not all(limits.min <= value <= limits.max for value in values):
        raise ValueError(f"a number is outside of {limits.min} to {limits.max}")
    return Data.of(np.array(values, code.numpy))


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",")] if text.strip() else []


class _Reader:
    """Line-by-line reader of a listing; every error gives the line number."""

    def __init__(self, text: str) -> None:
        lines = enumerate(text.splitlines(), 1)
        self._lines = [(number, line.rstrip()) for number, line in lines if line.strip()]
        self._next = 0
        self._number = 1

    def model(self, depth: int) -> Model:
        """Parse the model that starts at the next line, indented `depth` steps."""
        header = self._line(depth)
        if header not in ("model", "model relaxed"):
            raise self._error('expected "model" or "model relaxed"')
        inputs, outputs = self._ends("inputs", depth + 1), self._ends("outputs", depth + 1)
        operands: list[Operand] = []
        stated: list[tuple[int, str]] = []
        operations: list[Operation] = []
        while (line := self._line(depth + 1)) is not None:
            if line.startswith("%"):
                operand, value = self._operand(line, len(operands), depth)
                operands.append(operand)
                stated.append((self._number, value))
            else:
                operations.append(self._operation(line))
        model = Model(tuple(operands), tuple(operations), inputs, outputs, header != "model")
        for (self._number, value), lifetime in zip(stated, model.lifetimes, strict=True):
            if value != lifetime:
                raise self._error(f'expected "{lifetime}", found "{value}"')
        return model

    def end(self) -> None:
        """Raise ModelError if any line remains."""
        if self._next < len(self._lines):
            self._number = self._lines[self._next][0]
            raise self._error("expected the end or another indentation")

    def _line(self, depth: int) -> str | None:
        """The next line if its indentation is exactly `depth` steps, else None."""
        if self._next == len(self._lines):
            return None
        number, line = self._lines[self._next]
        text = line.lstrip(" ")
        if len(line) - len(text) != len(INDENT) * depth:
            return None
        self._number, self._next = number, self._next + 1
        return text

    def _error(self, what: str) -> ModelError:
        return ModelError(f"line {self._number}: {what}")

    def _ends(self, kind: str, depth: int) -> tuple[int, ...]:
        words = (self._line(depth) or "").split()
        if words[:1] != [kind] or not all(re.fullmatch(r"%\d{1,9}", word) for word in words[1:]):
            raise self._error(f'expected "{kind} %0 %1 …"')
        return tuple(int(word[1:]) for word in words[1:])

    def _operand(self, line: str, index: int, depth: int) -> tuple[Operand, str]:
        """Parse an operand line; returns the operand and its declared lifetime."""
        m = _OPERAND.fullmatch(line)
        if m is None or m["type"] not in OperandCode.__members__:
            raise self._error(f'expected "%{index}: TYPE [dimensions] value"')
        if int(m["index"]) != index:
            raise self._error(f"expected operand %{index}, found %{m['index']}")
        code = OperandCode[m["type"]]
        dims = "" if m["dims"] in (None, UNKNOWN_RANK) else m["dims"]
        channels = None
        if m["dim"]:
            scales = self._read(lambda: tuple(map(float, _items(m["scales"]))))
            channels = ChannelQuantization(self._read(lambda: int(m["dim"])), scales)
        operand = Operand(
            code,
            self._read(lambda: tuple(map(int, _items(dims)))),
            self._read(lambda: float(m["scale"] or 0)),
            self._read(lambda: int(m["zero"] or 0)),
            channels,
            self._value(code, m["value"], depth),
        )
        return operand, Lifetime.CONSTANT if isinstance(operand.value, Data) else m["value"]

    def _value(self, code: OperandCode, text: str, depth: int) -> OperandValue:
        kind, _, rest = text.partition(" ")
        if text == Lifetime.SUBGRAPH:
            if depth > MAX_DEPTH:
                raise self._error("models are nested too deeply")
            return self.model(depth + 2)
        if text == Lifetime.NO_VALUE:
            return Omitted.NO_VALUE
        if kind != Lifetime.CONSTANT:
            return None
        if "sha256" in rest:
            raise self._error("the constant was left out of this listing")
        return self._read(lambda: constant(code, rest))

    def _operation(self, line: str) -> Operation:
        m = _OPERATION.fullmatch(line)
        if m is None:
            raise self._error('expected "OPERATION(%0, %1) -> %2"')
        if m["name"] not in BY_NAME:
            raise self._error(f"there is no operation {m['name']}")
        origin = self._read(lambda: json.loads(m["origin"] or "[]"))
        if not all(isinstance(name, str) for name in origin):
            raise self._error("origins are names")
        inputs, outputs = self._indexes(m["inputs"]), self._indexes(m["outputs"])
        return Operation(BY_NAME[m["name"]], inputs, outputs, tuple(origin))

    def _indexes(self, text: str) -> tuple[int, ...]:
        found = [_ARGUMENT.fullmatch(item) for item in _items(text)]
        if None in found:
            raise self._error(f'expected operands as "name=%0", found "{text.strip()}"')
        return tuple(int(m[1]) for m in found if m is not None)

    def _read(self, read: Callable[[], _T]) -> _T:
        try:
            return read()
        except (ValueError, KeyError, ArithmeticError) as error:
            raise self._error(f"unreadable: {error}") from error
