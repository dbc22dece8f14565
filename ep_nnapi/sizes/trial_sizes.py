"""The sizes that a graph with symbolic ones is judged with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from ep_nnapi.graph.graph import Graph
from ep_nnapi.graph.value import Dim, Value
from ep_nnapi.sizes.bind import Followed, entering, followed
from ep_nnapi.sizes.symbols import Shapes, fixed_symbols
from ep_nnapi.sizes.trial_runs import Assumption, Runs

_DEFAULTS = ((64, 32), (96, 32))
"""First size and step of the sizes tried for dimensions that nothing settles.

Multiples of 32, which survive the usual five halvings; two samples, so that nothing is taken that
holds for one size by chance. The second of two, which is a sentence's length, is at most 128: the
steps up to which recurrent operators are written out.
"""

_OTHERS = (32, 48, 16, 224, 512, 1)
"""Sizes tried where those do not go together; 1 last, with which almost everything goes."""

_MOST = 1000
"""Nodes of a graph up to which others are tried: each try follows the sizes through all of them."""

_Numbers: TypeAlias = Mapping[Dim, int]
"""Sizes by symbolic dimension, those without a name all under None."""


def views(graph: Graph, fixed: Shapes, *, assume: bool = True) -> list[Graph]:
    """The graph bound to the sizes to judge it with: to one set when `fixed` settles all, else two.

    What only a run settles is tried with sizes as a dimension without a name is; not to `assume`
    any leaves it without.
    Where the model's own sizes do not allow the usual ones, others are looked for that they do:
    for one dimension after another, then one size for all.
    Raises OptionError when `fixed` names no input or does not fit one.
    """
    trial = _Trial.of(graph, fixed, assume)
    seen = trial.seen(trial.usual(0))
    if seen.assumed and None not in trial.free:
        trial = replace(trial, free=(*trial.free, None))
    if not trial.free:
        return [seen.graph]
    first, second = (trial.usual(i) for i in range(len(_DEFAULTS)))
    found = (first, seen.graph) if seen.agree else trial.possible(first)
    if found is None:
        return [seen.graph, trial.seen(second).graph]
    numbers, view = found
    return [view, trial.differing(numbers, second)]


@dataclass(frozen=True, slots=True)
class _Trial:
    """One graph, what enters it, the sizes that are given and the dimensions that are not.

    assume   whether what only a run settles has sizes, too: those of a dimension without a name
    runs     what has been found out about these
    """

    graph: Graph
    inputs: tuple[Value, ...]
    fixed: Shapes
    known: Mapping[str, int]
    free: tuple[Dim, ...]
    assume: bool
    runs: Runs = field(default_factory=dict)

    @staticmethod
    def of(graph: Graph, fixed: Shapes, assume: bool) -> _Trial:
        """The trial of `graph`; raises OptionError as `views` does."""
        inputs = entering(graph)
        known = fixed_symbols(inputs, fixed)
        dims = {d for v in inputs if v.name not in fixed for d in v.dims or ()}
        named = sorted(d for d in dims if isinstance(d, str) and d not in known)
        free = (*named, None) if None in dims else tuple(named)
        return _Trial(graph, inputs, fixed, known, free, assume)

    def usual(self, which: int) -> _Numbers:
        """The sizes that are tried first."""
        first, step = _DEFAULTS[which]
        named = {d: first + step * i for i, d in enumerate(self.free)}
        return {**named, None: first}

    def seen(self, numbers: _Numbers) -> Followed:
        """The graph with these sizes, and whether they go together."""
        known: dict[Dim, int] = {**numbers}
        known.update(self.known)
        shapes = {
            v.name: self.fixed.get(v.name) or tuple(_size(d, known) for d in v.dims)
            for v in self.inputs
            if v.dims is not None
        }
        if not self.assume:
            return followed(self.graph, shapes)
        assumption = Assumption(numbers[None], self.graph.opsets, self.runs)
        return followed(self.graph, shapes, assumption)

    def possible(self, usual: _Numbers) -> tuple[_Numbers, Graph] | None:
        """The first sizes other than the `usual` ones that go together; None if none do."""
        for numbers in self._instead(usual):
            seen = self.seen(numbers)
            if seen.agree:
                return numbers, seen.graph
        return None

    def differing(self, found: _Numbers, usual: _Numbers) -> Graph:
        """The graph with `usual` sizes, and those that were `found` where it allows no other."""
        seen = self.seen(usual)
        if seen.agree:
            return seen.graph
        numbers = dict(found)
        for dim in self.free:
            tried = {**numbers, dim: usual[dim]}
            if self.seen(tried).agree:
                numbers = tried
        return self.seen(numbers).graph

    def _instead(self, usual: _Numbers) -> Iterator[_Numbers]:
        if len(self.graph.nodes) > _MOST:
            return
        for dim in self.free:
            yield from ({**usual, dim: size} for size in _OTHERS)
        if len(self.free) > 1:
            yield from ({**usual, **dict.fromkeys(self.free, size)} for size in _OTHERS)


def _size(dim: Dim, known: Mapping[Dim, int]) -> int:
    return dim if isinstance(dim, int) else known[dim]
