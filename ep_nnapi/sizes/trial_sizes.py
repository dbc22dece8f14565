"""Selection of sample sizes for symbolic dimensions, for the capability check of a graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

from ep_nnapi.graph.dag import outputs_of
from ep_nnapi.graph.graph import Graph, GraphNode
from ep_nnapi.graph.value import Dim, Value
from ep_nnapi.sizes.bind import BoundGraph, bind_and_check, graph_inputs
from ep_nnapi.sizes.symbols import Shapes, fixed_symbols
from ep_nnapi.sizes.weight_sizes import sizes_by_weights

_DEFAULT_SIZES = ((64, 32), (96, 32))
"""First size and step of the samples for free dimensions, for each of the two samples.

Multiples of 32 allow the usual five halvings. Two samples avoid accepting a node that one size
supports by chance. The second dimension, often the sequence length, is at most 128: the steps up to
which recurrent operators are unrolled.
"""

_ALTERNATIVES = (32, 48, 16, 224, 512, 1)
"""Sizes tried if the defaults are inconsistent; 1 is last, as almost every model allows it."""

_MAX_NODES = 1000
"""Maximum nodes of a graph for which these are tried: each try infers all shapes again."""

_Sizes: TypeAlias = Mapping[Dim, int]
"""Sizes by symbolic dimension; all unnamed dimensions are under None."""


def sample_graphs(graph: Graph, fixed: Shapes, *, assume: bool = True) -> list[Graph]:
    """The graph bound to sample sizes: one sample if `fixed` determines all sizes, else two.

    A dimension that the weights determine has its size in both.

    assume   give data-dependent dimensions the sample size of unnamed dimensions; False leaves them
             unknown
    If the model's static sizes are inconsistent with the default samples, others are searched: for
    one dimension after another, then one size for all.
    Raises OptionError if `fixed` names neither an input nor a symbol, or contradicts the model.
    """
    search = _SampleSearch.of(graph, fixed, assume)
    bound = search.bind(search.default_sizes(0))
    if bound.assumed and None not in search.free:
        search = replace(search, free=(*search.free, None))
    if not search.free:
        return [bound.graph]
    first, second = (search.default_sizes(i) for i in range(len(_DEFAULT_SIZES)))
    found = (first, bound.graph) if bound.consistent else search.first_consistent(first)
    if found is None:
        return [bound.graph, search.bind(second).graph]
    sizes, view = found
    return [view, search.second_sample(sizes, second)]


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
    free: tuple[Dim, ...]
    assume: bool

    @staticmethod
    def of(graph: Graph, fixed: Shapes, assume: bool) -> _SampleSearch:
        """Creates the trial of `graph`; raises OptionError as `sample_graphs` does."""
        inputs = graph_inputs(graph)
        known = {**sizes_by_weights(graph), **fixed_symbols(inputs, fixed)}
        dims = {d for v in inputs if v.name not in fixed for d in v.dims or ()}
        named = sorted(d for d in dims if isinstance(d, str) and d not in known)
        free = (*named, None) if None in dims else tuple(named)
        return _SampleSearch(graph, inputs, fixed, known, free, assume)

    def default_sizes(self, which: int) -> _Sizes:
        """The default sizes of sample 0 or 1."""
        first, step = _DEFAULT_SIZES[which]
        named = {d: first + step * i for i, d in enumerate(self.free)}
        return {**named, None: first}

    def bind(self, sizes: _Sizes) -> BoundGraph:
        """Binds the graph to these sizes; the result says if they are consistent."""
        known: dict[Dim, int] = {**sizes}
        known.update(self.known)
        shapes = {
            v.name: self.fixed.get(v.name) or tuple(_size(d, known) for d in v.dims)
            for v in self.inputs
            if v.dims is not None
        }
        if not self.assume:
            return bind_and_check(self.graph, shapes)
        return bind_and_check(self.graph, shapes, partial(_with_size, sizes[None]))

    def first_consistent(self, default_sizes: _Sizes) -> tuple[_Sizes, Graph] | None:
        """The first consistent sizes other than the defaults, and the graph, or None."""
        for sizes in self._candidates(default_sizes):
            bound = self.bind(sizes)
            if bound.consistent:
                return sizes, bound.graph
        return None

    def second_sample(self, found: _Sizes, default_sizes: _Sizes) -> Graph:
        """The graph with the default sizes, or `found` ones for dimensions that need them."""
        bound = self.bind(default_sizes)
        if bound.consistent:
            return bound.graph
        sizes = dict(found)
        for dim in self.free:
            tried = {**sizes, dim: default_sizes[dim]}
            if self.bind(tried).consistent:
                sizes = tried
        return self.bind(sizes).graph

    def _candidates(self, default_sizes: _Sizes) -> Iterator[_Sizes]:
        if len(self.graph.nodes) > _MAX_NODES:
            return
        for dim in self.free:
            yield from ({**default_sizes, dim: size} for size in _ALTERNATIVES)
        if len(self.free) > 1:
            yield from (
                {**default_sizes, **dict.fromkeys(self.free, size)} for size in _ALTERNATIVES
            )


def _with_size(size: int, node: GraphNode) -> list[Value]:
    """The outputs with `size` for each unknown dimension; those of unknown rank are unchanged.

    Only a run would tell these, and no node is run with made-up contents: a kernel may end the
    process.
    """
    return [
        replace(v, dims=v.dims and tuple(d if isinstance(d, int) else size for d in v.dims))
        for v in outputs_of(node)
    ]


def _size(dim: Dim, known: Mapping[Dim, int]) -> int:
    return dim if isinstance(dim, int) else known[dim]
