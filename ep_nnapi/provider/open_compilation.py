"""Compilations of a cluster that hold for all sizes of its inputs that meet conditions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from ep_nnapi.lowering.border import BoundBorder, Place, within
from ep_nnapi.lowering.model_builder import Lowered
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.errors import RuntimeFailure, module_logger
from ep_nnapi.nnapi.expressions import Condition, Expression, Relation, Symbols, one
from ep_nnapi.nnapi.immutable import frozen, replace
from ep_nnapi.nnapi.model import Model
from ep_nnapi.nnapi.open_dimensions import LEVEL, with_open_dimensions
from ep_nnapi.nnapi.runtime import RunOptions, SizedRuntime
from ep_nnapi.nnapi.sizes import Size, bound
from ep_nnapi.provider.cluster_record import ClusterRecord, OpenedFor
from ep_nnapi.provider.compiled_cluster import DirectRun, OpenSizes, direct_run
from ep_nnapi.provider.compiler import Compiler, Placed
from ep_nnapi.provider.device_health import Declined
from ep_nnapi.sizes.symbols import Shapes

logger = module_logger(__name__)
_PARTS = (32, 16, 8, 4, 2)
"""What sizes are divided by for a trial."""
InputContents: TypeAlias = Mapping[str, Array]
NO_CONTENTS: InputContents = MappingProxyType({})
_SizePlace: TypeAlias = tuple[str, int, bool]
"""An input, and one of its axes; or the position among its contents, and True."""
_Names: TypeAlias = tuple[tuple[str, ...], tuple[str, ...]]
"""Names of inputs and of outputs, in the order of a node."""
_Bound: TypeAlias = tuple[BoundBorder, tuple[Place, ...], OpenSizes]
"""The border in that order, what is given to it there, and the sizes that it holds for."""
_MOST = 2**31 - 1
"""Sizes are at most so large, in NNAPI's INT32 tensors too."""


@frozen
class OpenCompilation:
    """A cluster compiled for sizes that are expressions of symbols, or left open.

    placed      its compilation; shapes of its border have a `Size`
    lowered     the cluster as it was lowered
    conditions  under which it holds: those of the model, and of the device that compiled it
    """

    placed: Placed
    lowered: Lowered
    conditions: tuple[Condition, ...]
    _bound: dict[_Names, _Bound] = field(default_factory=dict, compare=False)

    @staticmethod
    def of(compiler: Compiler, lowered: Lowered) -> OpenCompilation | None:
        """Returns the compilation, None if the device compiles numbers only; raises Declined.

        Devices that take no expressions are asked about open dimensions. Operators have their
        members if the fast devices decline them as a whole.
        """
        prepared = compiler.prepare(lowered)
        _, device = compiler.place(prepared)
        if lowered.expand is not None and device not in compiler.fast:
            return OpenCompilation.of(compiler, lowered.members)
        runtime = compiler.runtime
        opened, placed = prepared, None
        if not (isinstance(runtime, SizedRuntime) and runtime.takes_sizes(device)):
            if compiler.target.feature_level < LEVEL:
                return None
            model, sizes = with_open_dimensions(prepared.model)
            border = replace(prepared.border, sizes=sizes)
            opened = replace(prepared, model=model, border=border, inner=None)
            compiler = replace(compiler, device=device, fast=())
        try:
            compiler.check_supported(opened)
            placed = compiler.compile(opened)
        except Declined:
            if opened is prepared:
                raise
        if placed is None or placed.device != device:
            return None  # it failed, and another one has the numbers of now
        return OpenCompilation(placed, lowered, _conditions(lowered))

    def add_to(self, record: ClusterRecord) -> None:
        """Adds it to the record of its cluster; members are made when somebody reads that."""
        placed, lowered = self.placed, self.placed.lowered
        model = lowered.model if lowered.expand is None else lambda: lowered.members.model
        record.add_compilation(model, placed.nanoseconds, placed.substitute, self.opened_for)

    def is_for_numbers_faster(self, compiler: Compiler, symbols: Symbols | None) -> bool:
        """True if a fast device of `compiler` takes it for these values, though not for all."""
        fast = [d for d in compiler.fast if d != self.placed.device]
        if not fast or not symbols or self.placed.device in compiler.fast:
            return False
        model = self.lowered.members.model.bind(symbols)
        return any(all(compiler.runtime.supported(model, device)) for device in fast)

    def computes(self, symbols: Symbols) -> bool:
        """Returns True if the device computes it for values like these, but smaller.

        A driver may take a model with open dimensions and fail in its executions. The trial is also
        the first run, which takes longer than others.
        """
        compiler, placed = self.placed.compiler, self.placed
        if any(isinstance(operand.value, Model) for operand in self.lowered.model.operands):
            return True  # how often a loop runs depends on what is given
        symbols = self._smaller(symbols)
        border = placed.lowered.border.with_sizes(symbols)
        given = {c.name: np.zeros(c.shape, c.dtype.numpy) for c in border.inputs}
        for name, numbers in self._contents():
            given[name].reshape(-1)[:] = bound(numbers, symbols)
        bound_border = border.bind([*given], [c.name for c in border.outputs])
        types, limits = [c.dtype.numpy for c in bound_border.outputs], compiler.current.limits
        try:
            bound_border.run(
                placed.compilation,
                [*given.values()],
                lambda i, shape: np.empty(shape, types[i]),
                RunOptions(limits.timeout_ns, limits.loop_timeout_ns),
            )
        except RuntimeFailure as failure:
            logger.info("%s fails with open dimensions: %s", placed.device.name, failure)
            return False
        return True

    def _smaller(self, given: Symbols) -> Symbols:
        """Values like these for which it holds: all divided by one number, then each by itself."""
        symbols = dict(given)
        for names in (tuple(given), *((name,) for name in given)):
            smaller = (symbols | {n: max(2, symbols[n] // part) for n in names} for part in _PARTS)
            fitting = (s for s in smaller if all(c.holds(s) for c in self.conditions))
            symbols = next(fitting, symbols)
        return symbols

    @property
    def opened_for(self) -> OpenedFor:
        """The sizes that it holds for."""
        places = {symbol: place for symbol, (place, *_) in self.lowered.symbols.items()}
        return OpenedFor(places, self.conditions)

    def symbols(
        self, shapes: Shapes, contents: InputContents = NO_CONTENTS
    ) -> dict[str, int] | None:
        """Returns the symbols' values for inputs of these shapes; None if it does not hold.

        contents  of the inputs that determine shapes
        """
        read = {s: _read(place, shapes, contents) for s, (place, *_) in self._symbols().items()}
        found = {symbol: size for symbol, size in read.items() if size is not None}
        crossings, ranges = self.lowered.border.inputs, self.lowered.ranges
        if (
            len(found) < len(read)
            or any(_read(p, shapes, contents) != e.evaluate(found) for p, e in self._sizes())
            or any(shapes[c.name] != bound(c.shape, found) for c in crossings)
            or any(not within(contents[name], most) for name, (_, most) in ranges.items())
        ):
            return None
        return found if all(c.holds(found) for c in self.conditions) else None

    def direct_runs(
        self, input_names: Sequence[str], output_names: Sequence[str]
    ) -> Iterator[DirectRun]:
        """Yields what may run it without Python, for inputs and outputs in this order."""
        names = tuple(input_names), tuple(output_names)
        if names not in self._bound:  # it is asked after each run of Python
            self._bound[names] = self._bind(*names)
        border, given, sizes = self._bound[names]
        run = direct_run(self.placed.compiler, self.placed.compilation, border)
        if run is not None:
            yield replace(run, given=given, sizes=sizes)

    def _bind(self, input_names: Sequence[str], output_names: Sequence[str]) -> _Bound:
        border = self.placed.lowered.border.bind(input_names, output_names)
        places = () if border.unconverted is None else border.unconverted.inputs
        limits = {name: most for name, (_, most) in self.lowered.ranges.items()}
        given = (replace(p, most=limits.get(input_names[p.position], p.most)) for p in places)
        return border, tuple(given), self._open_sizes(input_names)

    def _open_sizes(self, input_names: Sequence[str]) -> OpenSizes:
        """What inputs must meet; each further size of one is a symbol equal to what it must be."""
        positions = {name: i for i, name in enumerate(input_names)}
        places = {symbol: place for symbol, (place, *_) in self._symbols().items()}
        equal = []
        for place, size in dict(self._sizes()).items():
            if place not in places.values():
                name, at, _ = place
                symbol = f"{name}.{at} as given"
                places[symbol] = place
                equal.append(Condition(Expression.symbol(symbol) - size, Relation.ZERO))
        symbols = {symbol: (positions[n], at, known) for symbol, (n, at, known) in places.items()}
        return OpenSizes(symbols, (*equal, *self.conditions))

    def _symbols(self) -> dict[str, tuple[_SizePlace, ...]]:
        """Where symbols are read."""
        inside = {name for name, _ in self._contents()}
        return {
            symbol: tuple((name, at, name in inside) for name, at in places)
            for symbol, places in self.lowered.symbols.items()
        }

    def _sizes(self) -> Iterator[tuple[_SizePlace, Expression]]:
        """Yields what sizes and contents of inputs must be."""
        for symbol, places in self._symbols().items():
            yield from ((place, Expression.symbol(symbol)) for place in places)
        for crossing in self.lowered.border.inputs:
            for axis, size in enumerate(crossing.shape):
                if isinstance(size, Size):
                    yield (crossing.name, axis, False), size.expression
        for name, numbers in self._contents():
            yield from (((name, i, True), Expression.of(n)) for i, n in enumerate(numbers))

    def _contents(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Yields the inputs with contents that determine shapes."""
        contents, inputs = self.lowered.model.contents, self.lowered.border.inputs
        if contents:
            yield from zip((c.name for c in inputs[-len(contents) :]), contents, strict=True)


def _read(place: _SizePlace, shapes: Shapes, contents: InputContents) -> int | None:
    """The size, or the number among contents; None if there is none, or no size."""
    name, at, inside = place
    given = contents[name].reshape(-1).tolist() if inside else shapes[name]
    if at >= len(given) or (not inside and given[at] < 1):
        return None
    return int(given[at])


def _conditions(lowered: Lowered) -> tuple[Condition, ...]:
    """All that is known by now, which a device may have added to; of contents that they are sizes.

    What is known of expressions holds for sizes of at least 1.
    """
    crossings = (*lowered.border.inputs, *lowered.border.outputs)
    sizes = (size for crossing in crossings for size in crossing.shape)
    read = [n for numbers in lowered.model.contents for n in numbers if isinstance(n, Size)]
    traces = [size.trace for size in (*sizes, *read) if isinstance(size, Size)]
    known = traces[0].conditions if traces else lowered.model.conditions
    limits = (e for n in read for e in (n.expression - one(), Expression.of(_MOST) - n.expression))
    return (*known, *(Condition(e, Relation.NOT_NEGATIVE) for e in limits))
