"""Permutations of a cluster's border as TRANSPOSE operations of its model.

A device that computes convolutions in NCHW anyway cancels them against its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ep_nnapi.lowering.border import Border, Crossing
from ep_nnapi.lowering.model_builder import Lowered
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.immutable import replace
from ep_nnapi.nnapi.model import Data, Operand, Operation
from ep_nnapi.nnapi.spec import TRANSPOSE

_TRANSPOSED = (
    OperandCode.TENSOR_FLOAT32,
    OperandCode.TENSOR_FLOAT16,
    OperandCode.TENSOR_QUANT8_ASYMM,
    OperandCode.TENSOR_QUANT8_ASYMM_SIGNED,
)
"""Types that TRANSPOSE has kernels for."""


def with_inner_transposes(lowered: Lowered) -> Lowered | None:
    """Returns the cluster with the permutations of its border moved into its model.

    Those of types that TRANSPOSE lacks stay in the border; None if all of them do.
    """
    model = lowered.model
    ends = _Ends(list(model.operands))
    inputs, outputs = list(model.inputs), list(model.outputs)
    entering = tuple(ends.enter(c, inputs) for c in lowered.border.inputs)
    leaving = tuple(ends.leave(c, outputs) for c in lowered.border.outputs)
    if not ends.before and not ends.after:
        return None
    moved = replace(
        model,
        operands=tuple(ends.operands),
        operations=(*ends.before, *model.operations, *ends.after),
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        composites=tuple(
            replace(each, members=tuple(n + len(ends.before) for n in each.members))
            for each in model.composites
        ),
    )
    return Lowered(moved.with_matches(model, len(ends.before)), Border(entering, leaving))


@dataclass(slots=True)
class _Ends:
    """Operands of the model, and the transposes before and after its operations."""

    operands: list[Operand]
    before: list[Operation] = field(default_factory=list)
    after: list[Operation] = field(default_factory=list)

    def enter(self, crossing: Crossing, inputs: list[int]) -> Crossing:
        """Returns the crossing without permutation; `inputs` then has an operand in ONNX layout."""
        inner = inputs[crossing.operand]
        if crossing.perm is None or self.operands[inner].type not in _TRANSPOSED:
            return crossing
        outer = self._unpermuted(inner, crossing)
        self.before.append(self._transpose(outer, inner, crossing.perm))
        inputs[crossing.operand] = outer
        return self._plain(crossing, outer)

    def leave(self, crossing: Crossing, outputs: list[int]) -> Crossing:
        """Returns the crossing without permutation; `outputs` then has one in ONNX layout.

        An operand that is several outputs keeps its place for the others.
        """
        inner = outputs[crossing.operand]
        if (
            crossing.perm is None
            or self.operands[inner].type not in _TRANSPOSED
            or outputs.count(inner) > 1
        ):
            return crossing
        outer = self._unpermuted(inner, crossing)
        perm = tuple(crossing.perm.index(i) for i in range(len(crossing.perm)))
        self.after.append(self._transpose(inner, outer, perm))
        outputs[crossing.operand] = outer
        return self._plain(crossing, outer)

    def _unpermuted(self, inner: int, crossing: Crossing) -> int:
        """Adds an operand like `inner` in ONNX layout; returns its index."""
        held = self.operands[inner].dimensions
        sizes = [0] * len(held)
        for axis, source in enumerate(crossing.perm or ()):
            sizes[source] = held[axis]
        self.operands.append(replace(self.operands[inner], dimensions=tuple(sizes), value=None))
        return len(self.operands) - 1

    def _transpose(self, source: int, result: int, perm: Sequence[int]) -> Operation:
        data = np.array(perm, np.int32)
        self.operands.append(Operand(OperandCode.TENSOR_INT32, (len(perm),), value=Data.of(data)))
        return Operation(TRANSPOSE, (source, len(self.operands) - 1), (result,))

    def _plain(self, crossing: Crossing, outer: int) -> Crossing:
        shape = self.operands[outer].dimensions
        return replace(crossing, perm=None, nnapi_shape=shape)
