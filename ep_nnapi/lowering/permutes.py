"""Insertion of the permutes between the layouts of a cluster's values.

Converts calls whose operands request layouts (`View`) to calls on plain values, with one value for
each layout and a TRANSPOSE between them only where it cannot be avoided. The model's own
transposes are absorbed: a transposed value is another layout of its source.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from ep_nnapi.errors import Reason, Reject
from ep_nnapi.graph.value import Constant, Value
from ep_nnapi.lowering.fusion import reads, writes
from ep_nnapi.lowering.layout_rules import Perm, inverse, keeps_order, permutation
from ep_nnapi.nnapi.call import Arg, Call, View
from ep_nnapi.nnapi.spec import RESHAPE, TRANSPOSE

Permute: TypeAlias = tuple[str, Perm]
"""A permute inside a cluster: name of the value, and the layout it is permuted to."""


class Peel(Exception):
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


@dataclass(frozen=True, slots=True)
class Edge:
    """An input or output of a cluster, and the plain value inside, permuted by `perm`."""

    value: Value
    inside: Value
    perm: Perm | None


@dataclass(frozen=True, slots=True)
class _Moved:
    """A value that is `source` permuted by the model's own transposes."""

    source: Value
    perm: Perm
    origin: tuple[str, ...]


@dataclass
class Forms:
    """Builds the plain calls of one cluster and tracks the layouts of each value.

    inputs    inputs of the cluster
    refused   permutes that the device declines
    calls     the calls so far, with inserted permutes
    entering  the edges of the inputs in use, one for each layout
    permutes  the inserted permutes by their index in `calls`
    """

    inputs: Sequence[Value]
    feature_level: int
    refused: Collection[Permute] = ()
    calls: list[Call] = field(default_factory=list)
    entering: list[Edge] = field(default_factory=list)
    permutes: dict[int, Permute] = field(default_factory=dict)
    _writers: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _made: dict[str, dict[Perm, Value]] = field(default_factory=dict)
    _moved: dict[str, _Moved] = field(default_factory=dict)
    _copies: dict[str, Value] = field(default_factory=dict)

    def place(self, call: Call) -> None:
        """Adds a call, preceded by the permutes that its operands need; raises Peel."""
        if call.spec == TRANSPOSE and reads(call):
            self._move(call)
            return
        either = call.spec == RESHAPE
        inputs = tuple(self._operand(a, call.origin, either=either) for a in call.inputs)
        outputs = tuple(self._made_now(o) for o in call.outputs)
        self._writers.update((v.name, call.origin) for v in writes(call))
        self.calls.append(replace(call, inputs=inputs, outputs=outputs))

    def leave(self, value: Value) -> Edge:
        """Returns the edge of the cluster's output `value`."""
        moved = self._moved.get(value.name)
        if moved is not None:
            return self._leave_moved(value, moved)
        forms = self._made[value.name]
        as_onnx = tuple(range(value.rank))
        if as_onnx in forms:
            return Edge(value, forms[as_onnx], None)
        perm, inside = next(iter(forms.items()))
        return Edge(value, inside, perm)

    def _leave_moved(self, value: Value, moved: _Moved) -> Edge:
        """Returns the edge of a transposed output: permuted by NNAPI if possible, else on the host.

        The output must not also be a model input, so an input is copied first.
        """
        perm = None
        try:
            inside = self._form(moved.source, moved.perm, moved.origin, permutes=True)
        except Peel:
            made, inside = next(iter(self._made[moved.source.name].items()))
            perm = _between(moved.perm, made)
        if any(e.inside.name == inside.name for e in self.entering):
            inside = self._copy(inside, moved.origin)
        return Edge(value, inside, perm)

    def _move(self, transpose: Call) -> None:
        source, perm = reads(transpose)[0], permutation(transpose)
        before = self._moved.get(source.name)
        origin = transpose.origin
        if before is not None:
            source, perm = before.source, tuple(before.perm[p] for p in perm)
            origin = before.origin + origin
        out = transpose.outputs[0]
        self._moved[(out.value if isinstance(out, View) else out).name] = _Moved(
            source, perm, origin
        )

    def _operand(self, arg: Arg, origin: Sequence[str], *, either: bool) -> Arg:
        value = arg.value if isinstance(arg, View) else arg
        if not isinstance(value, Value) or value.constant is not None:
            return arg
        perm = arg.perm if isinstance(arg, View) else tuple(range(value.rank))
        moved = self._moved.get(value.name)
        if moved is not None:
            wanted = tuple(moved.perm[p] for p in perm)
            by_hand = (*moved.origin, *origin)
            return self._form(moved.source, wanted, by_hand, permutes=True)
        if either:
            for made, form in self._made.get(value.name, {}).items():
                if keeps_order(form.shape, _between(made, perm)):
                    return form
        return self._form(value, perm, origin, permutes=False)

    def _made_now(self, out: Value | View) -> Value:
        if isinstance(out, View):
            plain = _plain(out.value, out.perm)
            self._made[out.value.name] = {out.perm: plain}
            return plain
        self._made[out.name] = {tuple(range(out.rank)): out}
        return out

    def _form(self, value: Value, perm: Perm, origin: Sequence[str], *, permutes: bool) -> Value:
        """Returns `value` in the layout `perm`, permuted if needed; raises Peel.

        permutes   True if the ONNX model transposes here, so that NNAPI should do it
        An input of the cluster is permuted at the border if `permutes` is False or NNAPI cannot.
        """
        forms = self._made.setdefault(value.name, {})
        if perm in forms:
            return forms[perm]
        outside = any(value.name == v.name for v in self.inputs)
        as_onnx = tuple(range(value.rank))
        if outside and (not permutes or perm == as_onnx):
            forms[perm] = self._enter(value, perm)
            return forms[perm]
        entered = {as_onnx: value} if outside and not forms else {}
        try:
            made = self._permute(value, entered or forms, perm, origin)
        except Reject as reject:
            if not outside:
                writers = self._writers.get(value.name, ())
                detail = f"permute inside: {reject.detail}"
                raise Peel(origin, writers, reject.reason, detail) from None
            made = self._enter(value, perm)
        else:
            forms.update((p, self._enter(value, p)) for p in entered)
        forms[perm] = made
        return made

    def _enter(self, value: Value, perm: Perm) -> Value:
        inside = _plain(value, perm)
        as_onnx = perm == tuple(range(value.rank))
        outside = next(v for v in self.inputs if v.name == value.name)  # its type may differ
        self.entering.append(Edge(outside, inside, None if as_onnx else perm))
        return inside

    def _permute(
        self, value: Value, forms: dict[Perm, Value], perm: Perm, origin: Sequence[str]
    ) -> Value:
        made, source = next(iter(forms.items()))
        axes = _between(made, perm)
        out = _plain(value, perm)
        if keeps_order(source.shape, axes):
            call = RESHAPE(source, shape=_ints(out.shape), out=out)
        else:
            call = TRANSPOSE(source, perm=_ints(axes), out=out)
        call.match(self.feature_level)
        if (value.name, perm) in self.refused:
            raise Reject(Reason.DRIVER, f"the device declines {call.spec.name}")
        self.permutes[len(self.calls)] = (value.name, perm)
        self.calls.append(replace(call, origin=tuple(dict.fromkeys(origin))))
        return out

    def _copy(self, value: Value, origin: Sequence[str]) -> Value:
        """Returns a copy of `value`: NNAPI requires that no output is also a model input."""
        if value.name not in self._copies:
            out = replace(value, name=f"{value.name} copied")
            call = RESHAPE(value, shape=_ints(value.shape), out=out)
            self.calls.append(replace(call, origin=tuple(origin)))
            self._copies[value.name] = out
        return self._copies[value.name]


def _between(made: Perm, wanted: Perm) -> Perm:
    """Returns the permutation from layout `made` to layout `wanted`."""
    back = inverse(made)
    return tuple(back[p] for p in wanted)


def _plain(value: Value, perm: Perm) -> Value:
    """Returns the value for `value` in the layout `perm`."""
    if perm == tuple(range(value.rank)):
        return value
    shape = tuple(value.shape[p] for p in perm)
    return replace(value, name=f"{value.name} permuted {perm}", dims=shape)


def _ints(numbers: Sequence[int]) -> Constant:
    return Constant.of(np.array(numbers, np.int32))
