"""Operations of a model with operands looked up by their names in `spec.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.host.kernel import Types
from ep_nnapi.nnapi.immutable import immutable
from ep_nnapi.nnapi.model import Data, Model, Omitted, Operand, Operation
from ep_nnapi.nnapi.signature import Match, Params

Names: TypeAlias = Mapping[str, int | tuple[int, ...]]


@immutable
class NamedOperation:
    """An operation with its operands by name.

    inputs, outputs   operand indexes by name, a tuple for a repeated parameter; omitted operands
                      are absent
    types             operand types, without data, by the same names
    code              type of the signature's type variable T; None if it has none
    """

    operation: Operation
    inputs: Names
    outputs: Names
    types: Types
    code: OperandCode | None


def without_data(operands: Sequence[Operand]) -> list[Operand]:
    """The operands without constant data and submodels."""
    return [
        Operand(o.type, o.dimensions, o.scale, o.zero_point, o.channels)
        if isinstance(o.value, (Data, Model))
        else o
        for o in operands
    ]


def named_operations(
    model: Model, feature_level: int, operands: Sequence[Operand] | None = None
) -> list[NamedOperation]:
    """The operations of a model by index; raises Reject if one matches no signature.

    operands   those of the model, `without_data`, if the caller has them
    """
    types = without_data(model.operands) if operands is None else operands
    matches = (model.match(n, feature_level) for n in range(len(model.operations)))
    return [name_operands(*each, types) for each in zip(model.operations, matches, strict=True)]


def name_operands(
    operation: Operation, match: Match, operands: Sequence[Operand]
) -> NamedOperation:
    """Name the operands of an operation; `operands` of its model `without_data`."""
    inputs = {
        name: index
        for name, index in _named(match.inputs, operation.inputs).items()
        if isinstance(index, tuple) or not isinstance(operands[index].value, Omitted)
    }
    outputs = _named(match.outputs, operation.outputs)
    types = {
        name: (operands[index],) if isinstance(index, int) else tuple([operands[i] for i in index])
        for name, index in (*inputs.items(), *outputs.items())
    }
    return NamedOperation(operation, inputs, outputs, Types(types), match.typing.types.get("T"))


def indexes(index: int | tuple[int, ...]) -> tuple[int, ...]:
    """The operand indexes of a name, as a tuple."""
    return index if isinstance(index, tuple) else (index,)


def _named(form: Params, indexes: Sequence[int]) -> Names:
    found: dict[str, int] = {}
    repeated: dict[str, list[int]] = {}
    for param, index in zip(form, indexes, strict=True):
        if param.many:
            repeated.setdefault(param.name, []).append(index)
        else:
            found[param.name] = index
    return {**found, **{n: tuple(each) for n, each in repeated.items()}} if repeated else found
