"""Lowerings of NNAPI operations to LiteRT operators, one module for each family.

As in `ort_devices.lowering`: a lowering is a function of a `FlatOp` that adds operators and defines
the operation's outputs, or raises Inexpressible. Each family's `ROWS` say for which types it is.
"""

from ep_nnapi.litert.operation import FlatOp
from ep_nnapi.nnapi.families import families
from ep_nnapi.ort_devices.operation import LoweringTable, table

LOWERINGS: LoweringTable[FlatOp] = table(
    *(row for f in families(__name__, __path__) for row in getattr(f, "ROWS", ()))
)
"""Lowerings by operation and type of the signature's type variable T."""
