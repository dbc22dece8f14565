"""Layout assignment: chooses NHWC tensors in a cluster so that the fewest bytes are transposed.

Convolutions and pools require NHWC; reshapes and matrix products require ONNX's layout.
Element-wise operations, concatenations, pads and reductions work in either (`permuted_call`). Their
layout is chosen by a minimum cut between the two groups. A transposed tensor costs its size once,
however many nodes read it (Greig, Porteous and Seheult 1989, the exact binary case).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TypeAlias, TypeVar

import networkx as nx

from ep_nnapi.graph.value import Value
from ep_nnapi.lowering.arguments import NHWC, View
from ep_nnapi.lowering.call import Call
from ep_nnapi.lowering.layout_rules import (
    flatten_nhwc,
    inverse,
    permutation,
    permuted_call,
    preserves_order,
)
from ep_nnapi.nnapi.sizes import typical
from ep_nnapi.nnapi.spec import FULLY_CONNECTED, RESHAPE, TRANSPOSE

_NHWC, _AS_ONNX = "NHWC", "as ONNX"  # the terminals of the cut
_CutNode: TypeAlias = int | str | tuple[str, str]
_Node = TypeVar("_Node", bound=Hashable)


@dataclass
class _TensorUses:
    """A rank-4 value: cost of transposing it, writer and readers (None: outside the cluster)."""

    cost: int
    writer: int | None = None
    readers: list[int | None] = field(default_factory=list)


def assign_layouts(
    calls: Sequence[Call], outputs: Collection[str], feature_level: int
) -> list[Call]:
    """Returns the calls; those that cost less in NHWC are rewritten to take views in NHWC.

    outputs   names of the cluster's outputs
    Guarantee: if the model has no transposes of its own, no other choice transposes fewer bytes,
    counting each tensor once. A tensor at the border costs slightly less than one inside. On a tie
    an input of the cluster enters in one layout, and else ONNX's layout is used. Complexity: one
    minimum cut for each connected region of calls that work in either layout; regions end at
    convolutions, so they are small.
    """
    if not any(c.spec is TRANSPOSE or _has_views(c) for c in calls):
        return list(calls)
    tensors = _tensors(calls, outputs)
    rewrites = _nhwc_rewrites(calls, tensors, outputs, feature_level)
    result = list(calls)
    for region in _regions(tensors, rewrites):
        for chosen in sorted(_nhwc_calls(region, tensors, calls, rewrites)):
            for i, call in rewrites[chosen].items():
                result[i] = call
    return result


def _has_views(call: Call) -> bool:
    return View in map(type, (*call.inputs, *call.outputs))


def _tensors(calls: Sequence[Call], outputs: Collection[str]) -> dict[str, _TensorUses]:
    tensors: dict[str, _TensorUses] = {}
    costs: dict[int, int] = {}
    for i, call in enumerate(calls):
        for value in call.reads:
            if len(value.shape) == len(NHWC):
                _uses_of(value, tensors, costs).readers.append(i)
        for value in call.writes:
            if len(value.shape) == len(NHWC):
                _uses_of(value, tensors, costs).writer = i
    for name in outputs:
        if name in tensors:
            tensors[name].readers.append(None)
    return tensors


def _uses_of(value: Value, tensors: dict[str, _TensorUses], costs: dict[int, int]) -> _TensorUses:
    """Returns the uses of a value so far; `costs` by identity of dimensions, which many share."""
    found = tensors.get(value.name)
    if found is None:
        cost = costs.get(id(value.dims))
        if cost is None:
            stays, shape = preserves_order(value.shape, NHWC), value.shape
            cost = costs[id(value.dims)] = 1 if stays else 2 * prod(map(typical, shape))
        found = tensors[value.name] = _TensorUses(cost)
    return found


def _nhwc_rewrites(
    calls: Sequence[Call],
    tensors: Mapping[str, _TensorUses],
    outputs: Collection[str],
    feature_level: int,
) -> dict[int, dict[int, Call]]:
    """Returns for each call that can work in NHWC the rewritten calls, itself first."""
    found = {}
    for i, call in enumerate(calls):
        if not any(v.name in tensors for v in (*call.reads, *call.writes)) or _has_views(call):
            continue
        candidate = permuted_call(call, NHWC)
        if candidate is not None and candidate.is_supported(feature_level):
            found[i] = {i: candidate}
    found.update(_flattened(calls, tensors, outputs))
    return found


def _flattened(
    calls: Sequence[Call], tensors: Mapping[str, _TensorUses], outputs: Collection[str]
) -> Iterator[tuple[int, dict[int, Call]]]:
    """Yields rewrites of RESHAPE [N, C, H, W] -> [N, C H W] read only by a FULLY_CONNECTED.

    The weights of that layer must be constants that can be reordered.
    """
    readers: defaultdict[str, list[int]] = defaultdict(list)
    for i, call in enumerate(calls):
        for value in call.reads:
            readers[value.name].append(i)
    for i, call in enumerate(calls):
        if call.spec is not RESHAPE or all(v.name not in tensors for v in call.reads):
            continue
        flat = call.writes[0].name
        after = readers[flat] if flat not in outputs else []
        if len(after) == 1 and calls[after[0]].spec is FULLY_CONNECTED:
            pair = flatten_nhwc(call, calls[after[0]])
            if pair is not None:
                yield i, {i: pair[0], after[0]: pair[1]}


def _regions(
    tensors: Mapping[str, _TensorUses], rewrites: Mapping[int, Mapping[int, Call]]
) -> Iterator[list[str]]:
    """Yields groups of tensors that are connected by calls that work in either layout."""
    around: defaultdict[str | int, list[str | int]] = defaultdict(list)
    for name, tensor in tensors.items():
        for end in (tensor.writer, *tensor.readers):
            if end is not None and end in rewrites:
                around[name].append(end)
                around[end].append(name)
    left = dict(around)
    for start in around:
        part = _reached(start, left)
        if part:
            yield sorted(n for n in part if isinstance(n, str))
            for n in part:
                del left[n]


def _nhwc_calls(
    region: Sequence[str],
    tensors: Mapping[str, _TensorUses],
    calls: Sequence[Call],
    rewrites: Mapping[int, Mapping[int, Call]],
) -> set[int]:
    """Returns the calls of the region that should work in NHWC."""
    edges: list[tuple[_CutNode, _CutNode, dict[str, int]]] = []
    entrances: list[tuple[_CutNode, _CutNode]] = []
    for name in region:
        tensor = tensors[name]
        writer = _cut_node(tensor.writer, name, calls, rewrites)
        entering, leaving = tensor.writer is None, None in tensor.readers
        # one auxiliary node per direction: the tensor costs once, however many readers it has
        edges.append((writer, ("is ONNX", name), {"capacity": 8 * tensor.cost - entering}))
        edges.append((("is NHWC", name), writer, {"capacity": 8 * tensor.cost - leaving}))
        for reader in tensor.readers:
            if reader is not None and tensor.cost == 1 and calls[reader].spec is RESHAPE:
                continue  # it takes either layout, as no element moves
            end = _cut_node(reader, name, calls, rewrites)
            edges.append((("is ONNX", name), end, {}))
            edges.append((end, ("is NHWC", name), {}))
            if entering:
                entrances.append((end, ("enters as ONNX", name)))
    before: defaultdict[_CutNode, list[_CutNode]] = defaultdict(list)
    for start, to, _ in edges:
        before[to].append(start)
    if _NHWC in before and any(start == _AS_ONNX for start, *_ in edges):
        graph = nx.DiGraph(edges)
        graph.add_edges_from(entrances)
        graph.add_edges_from(((entrance, _NHWC) for _, entrance in entrances), capacity=1)
        _, (_, nhwc) = nx.minimum_cut(graph, _AS_ONNX, _NHWC)
    else:  # nothing has to be cut; searching for it would take a millisecond
        nhwc = _reached(_NHWC, before)
    return {n for n in nhwc if isinstance(n, int)}


def _reached(start: _Node, following: Mapping[_Node, Sequence[_Node]]) -> set[_Node]:
    """Returns the node and all that follow it, directly or not; none if nothing is known of it."""
    found = {start} if start in following else set[_Node]()
    waiting = [*found]
    while waiting:
        new = {*following.get(waiting.pop(), ())} - found
        found |= new
        waiting += new
    return found


def _cut_node(
    call: int | None,
    name: str,
    calls: Sequence[Call],
    rewrites: Mapping[int, Mapping[int, Call]],
) -> int | str:
    """Returns the cut's node for a tensor's writer or reader: its number if free, or a terminal."""
    if call is None:
        return _AS_ONNX
    if call in rewrites:
        return call
    args = (*calls[call].inputs, *calls[call].outputs)
    views = [a for a in args if isinstance(a, View) and a.value.name == name]
    if any(v.perm == NHWC for v in views) or _transposes(calls[call], name):
        return _NHWC
    return _AS_ONNX


def _transposes(call: Call, name: str) -> bool:
    """Returns True if `call` is a TRANSPOSE that costs nothing when tensor `name` is NHWC."""
    if call.spec is not TRANSPOSE or not call.reads:
        return False
    perm = permutation(call)
    return perm == (NHWC if call.reads[0].name == name else inverse(NHWC))
