"""Answers of devices that find out what they take by opening it: a model, or one operation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from ep_nnapi.nnapi.codes import FINISH, ResultCode, failure
from ep_nnapi.nnapi.errors import RuntimeFailure, module_logger
from ep_nnapi.nnapi.host.runtime import PreparedModel
from ep_nnapi.nnapi.immutable import replace
from ep_nnapi.nnapi.model import Data, Model, Operand

logger = module_logger(__name__)
_SMALL = 64  # bytes of constants that decide whether a device takes an operation


_Made = TypeVar("_Made")


class NotTaken(Exception):
    """A device does not take a model, or an operation; the message is one sentence."""

    def failure_of(self, device: str) -> RuntimeFailure:
        """Return the failure of a compilation on the device."""
        return failure(FINISH, ResultCode.BAD_DATA, f"{device}: {self}")


class Latest(Generic[_Made]):
    """What was made of the model that was asked about last: `prepare` usually follows."""

    def __init__(self) -> None:
        self._kept: tuple[Model, _Made] | None = None

    def keep(self, model: Model, made: _Made) -> _Made:
        """Keep what was made of a model, in place of what there is; returns it."""
        self._kept = model, made
        return made

    def of(self, model: Model) -> _Made | None:
        """What was made of this model, if it is the last."""
        kept = self._kept
        return kept[1] if kept is not None and kept[0] is model else None

    def take(self, model: Model) -> _Made | None:
        """The same; none is kept afterwards."""
        found, self._kept = self.of(model), None
        return found


class Opened:
    """A device's answers about operations; keeps the model that was opened last until `take`."""

    def __init__(self) -> None:
        self._answers: dict[object, bool] = {}
        self._latest = Latest[PreparedModel]()

    def supported(
        self,
        model: Model,
        reasons: Sequence[str],
        compiled: Callable[[Model], PreparedModel],
    ) -> tuple[bool, ...]:
        """One bool for each operation: of the whole model, or else of each by itself.

        reasons   for each operation why it is not taken; "" if there is none yet
        compiled  a model that the device has opened; raises NotTaken if it does not take all of it
        """

        def opens(asked: Model) -> bool:
            try:
                self._latest.keep(asked, compiled(asked))
            except NotTaken as reason:
                logger.debug("not taken: %s", reason)
                return False
            return True

        def takes(alone: Model) -> bool:
            key = (alone.operations[0].spec, tuple(map(_described, alone.operands)))
            if key not in self._answers:
                self._answers[key] = opens(alone)
            return self._answers[key]

        if not any(reasons) and opens(model):
            return (True,) * len(reasons)
        known = with_known_dims(model)
        return tuple(not why and takes(single_operation(known, n)) for n, why in enumerate(reasons))

    def take(self, model: Model) -> PreparedModel | None:
        """Give what was opened for this model away, if it is the last; none is kept afterwards."""
        return self._latest.take(model)


def with_known_dims(model: Model) -> Model:
    """The model, with the sizes of its operands declared as far as they are known."""
    from ep_nnapi.nnapi.host.kernel import named_operations
    from ep_nnapi.ort_devices.to_onnx import FEATURE_LEVEL, operand_dims

    dims = operand_dims(model, named_operations(model, FEATURE_LEVEL))
    operands = tuple(
        replace(operand, dimensions=tuple(size or 0 for size in dims[i]))
        if i in dims and operand.type.tensor
        else operand
        for i, operand in enumerate(model.operands)
    )
    return replace(model, operands=operands)


def single_operation(model: Model, operation: int) -> Model:
    """A model of one operation; what others compute are its inputs."""
    only = model.operations[operation]
    indexes = list(dict.fromkeys((*only.inputs, *only.outputs)))
    new = {old: i for i, old in enumerate(indexes)}
    operands = tuple(model.operands[i] for i in indexes)
    moved = replace(
        only, inputs=tuple(new[i] for i in only.inputs), outputs=tuple(new[i] for i in only.outputs)
    )
    entering = dict.fromkeys(i for i in moved.inputs if operands[i].value is None)
    return Model(operands, (moved,), tuple(entering), moved.outputs, model.relaxed)


def _described(operand: Operand) -> object:
    """What a device's answer depends on: of large constants not their elements."""
    value: object = operand.value
    if isinstance(value, Data):
        value = value.bytes.tobytes() if value.size <= _SMALL else "constant"
    elif isinstance(value, Model):
        value = id(value)
    return replace(operand, value=None), value
