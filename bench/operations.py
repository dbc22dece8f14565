"""Time of each operation of nnapi-reference, per element, against what numpy or BLAS must take.

The floor of a case is the numpy call that no kernel can do without: the matrix product with as many
multiplications, the function of as many elements, or a copy of what goes in or out, whichever is
larger. The five cases furthest from their floor are named at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np

from bench.elements import elements, moves, rows
from bench.floors import Case
from bench.products import convolutions, pools, products, recurrences
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.host import HostRuntime
from ep_nnapi.nnapi.model import Data, Model, Omitted, Operand, Operation
from ep_nnapi.nnapi.spec import F32, I32, Q8

SECONDS = 0.15
"""How long one case, or its floor, is repeated; the least time counts."""
SLOWEST = 5
FAMILIES = (convolutions, products, recurrences, pools, elements, rows, moves)


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of a case and of its floor, and the elements of its output."""

    name: str
    seconds: float
    floor: float
    elements: int

    @property
    def ratio(self) -> float:
        """Time of a case as a multiple of its floor."""
        return self.seconds / self.floor

    def __str__(self) -> str:
        each = self.seconds * 1e9 / max(1, self.elements)
        times = f"{self.seconds * 1e6:10.1f} us {each:8.2f} ns/element"
        return f"{self.name:44}{times}{self.floor * 1e6:10.1f} us floor {self.ratio:7.1f}x"


def model(case: Case) -> tuple[Model, Array]:
    """The operation as a model, its first tensor being the input."""
    form = next(f for f in case.row.input_params if case.operands.keys() <= {p.name for p in f})
    given = max(n for n, p in enumerate(form) if p.name in case.operands)
    last = next(n for n, p in enumerate(form) if n >= given and p.last)
    values = [case.operands.get(p.name) for p in form[: last + 1]]
    inputs = [_operand(value) for value in values]
    count = len(inputs)
    outputs = tuple(range(count, count + len(case.outputs)))
    operation = Operation(case.row, tuple(range(count)), outputs)
    first = next(n for n, value in enumerate(values) if isinstance(value, np.ndarray))
    inputs[first] = replace(inputs[first], value=None)
    array = values[first]
    if not isinstance(array, np.ndarray):
        raise TypeError("the input is no array")
    return Model((*inputs, *case.outputs), (operation,), (first,), outputs), array


def _operand(value: object) -> Operand:
    if value is None:
        return Operand(F32, value=Omitted.NO_VALUE)
    if isinstance(value, np.ndarray):
        code = {"f": F32, "u": Q8, "i": I32}[value.dtype.kind]
        scale, zero_point = (0.02, 128) if code is Q8 else (0.0, 0)
        return Operand(code, value.shape, scale, zero_point, value=Data.of(value))
    code, dtype = _SCALARS[type(value)]
    return Operand(code, value=Data.of(np.array(value, dtype)))


_SCALARS: dict[type, tuple[OperandCode, type]] = {
    bool: (OperandCode.BOOL, np.bool_),
    int: (OperandCode.INT32, np.int32),
    float: (OperandCode.FLOAT32, np.float32),
}


def least(function: Callable[[], object]) -> float:
    """The least seconds that a call takes."""
    function()
    best, end = np.inf, perf_counter() + SECONDS
    while perf_counter() < end:
        start = perf_counter()
        function()
        best = min(best, perf_counter() - start)
    return float(best)


def time_all() -> Iterator[Timing]:
    """The timing of each case."""
    runtime = HostRuntime()
    (device,) = runtime.devices()
    for case in (case for family in FAMILIES for case in family()):
        inputs, array = model(case)
        compilation = runtime.compile(inputs, device)
        outputs = compilation.run([array])
        seconds = least(lambda c=compilation, a=array, o=outputs: c.run([a], o))  # type: ignore[misc]
        yield Timing(case.name, seconds, least(case.floor), sum(o.size for o in outputs))


def main() -> None:
    """Prints every case and the five furthest from their floor."""
    timings = []
    for timing in time_all():
        timings.append(timing)
        print(timing)
    print(f"\nfurthest from their floor, of {len(timings)}:")
    for timing in sorted(timings, key=lambda t: -t.ratio)[:SLOWEST]:
        print(timing)


if __name__ == "__main__":
    main()
