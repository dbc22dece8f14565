"""Compilations of a cluster that hold for all sizes of its inputs that meet conditions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ep_nnapi.lowering.model_builder import Lowered
from ep_nnapi.nnapi.expressions import Condition, Expression, Relation
from ep_nnapi.nnapi.immutable import frozen
from ep_nnapi.nnapi.runtime import SizedRuntime
from ep_nnapi.nnapi.sizes import Size, bound
from ep_nnapi.provider.compiler import Compiler, Placed
from ep_nnapi.provider.direct_run import DirectRun, OpenSizes, direct_run
from ep_nnapi.sizes.symbols import Shapes


@frozen
class OpenCompilation:
    """A cluster compiled for sizes that are expressions of symbols.

    placed      its compilation; shapes of its border have a `Size`
    lowered     the cluster as it was lowered
    conditions  under which it holds: those of the model, and of the device that compiled it
    """

    placed: Placed
    lowered: Lowered
    conditions: tuple[Condition, ...]

    @staticmethod
    def of(compiler: Compiler, lowered: Lowered) -> OpenCompilation | None:
        """Returns the compilation, None if the device compiles numbers only; raises Declined."""
        prepared = compiler.prepare(lowered)
        _, device = compiler.place(prepared)
        if not isinstance(compiler.runtime, SizedRuntime):
            return None
        if not compiler.runtime.takes_sizes(device):
            return None
        placed = compiler.compile(prepared)
        if placed.device != device:
            return None  # it failed, and another one has the numbers of now
        return OpenCompilation(placed, lowered, _conditions(lowered))

    def symbols(self, shapes: Shapes) -> dict[str, int] | None:
        """Returns the symbols' values for inputs of these shapes; None if it does not hold."""
        found: dict[str, int] = {}
        for symbol, places in self.lowered.symbols.items():
            for name, axis in places:
                size = shapes[name][axis] if axis < len(shapes[name]) else 0
                if size < 1 or found.setdefault(symbol, size) != size:
                    return None
        inputs = self.lowered.border.inputs
        fits = all(shapes[c.name] == bound(c.shape, found) for c in inputs)
        return found if fits and all(c.holds(found) for c in self.conditions) else None

    def direct_runs(
        self, input_names: Sequence[str], output_names: Sequence[str]
    ) -> Iterator[DirectRun]:
        """Yields what may run it without Python, for inputs and outputs in this order."""
        border = self.placed.lowered.border.bind(input_names, output_names)
        run = direct_run(self.placed.compiler, self.placed.compilation, border)
        if run is not None:
            yield replace(run, sizes=self._open_sizes(input_names))

    def _open_sizes(self, input_names: Sequence[str]) -> OpenSizes:
        """What inputs must meet; each further size of one is a symbol equal to what it must be."""
        positions = {name: i for i, name in enumerate(input_names)}
        symbols = {
            symbol: (positions[name], axis)
            for symbol, ((name, axis), *_) in self.lowered.symbols.items()
        }
        equal = []
        for (name, axis), size in dict(self._sizes()).items():
            place = positions[name], axis
            if place not in symbols.values():
                symbols[f"{name}.{axis} as given"] = place
                difference = Expression.symbol(f"{name}.{axis} as given") - size
                equal.append(Condition(difference, Relation.ZERO))
        return OpenSizes(symbols, (*equal, *self.conditions))

    def _sizes(self) -> Iterator[tuple[tuple[str, int], Expression]]:
        """Yields what open sizes of inputs, by name and axis, must be."""
        for symbol, places in self.lowered.symbols.items():
            yield from ((place, Expression.symbol(symbol)) for place in places)
        for crossing in self.lowered.border.inputs:
            for axis, size in enumerate(crossing.shape):
                if isinstance(size, Size):
                    yield (crossing.name, axis), size.expression


def _conditions(lowered: Lowered) -> tuple[Condition, ...]:
    """All that is known by now, which a device may have added to."""
    crossings = (*lowered.border.inputs, *lowered.border.outputs)
    sizes = (size for crossing in crossings for size in crossing.shape)
    traces = [size.trace for size in sizes if isinstance(size, Size)]
    return traces[0].conditions if traces else lowered.model.conditions
