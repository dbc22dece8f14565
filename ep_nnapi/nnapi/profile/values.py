"""Values for sample operations, with which a device's results are compared with the reference's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from zlib import crc32

import numpy as np

from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.host.codec import encode, limits
from ep_nnapi.nnapi.immutable import replace
from ep_nnapi.nnapi.model import Data, Operand
from ep_nnapi.nnapi.profile.form import OperationUse
from ep_nnapi.nnapi.profile.sample import Sample
from ep_nnapi.nnapi.profile.seeds import INDEXES

Dims = tuple[int, ...]


class Values(Enum):
    """Kinds of values for a sample's inputs.

    ORDINARY   small numbers and zeros, in the domain of the operation; all codes of elementwise
               8-bit operations
    EXTREME    the lowest and the highest code of quantized types; infinities of float types
    """

    ORDINARY = "ordinary"
    EXTREME = "extreme"


_COMPARISONS = ("EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL")
_WITH_INFINITIES = (*_COMPARISONS, "ABS", "NEG", "SELECT")
"""Operations beside those that select an input's element whose definition covers infinities."""
_LOW, _HIGH = -2.0, 2.0
_DOMAINS: Mapping[tuple[str, str], tuple[float, float]] = {
    ("DIV", "input2"): (0.5, 2.0),
    ("LOG", "input"): (0.1, 4.0),
    ("RSQRT", "input"): (0.1, 4.0),
    ("SQRT", "input"): (0.0, 4.0),
    ("POW", "base"): (0.1, 2.0),
    ("REDUCE_PROD", "input"): (0.9, 1.1),
    ("LSH_PROJECTION", "weight"): (0.1, 2.0),
}
"""Domains of operands; that of all others is -2 to 2."""
_POSITIVE = ("variance", "gamma", "layer_norm_weights", "scores")
_SORTED = ("ARGMAX", "ARGMIN", "TOPK_V2", "BOX_WITH_NMS_LIMIT", "GENERATE_PROPOSALS")
"""Operations whose outputs depend on which of two elements is greater: no two are equal."""
_RECURRENT = ("LSTM", "RNN")
"""Kinds of operations whose errors would grow from step to step with larger weights."""
_BOXES = ("rois", "boxes", "anchors")
_ZERO_SHARE = 0.1
_INT32 = OperandCode.TENSOR_INT32


@dataclass(frozen=True, slots=True)
class Fed:
    """An operation with values: its constants are filled in, and the arrays of its inputs."""

    use: OperationUse
    inputs: tuple[Array, ...]


def takes_extremes(use: OperationUse) -> bool:
    """True if EXTREME differs from ORDINARY and NNAPI defines the results."""
    first = next((o for o in use.inputs if o.type.tensor), None)
    if first is None or first.type is OperandCode.TENSOR_BOOL8:
        return False
    integral = np.issubdtype(first.type.numpy, np.integer)
    defined = use.spec.traits.selects or use.spec.name in _WITH_INFINITIES
    return first.type.quantized if integral else defined


def fed(use: OperationUse, base: Sample, kind: Values) -> Fed:
    """The operation with values, the same in each call.

    base   the sample of which it is a variation: unknown sizes and the contents of tensors of
           indexes are as there
    """
    seed = crc32(f"{use.spec.name} {kind.value} {[o.dimensions for o in use.inputs]}".encode())
    rng = np.random.default_rng(seed)
    shapes = _shapes(use, base)
    inputs, feeds = [], []
    for (param, operand), dims in zip(use.named_inputs, shapes, strict=True):
        filled = operand
        if operand.type.tensor and (operand.value is None or isinstance(operand.value, Data)):
            array = _array(use, base, Named(param.name, operand, dims, shapes), kind, rng)
            if operand.value is None:
                feeds.append(array)
            else:
                filled = replace(operand, value=Data.of(array))
        inputs.append(filled)
    return Fed(replace(use, inputs=tuple(inputs)), tuple(feeds))


@dataclass(frozen=True, slots=True)
class Named:
    """An input of a sample operation, for which values are to be drawn.

    name    that of its parameter in the signature
    dims    its shape, with the sizes that the operand leaves unknown
    shapes  those of all inputs of the operation
    """

    name: str
    operand: Operand
    dims: Dims
    shapes: tuple[Dims, ...]


def _shapes(use: OperationUse, base: Sample) -> tuple[Dims, ...]:
    """The shapes of the inputs, with unknown sizes as in the base."""
    found = []
    for param, operand in use.named_inputs:
        whole = base.input(param.name).dimensions if param.name in base.inputs else ()
        dims = operand.dimensions
        same = len(whole) == len(dims)
        found.append(tuple(d or w for d, w in zip(dims, whole, strict=True)) if same else dims)
    return tuple(found)


def _array(
    use: OperationUse, base: Sample, named: Named, kind: Values, rng: np.random.Generator
) -> Array:
    operand, name = named.operand, named.name
    if name in INDEXES or (use.spec.name == "REVERSE" and name == "axis"):
        given = operand if isinstance(operand.value, Data) else base.input(name)
        return np.ascontiguousarray(given.array)
    made = _INDEXES.get(name)
    if made is not None and operand.type is _INT32:
        return made(named, rng).astype(np.int32)
    if operand.type is OperandCode.TENSOR_BOOL8:
        return rng.integers(0, 2, named.dims).astype(np.bool_)
    kept = (*_BOXES, "image_info", "deltas", "bias")
    if kind is Values.EXTREME and name not in kept and operand.type is not _INT32:
        return _extreme(use, named, rng)
    if _all_codes(use, name, operand):
        return _codes(use, named.dims, operand, rng)
    return _encoded(_real(use, named, rng), operand)


def _encoded(real: Array, operand: Operand) -> Array:
    array = np.empty(real.shape, operand.type.numpy)
    scale = operand.scale if operand.channels is None else operand.channels.scales[0]
    encode(real, replace(operand, scale=scale, channels=None), array)
    return array


def _extreme(use: OperationUse, named: Named, rng: np.random.Generator) -> Array:
    """The ends of a quantized type's range, or numbers with infinities among them."""
    code, dims = named.operand.type, named.dims
    if code.quantized:
        return rng.choice(np.array(limits(code), code.numpy), dims)
    numbers = _real(use, named, rng)
    infinite = rng.random(dims) < 2 * _ZERO_SHARE
    return np.where(infinite, rng.choice([-np.inf, np.inf], dims), numbers).astype(code.numpy)


def _all_codes(use: OperationUse, name: str, operand: Operand) -> bool:
    """True for 8-bit operands of operations that compute each element alone."""
    traits = use.spec.traits
    alone = bool(traits.elementwise) or traits.selects
    return operand.type.quantized and alone and (use.spec.name, name) not in _DOMAINS


def _codes(use: OperationUse, dims: Dims, operand: Operand, rng: np.random.Generator) -> Array:
    least, greatest = limits(operand.type)
    if use.spec.name in _SORTED:
        return (least + 3 * _distinct(dims, rng)).astype(operand.type.numpy)
    return rng.integers(least, greatest + 1, dims).astype(operand.type.numpy)


def _distinct(dims: Dims, rng: np.random.Generator) -> Array:
    """Whole numbers from 0 of which no two along any axis are equal."""
    count = max(dims, default=1)
    return np.asarray(rng.permutation(count)[np.indices(dims).sum(axis=0) % count])


def _real(use: OperationUse, named: Named, rng: np.random.Generator) -> Array:
    """Real numbers for an operand."""
    name, dims = named.name, named.dims
    special = _REALS.get(name)
    if special is not None:
        return special(named, rng).astype(np.float32)
    if use.spec.name in _SORTED and name in ("input", "scores"):
        order = _distinct(dims, rng) if name == "input" else rng.permutation(int(np.prod(dims)))
        return (order.reshape(dims) * 0.5 / 16 if name == "scores" else order - 2.0).astype(
            np.float32
        )
    low, high = _DOMAINS.get((use.spec.name, name), (_LOW, _HIGH))
    if name.endswith(_POSITIVE):
        low = 0.1
    elif any(kind in use.spec.name for kind in _RECURRENT):
        low, high = low / 8, high / 8
    numbers = rng.uniform(low, high, dims)
    if low <= 0:
        numbers[rng.random(dims) < _ZERO_SHARE] = 0
    if named.operand.type is _INT32:
        return rng.integers(1 if low > 0 else -20, 20, dims)
    return numbers.astype(np.float32)


def _boxes(named: Named, rng: np.random.Generator) -> Array:
    """Corners (x1, y1, x2, y2) in multiples of an eighth, within the image or one of 16 x 16."""
    whole = named.shapes[0]
    half = 4 * (min(whole[1:]) if len(whole) == 4 and named.name == "rois" else 16)
    first = rng.integers(0, half, (*named.dims[:-1], named.dims[-1] // 4, 2)) / 8
    sides = rng.integers(half // 4, half + 1, first.shape) / 8
    return np.concatenate([first, first + sides], axis=-1).reshape(named.dims)


_INDEXES: Mapping[str, Callable[[Named, np.random.Generator], Array]] = {
    "lookups": lambda named, rng: rng.integers(0, named.shapes[-1][0], named.dims),
    "indices": lambda named, rng: rng.integers(0, min(named.shapes[0]), named.dims),
    "batch_indices": lambda named, rng: np.sort(rng.integers(0, max(named.dims), named.dims)),
    "keys": lambda named, _: np.arange(named.dims[0]),
    "seeds": lambda named, rng: rng.integers(1, 1000, named.dims),
}
"""Contents of tensors of indexes that are no constants of the operation."""
_REALS: Mapping[str, Callable[[Named, np.random.Generator], Array]] = {
    **dict.fromkeys(_BOXES, _boxes),
    "deltas": lambda named, rng: rng.integers(-4, 5, named.dims) / 8,
    "image_info": lambda named, _: np.full(named.dims, 16.0),
}
"""Real numbers of operands of detections."""
