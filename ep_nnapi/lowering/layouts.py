"""Layout assignment: chooses NHWC tensors in a cluster so that the fewest bytes are transposed.

Convolutions and pools require NHWC; reshapes and matrix products require ONNX's layout.
Element-wise operations, concatenations, pads and reductions work in either (`permuted_call`). Their
layout is chosen by a minimum cut between the two groups. A transposed tensor costs its size once,
however many nodes read it (Greig, Porteous and Seheult 1989, the exact binary case).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import networkx as nx

from ep_nnapi.graph.value import Value
from ep_nnapi.lowering.call import NHWC, Call, View
from ep_nnapi.lowering.layout_rules import (
    flatten_nhwc,
    inverse,
    permutation,
    permuted_call,
    preserves_order,
)
from ep_nnapi.nnapi.errors import Reject
from ep_nnapi.nnapi.sizes import typical
from ep_nnapi.nnapi.spec import FULLY_CONNECTED, RESHAPE, TRANSPOSE

_NHWC, _AS_ONNX = "NHWC", "as ONNX"  # the terminals of the cut


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

    def tensor(value: Value) -> _TensorUses:
        if value.name not in tensors:
            cost = 1 if preserves_order(value.shape, NHWC) else 2 * typical(value.size)
            tensors[value.name] = _TensorUses(cost)
        return tensors[value.name]

    for i, call in enumerate(calls):
        for value in call.reads:
            if value.rank == len(NHWC):
                tensor(value).readers.append(i)
        for value in call.writes:
            if value.rank == len(NHWC):
                tensor(value).writer = i
    for name in outputs:
        if name in tensors:
            tensors[name].readers.append(None)
    return tensors


def _nhwc_rewrites(
    calls: Sequence[Call],
    tensors: Mapping[str, _TensorUses],
    outputs: Collection[str],
    feature_level: int,
) -> dict[int, dict[int, Call]]:
    """Returns for each call that can work in NHWC the rewritten calls, itself first."""
    found = {}
    for i, call in enumerate(calls):
        names = [v.name for v in (*call.reads, *call.writes)]
        if tensors.keys().isdisjoint(names) or _has_views(call):
            continue
        candidate = permuted_call(call, NHWC)
        if candidate is not None and _legal(candidate, feature_level):
            found[i] = {i: candidate}
    found.update(_flattened(calls, tensors, outputs))
    return found


def _legal(call: Call, feature_level: int) -> bool:
    try:
        call.match(feature_level)
    except Reject:
        return False
    return True


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
        if call.spec != RESHAPE or all(v.name not in tensors for v in call.reads):
            continue
        flat = call.writes[0].name
        after = readers[flat] if flat not in outputs else []
        if len(after) == 1 and calls[after[0]].spec == FULLY_CONNECTED:
            pair = flatten_nhwc(call, calls[after[0]])
            if pair is not None:
                yield i, {i: pair[0], after[0]: pair[1]}


def _regions(
    tensors: Mapping[str, _TensorUses], rewrites: Mapping[int, Mapping[int, Call]]
) -> Iterator[list[str]]:
    """Yields groups of tensors that are connected by calls that work in either layout."""
    joined = nx.Graph()
    for name, tensor in tensors.items():
        ends = {e for e in (tensor.writer, *tensor.readers) if e in rewrites}
        joined.add_edges_from((name, end) for end in ends)
    for part in nx.connected_components(joined):
        yield sorted(n for n in part if isinstance(n, str))


def _nhwc_calls(
    region: Sequence[str],
    tensors: Mapping[str, _TensorUses],
    calls: Sequence[Call],
    rewrites: Mapping[int, Mapping[int, Call]],
) -> set[int]:
    """Returns the calls of the region that should work in NHWC."""
    graph = nx.DiGraph()
    graph.add_nodes_from((_NHWC, _AS_ONNX))
    entrances = []
    for name in region:
        tensor = tensors[name]
        writer = _cut_node(tensor.writer, name, calls, rewrites)
        entering, leaving = tensor.writer is None, None in tensor.readers
        # one auxiliary node per direction: the tensor costs once, however many readers it has
        graph.add_edge(writer, ("is ONNX", name), capacity=8 * tensor.cost - entering)
        graph.add_edge(("is NHWC", name), writer, capacity=8 * tensor.cost - leaving)
        for reader in tensor.readers:
            if _accepts_either_layout(reader, calls, tensor):
                continue
            end = _cut_node(reader, name, calls, rewrites)
            graph.add_edge(("is ONNX", name), end)
            graph.add_edge(end, ("is NHWC", name))
            if entering:
                entrances.append((end, ("enters as ONNX", name)))
    if graph.succ[_AS_ONNX] and graph.pred[_NHWC]:
        graph.add_edges_from(entrances)
        graph.add_edges_from(((entrance, _NHWC) for _, entrance in entrances), capacity=1)
        _, (_, nhwc) = nx.minimum_cut(graph, _AS_ONNX, _NHWC)
    else:  # nothing has to be cut; searching for it would take a millisecond
        nhwc = nx.ancestors(graph, _NHWC)
    return {n for n in nhwc if isinstance(n, int)}


def _accepts_either_layout(reader: int | None, calls: Sequence[Call], tensor: _TensorUses) -> bool:
    """Returns True if the reader is a reshape that takes either layout, as no element moves."""
    return reader is not None and tensor.cost == 1 and calls[reader].spec == RESHAPE


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
    if call.spec != TRANSPOSE or not call.reads:
        return False
    perm = permutation(call)
    return perm == (NHWC if call.reads[0].name == name else inverse(NHWC))
