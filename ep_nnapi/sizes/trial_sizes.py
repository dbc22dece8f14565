"""Selection of sample sizes for symbolic dimensions, for the capability check of a graph."""

from __future__ import annotations

import sys
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from typing import TypeAlias

from ep_nnapi.graph.dag import outputs_of
from ep_nnapi.graph.graph import Graph, GraphNode
from ep_nnapi.graph.value import Dim, Value
from ep_nnapi.nnapi.immutable import replace
from ep_nnapi.sizes.bind import BoundGraph, bind_and_check, graph_inputs
from ep_nnapi.sizes.inference import Conflict
from ep_nnapi.sizes.requirements import proposed_sizes, sizes_by_symbol
from ep_nnapi.sizes.symbols import Shapes, fixed_symbols, input_shapes, size_named

_DEFAULT_SIZES = ((64, 32), (96, 32))
"""First size and step of the samples for free dimensions, for each of the two samples.

Multiples of 32 allow the usual five halvings. Two samples avoid accepting a node that one size
supports by chance. The second dimension, often the sequence length, is at most 128: the steps up to
which recurrent operators are unrolled.
"""

_ALTERNATIVES = (32, 48, 16, 224, 512, 1)
"""Sizes tried if none agree with the constants; 1 is last, as almost every model allows it."""

_MAX_NODES = 1000
"""Maximum nodes of a graph for which these are tried: each try infers all shapes again."""

_ROUNDS = 8
"""Maximum conflicts that are resolved one after another, as of a chain of convolutions."""
_ALL = sys.maxsize

_Dim: TypeAlias = str | tuple[str, int] | None
"""A symbolic dimension; an unnamed one: its input and axis; None: all data-dependent ones."""
_Sizes: TypeAlias = Mapping[_Dim, int]


def sample_graphs(graph: Graph, fixed: Shapes, *, assume: bool = True) -> list[Graph]:
    """The graph bound to sample sizes: one sample if `fixed` determines all sizes, else two.

    A dimension that the weights determine has its size in both.

    assume   give data-dependent dimensions the sample size of unnamed dimensions; False leaves them
             unknown
    If the model is inconsistent with the default samples, sizes are searched: those that are alike
    in all inputs, those that agree with its constants, then others: for one dimension after
    another, then one size for all.
    Raises OptionError if `fixed` names neither an input nor a symbol, or contradicts the model.
    """
    search = _SampleSearch.of(graph, fixed, assume)
    bound = search.bind(search.default_sizes(0))
    if bound.assumed and None not in search.free:
        search = replace(search, free=(*search.free, None))
    if not search.free:
        return [bound.graph]
    first, second = (search.default_sizes(i) for i in range(len(_DEFAULT_SIZES)))
    checked = search.bind(first, _ALL) if bound.conflict is None else bound
    found = (first, bound) if checked.conflict is None else search.consistent(first, checked)
    if found is None:
        return [bound.graph, search.bind(second).graph]
    return [found[1].graph, search.second_sample(*found, second)]


def default_shapes(graph: Graph) -> Shapes:
    """The first sample's shapes of the inputs of known rank, whether the model agrees or not."""
    search = _SampleSearch.of(graph, {}, assume=False)
    return search.shapes(search.default_sizes(0))


def runnable_shapes(graph: Graph, fixed: Shapes, size: int) -> Shapes:
    """Shapes of the inputs that agree with each other and with the model's constants, for a run.

    size   of the free dimensions, where the model allows it; the first of an input is 1
    Returns {} if none are found; raises as `sample_graphs`.
    """
    search = _SampleSearch.of(graph, fixed, assume=True)
    first = {_key(v, 0) for v in search.inputs if v.dims}
    search = replace(search, free=tuple(sorted(search.free, key=lambda dim: dim in first)))
    sizes = {dim: 1 if dim in first else size for dim in search.free} | {None: size}
    bound = search.bind(sizes, _ALL)
    found = (sizes, bound) if bound.conflict is None else search.consistent(sizes, bound)
    return {} if found is None else search.shapes(found[0])


@dataclass(frozen=True, slots=True)
class _SampleSearch:
    """A graph, its inputs, the given sizes and the free dimensions.

    inputs   as `graph_inputs` returns them
    assume   give data-dependent dimensions the size of unnamed dimensions
    """

    graph: Graph
    inputs: tuple[Value, ...]
    fixed: Shapes
    known: Mapping[str, int]
    free: tuple[_Dim, ...]
    assume: bool

    @staticmethod
    def of(graph: Graph, fixed: Shapes, assume: bool) -> _SampleSearch:
        """Creates the trial of `graph`; raises OptionError as `sample_graphs` does."""
        inputs = graph_inputs(graph)
        known = {**sizes_by_symbol(graph), **fixed_symbols(inputs, fixed)}
        shapes = input_shapes(inputs, fixed)
        dims = {
            _key(v, axis)
            for v in inputs
            if v.name not in shapes
            for axis, dim in enumerate(v.dims or ())
            if not isinstance(dim, int) and dim not in known
        }
        ones = {**dict.fromkeys((dim for dim in dims if isinstance(dim, str)), 1), **known}
        dims = {d for d in dims if not isinstance(d, str) or size_named(d, ones) is None}
        free = tuple(sorted(dims, key=lambda dim: (not isinstance(dim, str), dim)))
        return _SampleSearch(graph, inputs, shapes, known, free, assume)

    def default_sizes(self, which: int) -> _Sizes:
        """The default sizes of sample 0 or 1."""
        first, step = _DEFAULT_SIZES[which]
        named = {d: first + step * i * isinstance(d, str) for i, d in enumerate(self.free)}
        return {**named, None: first}

    def shapes(self, sizes: _Sizes) -> Shapes:
        """The shapes of the inputs; sizes of names such as `past + 1` follow from the others."""
        known: dict[_Dim, int] = {**sizes}
        known.update(self.known)
        named = {dim: size for dim, size in known.items() if isinstance(dim, str)}

        def size(value: Value, axis: int, dim: Dim) -> int:
            if isinstance(dim, int):
                return dim
            computed = size_named(dim, named) if dim else None
            return known[_key(value, axis)] if computed is None else computed

        return {
            v.name: self.fixed.get(v.name) or tuple(size(v, i, d) for i, d in enumerate(v.dims))
            for v in self.inputs
            if v.dims is not None
        }

    def bind(self, sizes: _Sizes, until: int | None = None) -> BoundGraph:
        """Binds the graph to these sizes; the result has the first conflict."""
        assume = partial(_with_size, sizes[None]) if self.assume else None
        return bind_and_check(self.graph, self.shapes(sizes), assume, until=until)

    def consistent(self, sizes: _Sizes, bound: BoundGraph) -> tuple[_Sizes, BoundGraph] | None:
        """Consistent sizes near those with which the graph is bound to a conflict, or None."""
        return (
            self._first_of(self._alike(sizes))
            or self._resolved(sizes, bound)
            or self._first_of(self._alternatives(sizes))
        )

    def second_sample(self, found: _Sizes, bound: BoundGraph, default_sizes: _Sizes) -> Graph:
        """The graph with the default sizes, or what is consistent of these and the found ones.

        Instead of a default, half or twice the found size is tried.
        """
        sample = self._first_of([default_sizes, *self._alike(default_sizes)])
        for dim in () if sample is not None else self.free:
            near = (default_sizes[dim], found[dim] // 2, found[dim] * 2)
            tried = ({**found, dim: size} for size in near if size)
            found, bound = self._first_of(tried) or (found, bound)
        return bound.graph if sample is None else sample[1].graph

    def _first_of(self, tried: Iterable[_Sizes]) -> tuple[_Sizes, BoundGraph] | None:
        bound = ((sizes, self.bind(sizes, _ALL)) for sizes in tried)
        return next((each for each in bound if each[1].conflict is None), None)

    def _alike(self, sizes: _Sizes) -> Iterator[_Sizes]:
        """Sizes with one size for the first dimensions of all inputs, then for each later one too.

        Exporters name them apart though it is one batch, and one length.
        """
        shaped = [[_key(v, axis) for axis in range(v.rank)] for v in self.inputs if v.dims]
        axes = zip_longest(*shaped, fillvalue="")
        free = [[d for d in dict.fromkeys(dims) if d in self.free] for dims in axes]
        alike = [dict.fromkeys(dims, sizes[dims[0]]) for dims in free if len(dims) > 1]
        if alike:
            yield {**sizes, **alike[0]}
        if len(alike) > 1:
            yield {**sizes, **ChainMap(*alike)}

    def _resolved(self, sizes: _Sizes, bound: BoundGraph) -> tuple[_Sizes, BoundGraph] | None:
        """The first consistent sizes as one conflict after another is resolved, or None."""
        seen = [sizes]
        for _ in range(_ROUNDS):
            conflict = bound.conflict
            if conflict is None:
                return sizes, bound
            reached, best = conflict[0] - 1, None
            for proposed in self._proposals(sizes, conflict):
                if proposed in seen:
                    continue
                seen.append(proposed)
                tried = self.bind(proposed, _ALL)
                if tried.conflict is None:
                    return proposed, tried
                if tried.conflict[0] > reached:
                    reached, best = tried.conflict[0], (proposed, tried)
            if best is None:
                return None
            sizes, bound = best
        return None

    def _proposals(self, sizes: _Sizes, conflict: Conflict) -> Iterator[_Sizes]:
        """Sizes with which the conflict may disappear, that differ in one dimension or a group."""
        position = conflict[0]

        def at(group: Sequence[_Dim], size: int) -> GraphNode | None:
            met = self.bind({**sizes, **dict.fromkeys(group, size)}, position).conflict
            return met[1] if met is not None and met[0] == position else None

        for group in self._groups():
            size = sizes[group[0]]
            node = at(group, size)
            for probe in (2 * size, size // 2):
                if node is not None and probe and (other := at(group, probe)) is not None:
                    for proposed in proposed_sizes(node, other, (size, probe)):
                        yield {**sizes, **dict.fromkeys(group, proposed)}
                    break

    def _groups(self) -> list[tuple[_Dim, ...]]:
        """The free dimensions, then those of each input that may go together: height and width."""
        together = (
            tuple(d for d in dict.fromkeys(_key(v, i) for i in range(1, v.rank)) if d in self.free)
            for v in self.inputs
            if v.dims is not None
        )
        return [*((dim,) for dim in self.free), *dict.fromkeys(g for g in together if len(g) > 1)]

    def _alternatives(self, default_sizes: _Sizes) -> Iterator[_Sizes]:
        if len(self.graph.nodes) > _MAX_NODES:
            return
        for dims in dict.fromkeys((*((dim,) for dim in self.free), self.free)):
            yield from ({**default_sizes, **dict.fromkeys(dims, n)} for n in _ALTERNATIVES)


def _key(value: Value, axis: int) -> _Dim:
    """The dimension as `_SampleSearch` knows it; of a static one, what no other has."""
    dim = (value.dims or ())[axis]
    return dim if isinstance(dim, str) else (value.name, axis)


def _with_size(size: int, node: GraphNode) -> list[Value]:
    """The outputs with `size` for each unknown dimension; those of unknown rank are unchanged.

    Only a run would tell these, and no node is run with made-up contents: a kernel may end the
    process.
    """
    return [
        replace(v, dims=v.dims and tuple(d if isinstance(d, int) else size for d in v.dims))
        for v in outputs_of(node)
    ]
