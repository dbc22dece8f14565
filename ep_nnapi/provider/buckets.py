"""Sizes that runs come with: padded to the next of a few, or admitted to compilation."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import TypeAlias

import numpy as np

from ep_nnapi.graph.dag import inputs_of, outputs_of
from ep_nnapi.graph.graph import Graph
from ep_nnapi.graph.value import Dim, Value
from ep_nnapi.lowering.border import Allocate, Stop
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.immutable import frozen
from ep_nnapi.options.table import Options
from ep_nnapi.provider.cluster_selection import MOVES_BYTES
from ep_nnapi.provider.fallback import ClusterRun
from ep_nnapi.sizes.symbols import Shapes, size_named, symbol_values

_INTEGERS = (1, 0, None)
"""With which integers are padded in samples, None for random ones: they may be marks or indexes."""
_TOLERANCE = 1e-4
"""Largest difference relative to the largest element: sums in another order."""

Compute: TypeAlias = Callable[[Mapping[str, Array], Sequence[str]], Sequence[Array]]
"""Returns outputs by their names, for any shapes of the inputs."""
Shape: TypeAlias = tuple[int, ...]
Cut: TypeAlias = tuple[Shape, np.dtype[np.generic]]


@frozen
class Buckets:
    """The sizes that a cluster is compiled for, to which smaller inputs are padded.

    sizes   of its symbols, ascending
    mask    the model's input whose zeros mark padding; None: there is none
    marking  the inputs that have its contents
    marks    the model's inputs that may be the mask: with the sizes of another input
    shape_inputs  inputs whose contents determine shapes
    """

    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    sizes: Mapping[str, tuple[int, ...]]
    mask: str | None = None
    marking: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    shape_inputs: tuple[str, ...] = ()

    @staticmethod
    def of(
        graph: Graph,
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        options: Options,
        shape_inputs: tuple[str, ...],
    ) -> Buckets | None:
        """Returns those of a cluster of the graph for the symbols of its inputs, if these have any.

        The mask's contents may reach the cluster through nodes that move bytes.
        """
        there = {dim for value in inputs for dim in value.dims or ()}
        found = {name: named for name, named in options.sizes if name in there}
        if not found:
            return None
        of = _contents([*graph.inputs, *inputs], graph)
        marking = tuple(v.name for v in inputs if of[v.name] == options.mask)
        padded = [of[v.name] for v in inputs if any(d in found for d in v.dims or ())]
        several = len({*padded}) > 1  # one is what is padded
        marks = tuple(v.name for v in graph.inputs if several and v.name in padded)
        ends = (*inputs,), (*outputs,), found
        return Buckets(*ends, options.mask, marking, marks, shape_inputs)

    @property
    def count(self) -> int:
        """The number of sets of sizes."""
        return prod(map(len, self.sizes.values()))

    def shapes(self, shapes: Shapes) -> Shapes | None:
        """Returns the shapes of the bucket for inputs of these; None if one is too large."""
        known = symbol_values(self.inputs, shapes)
        fit = {s: [b for b in named if b >= known[s]] for s, named in self.sizes.items()}
        return self._with(shapes, {s: b[0] for s, b in fit.items()}) if all(fit.values()) else None

    def padded(self, shapes: Shapes) -> Iterator[tuple[str, int, int]]:
        """Yields the symbols along which inputs are padded, and what sizes are to the same bucket.

        These are given by the smallest one, and the bucket itself.
        """
        known = symbol_values(self.inputs, shapes)
        for symbol, named in self.sizes.items():
            smaller = max((b for b in named if b < known[symbol]), default=0)
            bucket = min((b for b in named if b >= known[symbol]), default=0)
            if known[symbol] < bucket:
                yield symbol, smaller + 1, bucket

    def _with(self, shapes: Shapes, sizes: Mapping[str, int]) -> Shapes:
        """Returns the shapes with other sizes of symbols."""
        known = {**symbol_values(self.inputs, shapes), **sizes}
        changed = shapes_of(self.inputs, known)
        return {
            name: tuple(
                new or now for new, now in zip(changed.get(name) or shape, shape, strict=True)
            )
            for name, shape in shapes.items()
        }

    def refusal(self, compute: Compute, shapes: Shapes) -> str:
        """Returns why runs are not padded; "" if the outputs for samples are the same.

        compute   computes the cluster
        The samples have these shapes, and with the smallest and the largest sizes that are padded
        to the same bucket: what depends on a comparison or a remainder of a size differs at one of
        them. Other symbols have their largest sizes there, as a size of 1 may hide what depends.
        What is padded has large contents: a result that depends on them differs.
        """
        if self.shape_inputs:
            return f"the contents of {', '.join(self.shape_inputs)} determine shapes"
        if self.mask is not None and not self.marking:
            return f"{self.mask}, the option mask, reaches no input of it"
        padded, changed = [*self.padded(shapes)], ""
        largest = {s: named[-1] for s, named in self.sizes.items()}
        ends = {s: low for s, low, _ in padded}, largest | {s: b - 1 for s, _, b in padded}
        floats = all(v.dtype.numpy.kind == "f" for v in self.inputs)
        samples = product(({}, *ends), (None,) if floats else _INTEGERS)
        for seed, (sizes, integer) in enumerate(samples):
            try:
                changed = changed or self._changed(
                    compute, self._with(shapes, sizes), np.random.default_rng(seed), integer
                )
            except Exception as error:  # of the CPU provider: contents or sizes that contradict
                if not seed:
                    return f"it cannot be tried: {str(error).strip().splitlines()[0]}"
        if changed and self.mask is None:
            return f"padding changes {changed}; {self._advice}"
        return f"padding changes {changed}, although {self.mask} is 0 there" if changed else ""

    @property
    def _advice(self) -> str:
        """What to do where padding changes an output and no input is named that marks it."""
        symbol, sizes = next(iter(self.sizes.items()))
        fix = f"fix a size, such as --fix {symbol}={sizes[-1]}"
        if not self.marks:
            return f"no input can mark it, so {fix}"
        return f"name the input whose zeros mark it (--mask {' or '.join(self.marks)}), or {fix}"

    def _changed(
        self, compute: Compute, shapes: Shapes, rng: np.random.Generator, integer: int | None
    ) -> str:
        """Returns the name of an output that padding changes, for a sample of these shapes.

        integer   with which integers are padded
        """
        bucket = self.shapes(shapes) or {}
        large = {v.name: _drawn(v, bucket[v.name], rng, 10, integer) for v in self.inputs}
        given = {v.name: _drawn(v, shapes[v.name], rng, 1) for v in self.inputs}
        for name in self.marking:
            given[name], large[name] = np.ones_like(given[name]), np.zeros_like(large[name])
        for name, array in given.items():
            large[name][_within(array.shape)] = array
        names = [v.name for v in self.outputs]
        pairs = zip(names, compute(given, names), compute(large, names), strict=True)
        return next((name for name, a, b in pairs if not _same(a, b)), "")


def _contents(sources: Iterable[Value], graph: Graph) -> dict[str, str]:
    """Returns whose contents a tensor has, by name, if it is one of these or moved from there."""
    found = {v.name: v.name for v in sources}
    for node in graph.nodes:
        source = inputs_of(node)[0].name if node.op_type in MOVES_BYTES else ""
        if source in found:
            found.update((v.name, found[source]) for v in outputs_of(node))
    return found


def size_of(dim: Dim, known: Mapping[str, int]) -> int:
    """Returns a dimension's size for sizes of symbols; 0 if they do not say."""
    if isinstance(dim, int):
        return dim
    return 0 if dim is None else known.get(dim) or size_named(dim, known) or 0


def shapes_of(values: Iterable[Value], known: Mapping[str, int]) -> Shapes:
    """Returns the shapes of tensors for sizes of symbols, with 0 for others; () without a rank."""
    return {v.name: tuple(size_of(d, known) for d in v.dims or ()) for v in values}


def padding(run: ClusterRun, shapes: Sequence[Shape], cuts: Sequence[Cut]) -> ClusterRun:
    """Returns what runs inputs padded with zeros.

    shapes   of the padded inputs
    cuts     what of each output is returned: the sizes of its beginning, and its element type
    """

    def padded(inputs: Sequence[Array], allocate: Allocate, stop: Stop) -> None:
        arrays = [_padded(a, shape) for a, shape in zip(inputs, shapes, strict=True)]
        whole: dict[int, Array] = {}
        run(arrays, lambda i, s: whole.setdefault(i, np.empty(s, cuts[i][1])), stop)
        for i, (shape, _) in enumerate(cuts):
            np.copyto(allocate(i, shape), whole[i][_within(shape)])

    return padded


def _within(shape: Sequence[int]) -> tuple[slice, ...]:
    """The beginning of an array that has this shape."""
    return tuple(slice(size) for size in shape)


def _padded(array: Array, shape: Sequence[int]) -> Array:
    """Returns the array with zeros after it along each axis, up to these sizes."""
    if array.shape == tuple(shape):
        return array
    made = np.zeros(shape, array.dtype)
    made[_within(array.shape)] = array
    return made


def _drawn(
    value: Value,
    shape: Sequence[int],
    rng: np.random.Generator,
    scale: int,
    integer: int | None = None,
) -> Array:
    """Returns random contents: normal numbers times `scale`, or integers 0 and 1, or `integer`."""
    kind = value.dtype.numpy
    if kind.kind == "f":
        return (rng.standard_normal(shape) * scale).astype(kind)
    return (
        rng.integers(0, 2, shape).astype(kind) if integer is None else np.full(shape, integer, kind)
    )


def _same(exact: Array, whole: Array) -> bool:
    """True if an output begins with another one, up to rounding."""
    cut = whole[_within(exact.shape)]
    if cut.shape != exact.shape:
        return False
    largest = np.abs(exact, dtype=np.float64).max(initial=0) if exact.dtype.kind == "f" else 0
    return bool(np.allclose(cut, exact, rtol=0, atol=_TOLERANCE * largest, equal_nan=True))


MOST_WAITING = 1024
"""Sizes that wait to be compiled; of more, those that ran least recently are forgotten."""


@dataclass(slots=True)
class SizeAdmission:
    """Decides which sizes are compiled, so that changing sizes cost at most twice the CPU's time.

    The first ones are compiled when they are met. Later ones run on the CPU provider until that has
    taken as long as a compilation does on average, which sizes that never repeat do not reach (the
    rule of the ski rental problem). Sizes that were evicted from the cache wait again.

    at_once   number of sizes that are compiled when they are met; None: all
    """

    at_once: int | None
    _compiled: int = 0
    _seconds: float = 0.0
    _waited: bool = False
    _waiting: OrderedDict[Hashable, float] = field(default_factory=OrderedDict)

    def admits(self, sizes: Hashable) -> bool:
        """Return True if these sizes are to be compiled now."""
        if self.at_once is None or self._compiled < self.at_once:
            return True
        return self._waiting.get(sizes, 0.0) >= self._seconds / self._compiled

    def add_compilation(self, sizes: Hashable, seconds: float) -> None:
        """Count a compilation and its time."""
        self._compiled += 1
        self._seconds += seconds
        self._waiting.pop(sizes, None)

    def add_cpu_run(self, sizes: Hashable, seconds: float) -> bool:
        """Count a run on the CPU provider in place of a compilation; return True for the first."""
        first, self._waited = not self._waited, True
        self._waiting[sizes] = self._waiting.pop(sizes, 0.0) + seconds
        while len(self._waiting) > MOST_WAITING:
            self._waiting.popitem(last=False)
        return first
