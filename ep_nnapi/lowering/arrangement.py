"""Arrangement of operands that are given by position and name, in the order of a signature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import NoneType
from typing import TypeAlias, cast

from ep_nnapi.graph.value import Constant, Value
from ep_nnapi.lowering.arguments import Arg, Given, Scalar, View
from ep_nnapi.nnapi.codes import FuseCode
from ep_nnapi.nnapi.errors import SpecError
from ep_nnapi.nnapi.signature import OperationSpec, Param, Params
from ep_nnapi.nnapi.sizes import Size

_DEFAULTS: Mapping[str, Scalar] = {"activation": FuseCode.NONE}
"""Values of parameters that are not given."""
_SINGLE = (Value, View, bool, int, float)
"""Types of arguments that are one operand as they are."""


class _Position(int):
    """Stands for an operand that is not None, by its position among those given."""


Inputs: TypeAlias = tuple[Params, tuple[Arg, ...]]
"""A call's inputs, each with its parameter."""
_Arrangement: TypeAlias = tuple[Params, tuple[int, ...]]
"""The parameters of a call's inputs, and where among operands and defaults each of them is."""
_ENDS = (None, FuseCode.NONE)
"""What follows the operands that are given: an omitted one, and the default of an activation."""
_WHOLE = {Value, View, Constant, bool, int, float, FuseCode, Size, NoneType}
"""Types of operands that are one, or None; others are found to be so one by one."""


def arranged(
    spec: OperationSpec, given: Sequence[Given], named: Mapping[str, Given]
) -> Inputs | None:
    """The parameters and operands of the first list of operands that these fit; None for none.

    Without sequences that depends only on which are given, and how: each place in the code has one
    way, which is found once.
    """
    values = [*given, *named.values()]
    kinds = set(map(type, values))
    if not kinds <= _WHOLE:
        return _first(spec, given, named)
    key: tuple[object, ...] = (len(given), *named)
    if NoneType in kinds:
        key = (*key, *[value is None for value in values])
    arrangements: dict[tuple[object, ...], _Arrangement | None] = spec.arrangements
    if key not in arrangements:
        arrangements[key] = _arrangement(spec, values, named)
    found = arrangements[key]
    if found is None:
        return None
    params, places = found
    values += _ENDS
    inputs = [values[place] for place in places]
    if Constant in kinds:
        both = zip(params, inputs, strict=True)
        inputs = [_tensor(p, a) if isinstance(a, Constant) else a for p, a in both]
    return params, cast("tuple[Arg, ...]", tuple(inputs))


def _arrangement(
    spec: OperationSpec, values: Sequence[Given], named: Mapping[str, Given]
) -> _Arrangement | None:
    """How operands are arranged; None if they fit no list."""
    places = [None if value is None else _Position(i) for i, value in enumerate(values)]
    given = len(values) - len(named)
    found = _first(spec, places[:given], dict(zip(named, places[given:], strict=True)))
    if found is None:
        return None
    params, inputs = found
    ends = [len(values) + (arg is not None) for arg in inputs]
    both = zip(inputs, ends, strict=True)
    return params, tuple([arg if isinstance(arg, _Position) else end for arg, end in both])


def _first(
    spec: OperationSpec, given: Sequence[Given], named: Mapping[str, Given]
) -> Inputs | None:
    for form, places in zip(spec.input_params, spec.input_places, strict=True):
        found = _bind(form, places, given, named)
        if found is not None:
            return found
    return None


def _bind(
    form: Params, places: Mapping[str, int], given: Sequence[Given], named: Mapping[str, Given]
) -> Inputs | None:
    if len(given) > len(form):
        return None
    if named and not _fits_names(places, len(given), named):
        return None
    rest = [named.get(p.name, _DEFAULTS.get(p.name)) for p in form[len(given) :]]
    params: list[Param] = []
    inputs: list[Arg] = []
    for param, arg in zip(form, (*given, *rest), strict=True):
        # most are; Sequence is slow to check
        if isinstance(arg, _SINGLE) or (arg is None and not param.many):
            params.append(param)
            inputs.append(arg)
            continue
        args = _args(param, arg)
        if param.many == "+" and not args:
            return None
        params += [param] * len(args)
        inputs += args
    end = _end(params, inputs)
    if end is None:
        return None
    return tuple(params[:end]), tuple(inputs[:end])


def _fits_names(places: Mapping[str, int], given: int, named: Mapping[str, Given]) -> bool:
    """True if the operands by name are of the form, and not among the first `given` ones."""
    for name, arg in named.items():
        place = places.get(name)
        if place is None and arg is not None:
            return False
        if place is not None and place < given:
            return False
    return True


def _end(params: Sequence[Param], inputs: Sequence[Arg]) -> int | None:
    """The shortest legal operand count that includes every operand that is not None.

    None if an operand before it is missing that is not optional.
    """
    end = len(inputs)
    while end > 1 and inputs[end - 1] is None:
        end -= 1
    while 0 < end < len(params) and not params[end - 1].last:
        end += 1
    for param, arg in zip(params[:end], inputs, strict=False):
        if arg is None and not param.optional:
            return None
    return end


def _args(param: Param, given: Given) -> Sequence[Arg]:
    if isinstance(given, Constant):
        return (_tensor(param, given),)
    if isinstance(given, Sequence):
        if not param.many:
            raise SpecError(f"operand {param.name} takes one value, not {len(given)}")
        return given
    return () if param.many and given is None else (given,)


def _tensor(param: Param, constant: Constant) -> Value:
    return Value(f"constant {param.name}", constant.dtype, constant.shape, constant=constant)
