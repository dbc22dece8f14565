"""Models whose optional inputs are left out of a run: they are omitted operands then."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace

from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.host.device import PreparedModel
from ep_nnapi.nnapi.model import Model, Omitted
from ep_nnapi.nnapi.runtime import RunOptions
from ep_nnapi.nnapi.shapes import ShapeError
from ep_nnapi.ort_devices.scope import Inexpressible

FEATURE_LEVEL = 8
"""The feature level of the devices on ONNX Runtime."""


def optional_inputs(model: Model) -> frozenset[int]:
    """Positions of the inputs that a run may leave out."""
    optional = dict.fromkeys(model.inputs, True)
    for n, operation in enumerate(model.operations):
        if optional.keys().isdisjoint(operation.inputs):
            continue
        match = model.match(n, FEATURE_LEVEL)
        for index, param in zip(operation.inputs, match.inputs, strict=True):
            if index in optional and not param.optional:
                optional[index] = False
    return frozenset(n for n, index in enumerate(model.inputs) if optional[index])


def probably_omitted(model: Model) -> frozenset[int]:
    """Positions of the inputs that runs will leave out: optional, without any known size."""
    return frozenset(
        n for n in optional_inputs(model) if not any(model.operands[model.inputs[n]].dimensions)
    )


def without(model: Model, positions: Collection[int]) -> Model:
    """The model with the inputs at these positions omitted."""
    if not positions:
        return model
    left_out = {model.inputs[n] for n in positions}
    operands = tuple(
        replace(o, value=Omitted.NO_VALUE) if i in left_out else o
        for i, o in enumerate(model.operands)
    )
    kept = tuple(index for index in model.inputs if index not in left_out)
    return replace(model, operands=operands, inputs=kept)


@dataclass(slots=True)
class PreparedVariants:
    """A model with optional inputs: a session for each set of inputs that runs have left out."""

    model: Model
    open: Callable[[Model], PreparedModel]
    _opened: dict[frozenset[int], PreparedModel] = field(default_factory=dict)

    def execute(
        self,
        inputs: Sequence[Array | None],
        outputs: Sequence[Array | None],
        options: RunOptions,
    ) -> list[Array]:
        """Run the model, as `device.PreparedModel.execute`."""
        left_out = frozenset(n for n, array in enumerate(inputs) if array is None)
        given = [array for array in inputs if array is not None]
        return self.variant(left_out).execute(given, outputs, options)

    def variant(self, left_out: frozenset[int]) -> PreparedModel:
        """The session without these inputs; raises ShapeError if one of them is required."""
        if left_out not in self._opened:
            required = left_out - optional_inputs(self.model)
            if required:
                raise ShapeError(f"input {min(required)} is missing, its value is required")
            try:
                self._opened[left_out] = self.open(without(self.model, left_out))
            except Inexpressible as reason:
                missing = ", ".join(map(str, sorted(left_out)))
                raise ShapeError(f"without input {missing}: {reason}") from None
        return self._opened[left_out]
