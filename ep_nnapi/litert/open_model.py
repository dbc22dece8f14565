"""Compiled flatbuffers of open sizes: LiteRT makes them ready for the sizes of each run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ep_nnapi.litert.library import CompiledModel, NoOptions
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.expressions import Expression
from ep_nnapi.nnapi.host.kernel import named_operations
from ep_nnapi.nnapi.model import Model
from ep_nnapi.nnapi.sizes import Size, bound
from ep_nnapi.ort_devices.graph import require
from ep_nnapi.ort_devices.session import PreparedSession
from ep_nnapi.ort_devices.to_onnx import FEATURE_LEVEL, operand_dims


@dataclass(frozen=True, slots=True)
class OpenModel:
    """A compiled .tflite as a `DeviceSession` for all sizes.

    symbols   the input that has each symbol as a size, and the axis
    outputs   sizes of the outputs
    """

    compiled: CompiledModel
    symbols: dict[str, tuple[int, int]]
    outputs: tuple[tuple[int, ...], ...]

    def run(
        self, inputs: Sequence[Array], outputs: Sequence[Array | None] = (), options: object = None
    ) -> list[Array]:
        """Return the outputs, as `CompiledModel.run`."""
        found = {name: inputs[n].shape[axis] for name, (n, axis) in self.symbols.items()}
        shapes = [bound(shape, found) for shape in self.outputs]
        return self.compiled.run(inputs, outputs, shapes=shapes)

    def run_options(self) -> NoOptions:
        """Return options of a run, as `DeviceSession.run_options`."""
        return NoOptions()


def is_open(model: Model) -> bool:
    """True if sizes of the model's inputs are expressions."""
    return any(isinstance(n, Size) for i in model.inputs for n in model.operands[i].dimensions)


def open_session(compiled: CompiledModel, model: Model) -> PreparedOpenModel:
    """A session for a model of open sizes.

    Raises Inexpressible if a size of an output follows from no size of an input.
    """
    symbols = {
        name: (n, axis)
        for n, index in enumerate(model.inputs)
        for axis, size in enumerate(model.operands[index].dimensions)
        for name in Expression.of(size).symbols
        if Expression.of(size) == Expression.symbol(name)
    }
    dims = operand_dims(model, named_operations(model, FEATURE_LEVEL))
    shapes = [tuple(size or 0 for size in dims[index]) for index in model.outputs]
    needed = {name for shape in shapes for size in shape for name in Expression.of(size).symbols}
    require(needed <= symbols.keys(), "the size of an output follows from no size of an input")
    return PreparedOpenModel(OpenModel(compiled, symbols, tuple(shapes)))


class PreparedOpenModel(PreparedSession):
    """A prepared model of open sizes; Python computes the sizes of each run."""

    __slots__ = ()

    def direct_session(self) -> None:
        """Return None: its runs need the sizes of outputs."""
        return
