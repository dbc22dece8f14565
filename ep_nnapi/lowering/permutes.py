"""Insertion of the permutes between the layouts of a cluster's values.

Converts calls whose operands request layouts (`View`) to calls on plain values, with one value for
each layout and a TRANSPOSE between them only where it cannot be avoided. The model's own
transposes are absorbed: a transposed value is another layout of its source.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from ep_nnapi.graph.value import Constant, DType, Value
from ep_nnapi.lowering.arguments import Arg, View
from ep_nnapi.lowering.call import Call, apply
from ep_nnapi.lowering.layout_rules import Perm, identity, inverse, permutation, preserves_order
from ep_nnapi.nnapi.errors import Reason, Reject
from ep_nnapi.nnapi.immutable import frozen, immutable, replace
from ep_nnapi.nnapi.spec import RESHAPE, TRANSPOSE

Permute: TypeAlias = tuple[str, Perm]
"""A permute inside a cluster: name of the value, and the layout it is permuted to."""


class UnsupportedPermute(Exception):
    """A permute inside the cluster is not supported, so its nodes cannot be in one cluster.

    nodes    names of the nodes that need the permuted value
    writers  names of the nodes that compute the value
    reason   why the permute is not supported; `detail` is the message
    """

    def __init__(
        self, nodes: Sequence[str], writers: Sequence[str], reason: Reason, detail: str
    ) -> None:
        super().__init__(detail)
        self.nodes = tuple(nodes)
        self.writers = tuple(writers)
        self.reason = reason
        self.detail = detail


@immutable
class BoundaryValue:
    """An input or output of a cluster, and the plain value inside, permuted by `perm`."""

    value: Value
    inside: Value
    perm: Perm | None


@frozen
class _Transposed:
    """A value that is `source` permuted by the model's own transposes."""

    source: Value
    perm: Perm
    origin: tuple[str, ...]


@dataclass
class PermuteInserter:
    """Builds the plain calls of one cluster and tracks the layouts of each value.

    inputs    inputs of the cluster
    declined  permutes that the device declines
    calls     the calls so far, with inserted permutes
    boundary_inputs  the inputs in use, one entry for each layout
    permutes  the inserted permutes by their index in `calls`
    """

    inputs: Sequence[Value]
    feature_level: int
    declined: Collection[Permute] = ()
    calls: list[Call] = field(default_factory=list)
    boundary_inputs: list[BoundaryValue] = field(default_factory=list)
    permutes: dict[int, Permute] = field(default_factory=dict)
    _writers: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _layouts: dict[str, dict[Perm, Value]] = field(default_factory=dict)
    _transposed: dict[str, _Transposed] = field(default_factory=dict)
    _copies: dict[str, Value] = field(default_factory=dict)
    _inputs: dict[str, Value] = field(init=False)

    def __post_init__(self) -> None:
        self._inputs = {v.name: v for v in self.inputs}

    def add(self, call: Call) -> None:
        """Adds a call after the permutes that its operands need; raises UnsupportedPermute."""
        if call.spec is TRANSPOSE and call.reads:
            self._absorb(call)
            return
        reshape = call.spec is RESHAPE
        inputs = tuple([self._operand(a, call.origin, any_layout=reshape) for a in call.inputs])
        outputs = tuple([self._produced(o) for o in call.outputs])
        self._writers.update([(v.name, call.origin) for v in call.writes])
        pairs = zip((*inputs, *outputs), (*call.inputs, *call.outputs), strict=True)
        if not all(new is old for new, old in pairs):
            call = call.with_operands(inputs, outputs)
        self.calls.append(call)

    def stored(self, value: Value) -> Iterator[tuple[Value, Perm]]:
        """Yields the forms of a value with their layouts; first the value as it is, if stored."""
        known = self._transposed.get(value.name)
        layouts = self._layouts.get(known.source.name if known else value.name, {})
        for plain in list(layouts)[:1]:
            perm = known.perm if known else tuple(range(len(plain)))
            first = [(perm, layouts[perm])] if perm in layouts else []
            for layout, inside in (*first, *layouts.items()):
                yield inside, tuple(perm.index(axis) for axis in layout)

    def boundary_output(self, value: Value) -> BoundaryValue:
        """Returns how the cluster's output `value` leaves the model."""
        transposed = self._transposed.get(value.name)
        if transposed is not None:
            return self._transposed_output(value, transposed)
        layouts = self._layouts[value.name]
        as_onnx = identity(value.rank)
        if as_onnx in layouts:
            return BoundaryValue(value, layouts[as_onnx], None)
        perm, inside = next(iter(layouts.items()))
        return BoundaryValue(value, inside, perm)

    def _transposed_output(self, value: Value, transposed: _Transposed) -> BoundaryValue:
        """Returns a transposed output: permuted by NNAPI if possible, else on the host.

        The output must not also be a model input, so an input is copied first.
        """
        perm = None
        try:
            inside = self._in_layout(
                transposed.source, transposed.perm, transposed.origin, permutes=True
            )
        except UnsupportedPermute:
            layout, inside = next(iter(self._layouts[transposed.source.name].items()))
            perm = _between(transposed.perm, layout)
        if any(e.inside.name == inside.name for e in self.boundary_inputs):
            inside = self._copy(inside, transposed.origin)
        return BoundaryValue(value, inside, perm)

    def _absorb(self, transpose: Call) -> None:
        source, perm = transpose.reads[0], permutation(transpose)
        earlier = self._transposed.get(source.name)
        origin = transpose.origin
        if earlier is not None:
            source, perm = earlier.source, tuple(earlier.perm[p] for p in perm)
            origin = earlier.origin + origin
        self._transposed[transpose.writes[0].name] = _Transposed(source, perm, origin)

    def _operand(self, arg: Arg, origin: Sequence[str], *, any_layout: bool) -> Arg:
        if not isinstance(arg, (Value, View)):
            return arg
        value = arg.value if isinstance(arg, View) else arg
        if value.constant is not None:
            return arg
        perm = arg.perm if isinstance(arg, View) else identity(value.rank)
        transposed = self._transposed.get(value.name)
        if transposed is not None:
            wanted = tuple(transposed.perm[p] for p in perm)
            origins = (*transposed.origin, *origin)
            return self._in_layout(transposed.source, wanted, origins, permutes=True)
        if any_layout:
            for layout, stored in self._layouts.get(value.name, {}).items():
                if preserves_order(stored.shape, _between(layout, perm)):
                    return stored
        return self._in_layout(value, perm, origin, permutes=False)

    def _produced(self, out: Value | View) -> Value:
        if isinstance(out, View):
            plain = _plain(out.value, out.perm)
            self._layouts[out.value.name] = {out.perm: plain}
            return plain
        self._layouts[out.name] = {identity(out.rank): out}
        return out

    def _in_layout(
        self, value: Value, perm: Perm, origin: Sequence[str], *, permutes: bool
    ) -> Value:
        """Returns `value` in the layout `perm`, permuted if needed; raises UnsupportedPermute.

        permutes   True if the ONNX model transposes here, so that NNAPI should do it
        An input of the cluster is permuted at the border if `permutes` is False or NNAPI cannot.
        """
        layouts = self._layouts.setdefault(value.name, {})
        if perm in layouts:
            return layouts[perm]
        outside = value.name in self._inputs
        as_onnx = identity(value.rank)
        if outside and (not permutes or perm == as_onnx):
            layouts[perm] = self._boundary_input(value, perm)
            return layouts[perm]
        entered = {as_onnx: value} if outside and not layouts else {}
        try:
            stored = self._permute(value, entered or layouts, perm, origin)
        except Reject as reject:
            if not outside:
                writers = self._writers.get(value.name, ())
                detail = f"permute inside: {reject.detail}"
                raise UnsupportedPermute(origin, writers, reject.reason, detail) from None
            stored = self._boundary_input(value, perm)
        else:
            layouts.update((p, self._boundary_input(value, p)) for p in entered)
        layouts[perm] = stored
        return stored

    def _boundary_input(self, value: Value, perm: Perm) -> Value:
        inside = _plain(value, perm)
        as_onnx = perm == identity(value.rank)
        outside = self._inputs[value.name]  # its type may differ
        self.boundary_inputs.append(BoundaryValue(outside, inside, None if as_onnx else perm))
        return inside

    def _permute(
        self, value: Value, layouts: dict[Perm, Value], perm: Perm, origin: Sequence[str]
    ) -> Value:
        layout, source = next(iter(layouts.items()))
        axes = _between(layout, perm)
        out = _plain(value, perm)
        if preserves_order(source.shape, axes):
            call = apply(RESHAPE, source, shape=_ints(out.shape), out=out)
        else:
            call = apply(TRANSPOSE, source, perm=_ints(axes), out=out)
        call.match(self.feature_level)
        if (value.name, perm) in self.declined:
            raise Reject(Reason.DRIVER, f"the device declines {call.spec.name}")
        self.permutes[len(self.calls)] = (value.name, perm)
        self.calls.append(replace(call, origin=tuple(dict.fromkeys(origin))))
        return out

    def _copy(self, value: Value, origin: Sequence[str]) -> Value:
        """Returns a copy of `value`: NNAPI requires that no output is also a model input."""
        if value.name not in self._copies:
            out = replace(value, name=f"{value.name} copied")
            call = apply(RESHAPE, value, shape=_ints(value.shape), out=out)
            self.calls.append(replace(call, origin=tuple(origin)))
            self._copies[value.name] = out
        return self._copies[value.name]


def _between(layout: Perm, wanted: Perm) -> Perm:
    """Returns the permutation from `layout` to the layout `wanted`."""
    back = inverse(layout)
    return tuple(back[p] for p in wanted)


def _plain(value: Value, perm: Perm) -> Value:
    """Returns the value for `value` in the layout `perm`."""
    if perm == identity(value.rank):
        return value
    shape = value.shape
    dims = tuple([shape[p] for p in perm])
    return replace(value, name=f"{value.name} permuted {perm}", dims=dims)


def _ints(numbers: Sequence[int]) -> Constant:
    return Constant.of_sizes(numbers, (len(numbers),), DType.INT32)
