"""The NNAPI operations that a lowering can emit, found in its code."""

from __future__ import annotations

import dis
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from inspect import unwrap
from types import CodeType, FunctionType
from typing import TypeAlias

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.signature import OperationSpec
from ep_nnapi.operators.lib.node import Lowering, Node

Reachable: TypeAlias = list[tuple[int, OperationSpec]]
"""Operations, each after its distance from a lowering."""
_OURS = __name__.removesuffix(".lib.reachable")
_LOCALS = ("LOAD_FAST", "LOAD_DEREF")
_NODES = ("n", "self")
"""Names of the node in code, of which methods are followed."""


def reachable(lower: Lowering) -> Reachable:
    """Return the operations that `lower` and what it calls in `operators` name, the nearest first.

    Each is preceded by its distance: 0 for a row in a closure, 1 if `lower` names it itself, 2 if
    a function does that it names. Operations of branches that its arguments rule out are included.
    """
    own = unwrap(lower)
    todo: list[tuple[int, object]] = [(0, own), (1, lower)]
    seen: dict[int, object] = {}
    found: Reachable = []
    while todo:
        distance, item = todo.pop(0)
        if id(item) in seen:
            continue
        seen[id(item)] = item
        if isinstance(item, OperationSpec):
            found.append((distance, item))
        elif isinstance(item, FunctionType) and (item is own or _is_ours(item)):
            todo += [(distance, cell.cell_contents) for cell in item.__closure__ or ()]
            todo += [(distance + 1, o) for o in _globals(item.__code__, item.__globals__)]
        else:
            todo += [(distance, part) for part in _parts(item)]
    return sorted(found, key=lambda pair: pair[0])


def _is_ours(item: FunctionType | type) -> bool:
    return str(item.__module__).startswith(_OURS)


def _globals(code: CodeType, names: Mapping[str, object]) -> Iterator[object]:
    """Yield what the code and functions inside it read of their module and of `spec`, in order."""
    before: object = None
    for step in dis.get_instructions(code):
        if step.opname == "LOAD_GLOBAL" and step.argval in names:
            yield names[step.argval]
        elif before is spec and step.opname == "LOAD_ATTR":
            yield getattr(spec, step.argval)
        elif before is Node and step.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            yield vars(Node).get(step.argval)
        elif isinstance(step.argval, CodeType):
            yield from _globals(step.argval, names)
        before = names.get(step.argval) if step.opname == "LOAD_GLOBAL" else None
        if step.opname.startswith(_LOCALS) and step.argrepr.split(", ")[-1] in _NODES:
            before = Node


def _parts(item: object) -> Iterator[object]:
    """Yield what a value consists of that a lowering's module or closure holds."""
    if isinstance(item, partial):
        yield from (item.func, *item.args, *item.keywords.values())
    elif isinstance(item, Mapping):
        yield from item.values()
    elif isinstance(item, tuple | list):
        yield from item
    elif isinstance(item, type) and _is_ours(item):
        yield from vars(item).values()
    elif is_dataclass(item) and _is_ours(type(item)):
        yield from (getattr(item, f.name) for f in fields(item))
