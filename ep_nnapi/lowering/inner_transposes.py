"""Permutations of a cluster's border as TRANSPOSE operations of its model.

A device that computes convolutions in NCHW anyway cancels them against its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ep_nnapi.lowering.border import Border, Crossing
from ep_nnapi.lowering.layout_rules import inverse
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
    entering = tuple(ends.moved(c, inputs, enters=True) for c in lowered.border.inputs)
    leaving = tuple(ends.moved(c, outputs, enters=False) for c in lowered.border.outputs)
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

    def moved(self, crossing: Crossing, ends: list[int], *, enters: bool) -> Crossing:
        """Returns the crossing without permutation; `ends` then has an operand in ONNX layout.

        ends   the inputs or the outputs of the model; an operand that is several outputs keeps its
               place for the others
        """
        inner = ends[crossing.operand]
        shared = not enters and ends.count(inner) > 1
        if crossing.perm is None or self.operands[inner].type not in _TRANSPOSED or shared:
            return crossing
        back, held = inverse(crossing.perm), self.operands[inner].dimensions
        shape, outer = tuple(held[axis] for axis in back), len(self.operands)
        self.operands.append(replace(self.operands[inner], dimensions=shape, value=None))
        if enters:
            self.before.append(self._transpose(outer, inner, crossing.perm))
        else:
            self.after.append(self._transpose(inner, outer, back))
        ends[crossing.operand] = outer
        return replace(crossing, perm=None, nnapi_shape=shape)

    def _transpose(self, source: int, result: int, perm: Sequence[int]) -> Operation:
        data = np.array(perm, np.int32)
        self.operands.append(Operand(OperandCode.TENSOR_INT32, (len(perm),), value=Data.of(data)))
        return Operation(TRANSPOSE, (source, len(self.operands) - 1), (result,))
