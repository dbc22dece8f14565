"""The large constants of a model and its submodels, and their replacement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ep_nnapi.nnapi.codes import COPIED_AT_ONCE
from ep_nnapi.nnapi.model import Data, Model, Operand


def is_large(data: Data) -> bool:
    """True if NNAPI does not copy the constant when it is set."""
    return data.bytes.size > COPIED_AT_ONCE


def large_constants(model: Model) -> list[Data]:
    """The large constants, those of submodels included."""
    found: list[Data] = []
    waiting, seen = [model], {id(model)}
    while waiting:
        for operand in waiting.pop().operands:
            value = operand.value
            if isinstance(value, Model) and id(value) not in seen:
                seen.add(id(value))
                waiting.append(value)
            elif isinstance(value, Data) and is_large(value):
                found.append(value)
    return found


def with_constants(model: Model, replaced: Mapping[int, Data]) -> Model:
    """The model with other constants of the same contents, given by the id of the old ones.

    A submodel that several operands share stays one object.
    """
    return _replacing(model, replaced, {}) if replaced else model


def _replacing(model: Model, replaced: Mapping[int, Data], done: dict[int, Model]) -> Model:
    def renewed(operand: Operand) -> Operand:
        value = operand.value
        if isinstance(value, Model):
            if id(value) not in done:
                done[id(value)] = _replacing(value, replaced, done)
            return replace(operand, value=done[id(value)])
        return replace(operand, value=replaced[id(value)]) if id(value) in replaced else operand

    return replace(model, operands=tuple(map(renewed, model.operands)))
