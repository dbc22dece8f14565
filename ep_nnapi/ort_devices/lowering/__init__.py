"""Lowerings of NNAPI operations to ONNX, one module for each family; `find` returns one.

A lowering is a function of an `Op` that adds ONNX nodes and defines the operation's outputs. It
raises Inexpressible, through `require` or by asking for what is not constant or not known, when
ONNX Runtime cannot compute the operation exactly: then the device declines the operation. Each
family's `ROWS` say for which types (of the signature's type variable T) a function is. Here are
the operations that `ep_nnapi.operators` emits, and few more; nnapi-reference computes the others.
"""

from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.families import families
from ep_nnapi.nnapi.signature import OperationSpec
from ep_nnapi.ort_devices.operation import Lowering, LoweringTable, Op, table

LOWERINGS: LoweringTable[Op] = table(
    *(row for f in families(__name__, __path__) for row in getattr(f, "ROWS", ()))
)


def find(spec: OperationSpec, code: OperandCode | None) -> Lowering | None:
    """The lowering of an operation with type variable T = `code`; None if there is none."""
    return LOWERINGS.get((spec, code)) or LOWERINGS.get((spec, None))
