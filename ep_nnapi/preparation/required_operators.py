"""Merging of the required operators of several models into one list.

A line of ONNX Runtime's file is `domain;opset;Operator{types},Operator`; the types are JSON. The
file for all models is merged from the lines of each model, so unchanged models are not read again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TypeAlias

Types: TypeAlias = dict[str, object] | list[object] | None


def merged(lines: Iterable[str]) -> list[str]:
    """Returns one line for each domain and opset, with the union of operators and their types.

    >>> merged(['ai.onnx;13;Gemm{"inputs": {"0": ["float"]}}', "ai.onnx;13;Relu,Gemm"])
    ['ai.onnx;13;Gemm{"inputs": {"0": ["float"]}},Relu']
    """
    found: dict[tuple[str, int], dict[str, Types]] = {}
    for line in lines:
        domain, opset, rest = line.split(";", 2)
        operators = found.setdefault((domain, int(opset)), {})
        for name, types in _operators(rest):
            operators[name] = _union(operators.get(name), types)
    return [
        f"{domain};{opset};" + ",".join(f"{n}{_text(t)}" for n, t in sorted(operators.items()))
        for (domain, opset), operators in sorted(found.items())
    ]


def _operators(text: str) -> Iterator[tuple[str, Types]]:
    """Yields the names and types of the operators in `Operator{types},Operator`."""
    decoder = json.JSONDecoder()
    while text:
        name, types = text, None
        end = min((i for i in (text.find(","), text.find("{")) if i >= 0), default=len(text))
        name, rest = text[:end], text[end:]
        if rest.startswith("{"):
            types, length = decoder.raw_decode(rest)
            rest = rest[length:]
        yield name, types
        text = rest.removeprefix(",")


def _union(a: object, b: object) -> Types:
    """Returns the union of two JSON values, recursively."""
    if isinstance(a, dict) and isinstance(b, dict):
        return {k: _union(a.get(k), b.get(k)) for k in sorted(a.keys() | b.keys())}
    if isinstance(a, list) and isinstance(b, list):
        return [*a, *(x for x in b if x not in a)]
    return a if b is None else b  # type: ignore[return-value]


def _text(types: Types) -> str:
    return "" if types is None else json.dumps(types)
