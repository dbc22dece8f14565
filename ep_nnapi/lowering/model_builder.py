"""Builder of the NNAPI model and the border of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import prod
from operator import is_
from typing import Literal

import numpy as np

from ep_nnapi.graph.value import Constant, DType, Quantization, Recipe, Value, operand_shape
from ep_nnapi.lowering.arguments import Arg, View, operand_code
from ep_nnapi.lowering.border import Border, Crossing
from ep_nnapi.lowering.call import Call, Whole
from ep_nnapi.lowering.composites import CompositeFinder, Operators
from ep_nnapi.lowering.fusion import fuse_activations, fuse_biases, needed
from ep_nnapi.lowering.hard_swish import fuse_hard_swish
from ep_nnapi.lowering.layout_rules import Perm, preserves_order
from ep_nnapi.lowering.layouts import assign_layouts
from ep_nnapi.lowering.permutes import BoundaryValue, Permute, PermuteInserter, UnsupportedPermute
from ep_nnapi.lowering.reshapes import delay_reshapes
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.errors import SpecError
from ep_nnapi.nnapi.expressions import Symbols
from ep_nnapi.nnapi.immutable import immutable, replace
from ep_nnapi.nnapi.model import (
    ChannelQuantization,
    CompositePort,
    Data,
    Model,
    Omitted,
    Operand,
    Operation,
)
from ep_nnapi.nnapi.signature import Match
from ep_nnapi.nnapi.sizes import Size, typical
from ep_nnapi.nnapi.spec import TRANSPOSE
from ep_nnapi.options.target import Target

_LARGE = 1 << 16
"""Bytes of a constant from which on it is not transposed before a device needs it."""
_FEW = 4096
"""Elements of constants that composites keep in any case."""


@immutable
class Lowered:
    """One cluster ready to compile; `permutes` are those inside, by index of their operation.

    symbols  where each symbol of its sizes is read, as inputs and axes, which must all agree; the
             symbol `name[i]` of `Model.contents` is element i of that input instead
    ranges   least and greatest of what INT64 inputs must have as contents
    inner   the same cluster `with_inner_transposes`, for devices that cancel them; None if there is
            no such device, or no permutation that can be moved
    expand  returns the same cluster with the members of operators that are whole in the model; None
            if none is
    """

    model: Model
    border: Border
    permutes: Mapping[int, Permute] = field(default_factory=dict)
    symbols: Mapping[str, tuple[tuple[str, int], ...]] = field(default_factory=dict)
    ranges: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    inner: Lowered | None = field(default=None, repr=False, compare=False)
    expand: Callable[[], Lowered] | None = field(default=None, repr=False, compare=False)

    @property
    def members(self) -> Lowered:
        """The cluster as NNAPI has it: with all members of its operators."""
        return self if self.expand is None else self.expand()

    def bind(self, symbols: Symbols) -> Lowered:
        """The cluster with numbers for its sizes; raises ValueError as `Model.bind`."""
        return Lowered(self.model.bind(symbols), self.border.with_sizes(symbols), self.permutes)


def lower(
    calls: Sequence[Call],
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    target: Target,
    *,
    declined: Collection[Permute] = (),
) -> Lowered:
    """Returns the NNAPI model of a cluster with its border.

    calls     calls of all its nodes, in topological order
    inputs    inputs of the cluster, without constants
    outputs   outputs of the cluster
    declined  permutes that the device declines; default: none
    Raises UnsupportedPermute if a permute inside is declined or not supported at the feature level.
    """
    leaving = {v.name for v in outputs}
    moved = delay_reshapes(needed(calls, leaving), leaving, target.feature_level)
    fused = fuse_activations(fuse_biases(moved, leaving), leaving, target.kernel_level)
    fused = fuse_hard_swish(fused, leaving, target.feature_level)
    choices = [assign_layouts(fused, leaving, target.feature_level)]
    if any(c.spec is TRANSPOSE for c in fused) and not all(map(is_, choices[0], fused)):
        # they add layouts that the minimum cut does not model, so ONNX's layouts may be better
        choices.append(fused)
    found, unsupported = [], []
    for choice in choices:
        inserter = PermuteInserter(inputs, target.feature_level, declined)
        try:
            found.append(_with_permutes(choice, inserter, outputs))
        except UnsupportedPermute as error:
            unsupported.append(error)
    if not found:
        raise unsupported[0]
    _, inserter, leaving_values = min(found, key=lambda permuted: permuted[0])
    return _write(inserter, leaving_values, target, Operators.of(calls))


def _with_permutes(
    calls: Sequence[Call], inserter: PermuteInserter, outputs: Sequence[Value]
) -> tuple[int, PermuteInserter, Sequence[BoundaryValue]]:
    """Inserts all permutes; returns the number of elements that are permuted, and the outputs."""
    for call in calls:
        inserter.add(call)
    leaving = [inserter.boundary_output(v) for v in outputs]
    permuted = [c.writes[0] for c in inserter.calls if c.spec is TRANSPOSE]
    for end in (*inserter.boundary_inputs, *leaving):
        if end.perm and not preserves_order(end.value.shape, end.perm):
            permuted.append(end.value)
    return sum(typical(value.size) for value in permuted), inserter, leaving


def _write(
    inserter: PermuteInserter,
    boundary_outputs: Sequence[BoundaryValue],
    target: Target,
    operators: Operators,
) -> Lowered:
    writer = _OperandWriter(target.feature_level)
    model_inputs = tuple(writer.operand(e.inside) for e in inserter.boundary_inputs)
    operations = tuple([writer.operation(c) for c in inserter.calls])
    model_outputs = tuple(dict.fromkeys(writer.operand(e.inside) for e in boundary_outputs))
    positions = {operand: i for i, operand in enumerate(model_outputs)}
    ports = partial(writer.ports, inserter)
    composites = CompositeFinder(operators, operations, model_outputs, ports).found()
    operands = tuple(writer.operands)
    ends, checked = (model_inputs, model_outputs), True  # as calls
    model = Model(operands, operations, *ends, target.relaxed, composites, checked=checked)
    model.set_matches([c.match(target.feature_level) for c in inserter.calls])
    border = Border(
        tuple(_crossing(e, i) for i, e in enumerate(inserter.boundary_inputs)),
        tuple(_crossing(e, positions[writer.operand(e.inside)]) for e in boundary_outputs),
    )
    return Lowered(model, border, inserter.permutes)


def _crossing(boundary: BoundaryValue, position: int) -> Crossing:
    value, inside = boundary.value, boundary.inside
    dtype = _code(inside).numpy
    dims, perm = operand_shape(inside.shape), boundary.perm
    limit = value.limit
    return Crossing(value.name, value.dtype, value.shape, position, perm, dims, dtype, limit)


@dataclass
class _OperandWriter:
    """Assigns operand indexes; equal constants share one operand."""

    feature_level: int
    operands: list[Operand] = field(default_factory=list)
    _values: dict[str, int] = field(default_factory=dict)
    _constants: dict[Operand, int] = field(default_factory=dict)
    _scalars: dict[tuple[OperandCode, object], int] = field(default_factory=dict)
    _tensors: dict[tuple[object, ...], int] = field(default_factory=dict)
    _sources: dict[int, Array] = field(default_factory=dict)

    def operation(self, call: Call) -> Operation:
        """Returns the operation for a call, with operands by index."""
        match = call.match(self.feature_level)
        inputs = [self._input(i, a, match) for i, a in enumerate(call.inputs)]
        outputs = [self.operand(o) for o in call.outputs if isinstance(o, Value)]
        return Operation(call.spec, tuple(inputs), tuple(outputs), call.origin)

    def operand(self, value: Value) -> int:
        """Returns the index of the operand for `value`, which is computed at run time."""
        index = self._values.get(value.name)
        if index is None:
            index = self._values[value.name] = self._add(_operand(value, value.shape))
        return index

    def ports(
        self, inserter: PermuteInserter, value: Value, whole: Whole
    ) -> Iterator[CompositePort]:
        """Yields the operands that are an operator's value, or a constant of its own."""
        if value.dims is None:
            return
        as_onnx = tuple(range(value.rank))
        if whole.keeps and value.constant:
            value = _kept(value, value.constant)
        if value.constant is None:
            for inside, perm in inserter.stored(value):
                if inside.name in self._values:
                    yield CompositePort(self._values[inside.name], perm, value.shape)
        elif (key := _key(value, value.constant, None)) in self._tensors:
            yield CompositePort(self._tensors[key], as_onnx, value.shape)
        elif operand_code(value) is not None and (whole.keeps or value.size <= _FEW):
            yield CompositePort(self._loaded(value, value.constant, None), as_onnx, value.shape)

    def _input(self, position: int, arg: Arg, match: Match) -> int:
        if isinstance(arg, Value) and arg.constant is None:
            return self.operand(arg)
        if isinstance(arg, Value):
            return self._constant(arg, None)
        if isinstance(arg, View):
            return self._constant(arg.value, arg.perm)
        code = match.typing.code(match.inputs[position].type)
        if code is None:
            raise SpecError(f"operand {position} has no type of its own")
        key = code, _scalar_key(arg)
        if key not in self._scalars:
            data = Omitted.NO_VALUE if arg is None else _scalar(arg, code)
            self._scalars[key] = self._interned(Operand(code, value=data))
        return self._scalars[key]

    def _constant(self, value: Value, perm: Perm | None) -> int:
        if value.constant is None:
            raise SpecError(f"{value.name} has no layout")
        key = _key(value, value.constant, perm)
        if key not in self._tensors:
            self._tensors[key] = self._interned(self._loaded(value, value.constant, perm))
        return self._tensors[key]

    def _loaded(self, value: Value, given: Constant, perm: Perm | None) -> Operand:
        """Returns the operand for a constant in the layout `perm`, with its data."""
        constant = given.transposed(perm) if perm is not None else given
        code = _code(value)
        if constant.numbers:
            data = Data.of_sizes(constant.numbers, code.numpy)
            return _operand(value, constant.shape, perm, data)
        if constant.recipe:
            return _operand(value, constant.shape, perm, self._later(constant, constant.recipe))
        copied = self._sources.get(id(given))
        array = constant.array if copied is None else copied
        order: Literal["K", "C"] = "K" if array.nbytes > _LARGE else "C"
        if constant.owned or copied is not None:
            array = np.asarray(array, code.numpy, order=order)
        else:  # ONNX Runtime may free that memory
            array = np.array(array, code.numpy, order=order)
        data = Data.of(array) if array.flags.c_contiguous else Data(array)
        return _operand(value, constant.shape, perm, data)

    def _later(self, constant: Constant, recipe: Recipe) -> Data:
        """Returns the data of a constant that is made when it is read, from copies of its sources.

        A composite that keeps these has the same copies. What lives as long is not copied.
        """
        for source in recipe.sources:  # which the calls keep alive
            if id(source) not in self._sources:
                array = source.array
                self._sources[id(source)] = array if source.owned else np.array(array)
        arrays = [self._sources[id(source)] for source in recipe.sources]
        size = prod(constant.shape) * constant.dtype.numpy.itemsize
        return Data(lambda: recipe.of(arrays), later=size)

    def _interned(self, operand: Operand) -> int:
        index = self._constants.setdefault(operand, len(self.operands))  # hashes it once
        return index if index < len(self.operands) else self._add(operand)

    def _add(self, operand: Operand) -> int:
        self.operands.append(operand)
        return len(self.operands) - 1


def _kept(value: Value, constant: Constant) -> Value:
    """Returns a constant of an operator, of which the calls have only what was made of it."""
    if value.dtype is DType.INT64 and value.size <= _FEW:  # such as axes
        return replace(value, dtype=DType.INT32, constant=constant.cast(DType.INT32))
    if value.dtype in (DType.UINT8, DType.INT8) and value.quantization is None:  # as weights
        return replace(value, quantization=Quantization((1.0,), (0,)))
    return value


def _key(value: Value, constant: Constant, perm: Perm | None) -> tuple[object, ...]:
    # the calls keep the constant alive, so its id is unique
    return id(constant), value.dtype, value.quantization, perm


def _scalar_key(arg: Arg) -> object:
    """What differs for other scalars: 0.0 and -0.0 are equal, and so are sizes and numbers."""
    if isinstance(arg, Size):
        return arg.expression
    return repr(arg) if isinstance(arg, float) else arg


def _scalar(arg: float, code: OperandCode) -> Data:
    if isinstance(arg, Size):
        return Data.of_sizes((arg,), code.numpy)
    return Data.of_number(arg, code.numpy)


def _code(value: Value) -> OperandCode:
    code = operand_code(value)
    if code is None:
        raise SpecError(f"{value.name} has no NNAPI type")
    return code


def _operand(
    value: Value, shape: Sequence[int], perm: Perm | None = None, data: Data | None = None
) -> Operand:
    """Returns the operand for `value`, with its quantization parameters."""
    code, q = _code(value), value.quantization
    dims = operand_shape(shape)
    if q is None:
        return Operand(code, dims, value=data)
    if code is OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL:
        return Operand(code, dims, channels=_channels(q, perm), value=data)
    return Operand(code, dims, q.scale[0], q.zero_point[0], value=data)


def _channels(q: Quantization, perm: Sequence[int] | None) -> ChannelQuantization:
    axis = q.axis or 0
    return ChannelQuantization(list(perm).index(axis) if perm else axis, q.scale)
