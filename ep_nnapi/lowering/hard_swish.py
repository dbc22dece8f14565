"""Fusion of the operations that compute a hard swish from others into HARD_SWISH.

ONNX Runtime expands HardSwish into HardSigmoid and Mul in models that it saves, and exporters write
it in parts for opsets below 14.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from math import nan, prod

import numpy as np

from ep_nnapi.graph.value import DType, Value
from ep_nnapi.lowering.call import Call, apply
from ep_nnapi.nnapi.codes import FuseCode
from ep_nnapi.nnapi.spec import ADD, DIV, HARD_SWISH, MUL

_ARITHMETIC = {ADD.code, MUL.code, DIV.code}
_FLOATS = (DType.FLOAT, DType.FLOAT16)


def fuse_hard_swish(calls: Sequence[Call], kept: Collection[str], feature_level: int) -> list[Call]:
    """Returns the calls with HARD_SWISH(x) for x RELU6(x + 3) / 6, where the level has it.

    calls   with fused activations, in topological order
    kept    names of the cluster's outputs, whose operations are not merged into later ones
    The division is by 6 or a product with 1/6, before or after the product with x.
    """
    if not any(c.spec is ADD and c.named()["activation"] == FuseCode.RELU6 for c in calls):
        return list(calls)
    parts = _mergeable(calls, kept)
    fused: dict[str, Call] = {}  # by name of the output
    merged: set[str] = set()
    for call in calls:
        found = _hard_swish(call, parts)
        if found and found[-1].is_supported(feature_level):
            *others, fused[call.writes[0].name] = found
            merged.update([c.writes[0].name for c in others])
    named = [(c.writes[0].name, c) for c in calls]
    return [fused.get(name, c) for name, c in named if name not in merged]


def _mergeable(calls: Sequence[Call], kept: Collection[str]) -> Mapping[str, Call]:
    """Returns the sums, products and quotients that only one operation reads, by output."""
    readers = Counter([v.name for c in calls for v in c.reads])
    named = [(c.writes[0].name, c) for c in calls if c.spec.code in _ARITHMETIC]
    return {name: c for name, c in named if readers[name] == 1 and name not in kept}


def _hard_swish(last: Call, parts: Mapping[str, Call]) -> tuple[Call, ...]:
    """Returns the calls merged into `last`, then HARD_SWISH in place of it; () if it is none."""
    if not _is_product(last):
        return ()
    inner = [c for v in last.reads if (c := parts.get(v.name)) and _is_product(c)]
    if len(inner) != 1:
        return ()
    product = (inner[0], last)
    values = [v for c in product for v in c.reads if v != inner[0].writes[0]]
    shares = [share for c in product for share in _shares(c)]
    if len(values) != 2 or len(shares) != 1 or not _equals(shares[0], 1 / 6, values[0].dtype):
        return ()
    y = last.writes[0]
    for x, clipped in (values, values[::-1]):
        shifted = parts.get(clipped.name)
        if shifted is not None and _is_shifted(shifted, x) and y.dims == x.dims:
            origin = dict.fromkeys([name for c in (shifted, *product) for name in c.origin])
            return shifted, inner[0], apply(HARD_SWISH, x, out=y).with_origin(tuple(origin))
    return ()


def _is_product(call: Call) -> bool:
    """True for a product of two tensors, or a quotient whose divisor is constant."""
    if (call.spec is not MUL and call.spec is not DIV) or not _is_plain(call, FuseCode.NONE):
        return False
    divisor = call.inputs[1]
    return call.spec is MUL or (isinstance(divisor, Value) and divisor.constant is not None)


def _is_plain(call: Call, activation: FuseCode) -> bool:
    """True for two float operands in the same layout as the result, and this activation."""
    tensors = (*call.inputs[:2], *call.outputs)
    return call.named()["activation"] == activation and all(
        isinstance(t, Value) and t.dtype in _FLOATS and t.quantization is None for t in tensors
    )


def _shares(call: Call) -> list[float]:
    """Returns the constants that a product multiplies by, or that a quotient does in effect."""
    constants = _constants(call)
    return [1 / c if c else nan for c in constants] if call.spec is DIV else constants


def _is_shifted(call: Call, x: Value) -> bool:
    """True for RELU6(x + 3)."""
    constants = _constants(call)
    return (
        call.spec is ADD
        and _is_plain(call, FuseCode.RELU6)
        and call.reads == (x,)
        and len(constants) == 1
        and _equals(constants[0], 3, x.dtype)
    )


def _constants(call: Call) -> list[float]:
    """Returns the constants among the two operands; NaN for one that is not a single number."""
    constants = [a.constant for a in call.inputs[:2] if isinstance(a, Value)]
    return [c.array.item() if prod(c.shape) == 1 else nan for c in constants if c is not None]


def _equals(found: float, number: float, dtype: DType) -> bool:
    """True if a constant of this type is the number, rounded at most twice."""
    return abs(found - number) <= number * float(np.finfo(dtype.numpy).eps)
