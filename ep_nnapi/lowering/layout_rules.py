"""Layout propagation rules: rewrites of NNAPI operations to work on permuted tensors.

A rule changes the operands of one NNAPI operation for rank-4 tensors whose axes are permuted.
Operations without a rule keep the layout they were lowered with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from math import prod
from typing import TypeAlias

import numpy as np

from ep_nnapi.graph.value import Constant, DType, Value
from ep_nnapi.lowering.arguments import NHWC, Given, View
from ep_nnapi.lowering.call import Call, apply
from ep_nnapi.nnapi.errors import SpecError
from ep_nnapi.nnapi.immutable import replace
from ep_nnapi.nnapi.signature import AxisUse, OperationSpec
from ep_nnapi.nnapi.sizes import are_ones, identical, is_one
from ep_nnapi.nnapi.spec import CONCATENATION, FULLY_CONNECTED, GATHER, RESHAPE, STRIDED_SLICE

Perm: TypeAlias = tuple[int, ...]
Changes: TypeAlias = Mapping[str, Given]
LayoutRule: TypeAlias = Callable[[Call, Perm], Changes | None]


def permuted_call(call: Call, perm: Perm) -> Call | None:
    """Returns `call` on tensors permuted by `perm`; None if the operation does not support it."""
    rule = layout_rule(call.spec)
    changes = rule and rule(call, perm)
    if not changes:
        return None
    outputs = [_output(o, perm) for o in call.outputs]
    out = tuple([o for o in outputs if o is not None])
    if len(out) < len(outputs):
        return None
    inputs = [changes.get(p.name, arg) for p, arg in zip(call.params, call.inputs, strict=True)]
    arranged = tuple([arg for arg in inputs if isinstance(arg, (Value, View, int, float))])
    if len(arranged) == len(inputs) and changes.keys() <= {p.name for p in call.params}:
        return Call(call.spec, call.params, arranged, out, call.origin)
    operands: dict[str, Given] = {**call.named(), **changes}
    return replace(apply(call.spec, **operands, out=out), origin=call.origin)


def _output(out: Value | View, perm: Perm) -> Value | View | None:
    if isinstance(out, View):
        return None
    return View(out, perm) if out.rank == len(perm) else out


def permuted(arg: Given, perm: Perm) -> Value | View | None:
    """Returns a tensor operand permuted after broadcasting its rank; None if that is impossible."""
    if not isinstance(arg, Value):
        return None
    if arg.rank == len(perm):
        return View(arg, perm)
    if are_ones(arg.shape):
        return arg
    if arg.constant is None:
        return None
    shape = (1,) * (len(perm) - arg.rank) + arg.shape
    return View(replace(arg, dims=shape, constant=arg.constant.reshaped(shape)), perm)


def _tensors(*names: str) -> LayoutRule:
    """Rule for operations whose named operands are tensors with the same axes or broadcast."""

    def rule(call: Call, perm: Perm) -> Changes | None:
        named = call.named()
        changed = {name: permuted(named[name], perm) for name in names}
        return None if None in changed.values() else changed

    return rule


def _axis(name: str = "axis", data: str = "input", default: int | None = None) -> LayoutRule:
    """Rule for operations with a scalar axis `name` of operand `data`, `default` if omitted."""

    def rule(call: Call, perm: Perm) -> Changes | None:
        named = call.named()
        value, given = named[data], named.get(name, default)
        if not isinstance(value, Value) or value.rank != len(perm) or not isinstance(given, int):
            return None
        return {data: View(value, perm), name: perm.index(given % len(perm))}

    return rule


def _concatenation(call: Call, perm: Perm) -> Changes | None:
    named = call.named()
    inputs, axis = named["inputs"], named["axis"]
    if not isinstance(inputs, tuple) or not isinstance(axis, int):
        return None
    views = [permuted(i, perm) for i in inputs]
    if not all(isinstance(v, View) for v in views):
        return None
    return {"inputs": [v for v in views if v is not None], "axis": perm.index(axis)}


def _by_axis(*names: str) -> LayoutRule:
    """Rule for operations whose named constants have one entry (or row) per axis of `input`."""

    def rule(call: Call, perm: Perm) -> Changes | None:
        named = call.named()
        changes: dict[str, Given] = {"input": permuted(named["input"], perm)}
        for name in names:
            changes[name] = _rows(named[name], perm)
        return None if None in changes.values() else changes

    return rule


def _rows(arg: Given, perm: Perm) -> Constant | None:
    if not isinstance(arg, Value) or arg.constant is None or arg.shape[0] != len(perm):
        return None
    return arg.constant.map(arg.shape, lambda a: a[list(perm)])


def _gather(call: Call, perm: Perm) -> Changes | None:
    """Renumbers the axis; only for rank-1 indices, which keep the rank of the input."""
    indices = call.named()["indices"]
    one_row = isinstance(indices, Value) and indices.rank == 1
    return _axis()(call, perm) if one_row else None


def _strided_slice(call: Call, perm: Perm) -> Changes | None:
    """Reorders the bounds of each axis; only if no mask is set."""
    named = call.named()
    if any(named[f"{mask}_mask"] for mask in ("begin", "end", "shrink_axis")):
        return None
    return _by_axis(*call.spec.traits.per_axis)(call, perm)


def _arg_reduction(call: Call, perm: Perm) -> Changes | None:
    """Renumbers an axis that the operation removes; the remaining axes must keep their order."""
    stay = [p for p in perm if p != call.named()["axis"]]
    return _axis()(call, perm) if stay == sorted(stay) else None


def _reduction(call: Call, perm: Perm) -> Changes | None:
    """Renumbers the axes; without `keep_dims` the remaining axes must keep their order."""
    named = call.named()
    x, axes = named["input"], named["axes"]
    if not isinstance(x, Value) or x.rank != len(perm):
        return None
    if not isinstance(axes, Value) or axes.constant is None or len(axes.shape) != 1:
        return None
    gone = {int(a) % x.rank for a in axes.constant.array.reshape(-1)}
    stay = [p for p in perm if p not in gone]
    if len(gone) < axes.size or (not named["keep_dims"] and stay != sorted(stay)):
        return None
    moved = Constant.of(np.array([perm.index(a) for a in sorted(gone)], np.int32))
    return {"input": View(x, perm), "axes": moved.cast(axes.dtype)}


def _reshape(call: Call, perm: Perm) -> Changes | None:
    """Permutes input and output if their shapes are equal; else the output if no element moves."""
    x, y = call.named()["input"], call.outputs[0]
    if isinstance(y, View) or y.rank != len(perm):
        return None
    shape = Constant.of_sizes([y.shape[p] for p in perm], (len(perm),), DType.INT32)
    if isinstance(x, Value) and identical(x.shape, y.shape):
        return {"input": View(x, perm), "shape": shape}
    return {"shape": shape} if preserves_order(y.shape, perm) else None


def preserves_order(shape: Sequence[int], perm: Perm) -> bool:
    """Returns True if the permutation moves no element: axes longer than 1 stay in order."""
    stay = [p for p in perm if not is_one(shape[p])]
    return stay == sorted(stay)


@lru_cache(256)
def identity(rank: int) -> Perm:
    """Returns the permutation that changes nothing."""
    return tuple(range(rank))


@lru_cache(256)
def inverse(perm: Perm) -> Perm:
    """Returns the inverse of the permutation `perm`."""
    return tuple(perm.index(i) for i in range(len(perm)))


def permutation(transpose: Call) -> Perm:
    """Returns the permutation of a TRANSPOSE call; reversed axes if it is omitted."""
    named = transpose.named()
    axes = named.get("perm")
    if isinstance(axes, Value) and axes.constant is not None:
        return tuple(int(i) for i in axes.constant.array)
    x = named["input"]
    if not isinstance(x, Value):
        raise SpecError("TRANSPOSE of a view: views are made after transposes are absorbed")
    return tuple(range(x.rank))[::-1]


def flatten_nhwc(reshape: Call, layer: Call) -> tuple[Call, Call] | None:
    """Returns RESHAPE [N, C, H, W] -> [N, C H W] and FULLY_CONNECTED rewritten for NHWC input.

    The constant weights [units, C H W] are reordered to match. Returns None if the two calls do
    not have that form.
    """
    x, named = reshape.named()["input"], layer.named()
    y, given = reshape.outputs[0], named["weights"]
    if not isinstance(x, Value) or x.rank != len(NHWC) or not isinstance(y, Value):
        return None
    joined = x.shape[0], x.size // x.shape[0]
    if named["input"] != y or not identical(y.shape, joined):
        return None
    weights = given.value if isinstance(given, View) else given
    if not isinstance(weights, Value) or weights.constant is None:
        return None
    constant = weights.constant
    if isinstance(given, View):
        constant = constant.transposed(given.perm)
    units, image = constant.shape[0], x.shape[1:]
    reordered = constant.reshaped((units, *image)).transposed(NHWC).reshaped((units, prod(image)))
    flat = replace(y, name=f"{y.name} of NHWC")  # its elements have another order
    weights = replace(weights, dims=reordered.shape, constant=reordered)
    operands: dict[str, Given] = {**named, "input": flat, "weights": weights}
    nhwc_reshape = apply(RESHAPE, View(x, NHWC), shape=reshape.named()["shape"], out=flat)
    return (
        replace(nhwc_reshape, origin=reshape.origin),
        replace(apply(FULLY_CONNECTED, out=layer.outputs, **operands), origin=layer.origin),
    )


@cache
def layout_rule(operation: OperationSpec) -> LayoutRule | None:
    """Returns the rule of an operation, from its traits; None if it keeps its layout."""
    traits = operation.traits
    if operation in _OWN_RULES:
        return _OWN_RULES[operation]
    if traits.elementwise:
        return _tensors(*traits.elementwise)
    if traits.per_axis:
        return _by_axis(*traits.per_axis)
    return _AXIS_RULES[traits.axis] if traits.axis is not None else None


_AXIS_RULES: Mapping[AxisUse, LayoutRule] = {
    AxisUse.ALONG: _axis(default=-1),
    AxisUse.REMOVED: _arg_reduction,
    AxisUse.REDUCED: _reduction,
}
_OWN_RULES: Mapping[OperationSpec, LayoutRule] = {
    CONCATENATION: _concatenation,
    GATHER: _gather,
    RESHAPE: _reshape,
    STRIDED_SLICE: _strided_slice,
}
"""Rules that depend on more than the traits of the operation."""
