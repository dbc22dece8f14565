"""Lowerings of NNAPI operations to LiteRT operators, one module for each family.

As in `ort_devices.lowering`: a lowering is a function of a `FlatOp` that adds operators and defines
the operation's outputs, or raises Inexpressible. Each family's `ROWS` say for which types it is.
"""

from ep_nnapi.litert.lowering import (
    activation,
    conversion,
    convolution,
    elementwise,
    movement,
    normalization,
    pooling,
    reduction,
    resize,
    slicing,
)
from ep_nnapi.litert.operation import FlatOp
from ep_nnapi.ort_devices.row import Table, table

LOWERINGS: Table[FlatOp] = table(
    *activation.ROWS,
    *conversion.ROWS,
    *convolution.ROWS,
    *elementwise.ROWS,
    *movement.ROWS,
    *normalization.ROWS,
    *pooling.ROWS,
    *reduction.ROWS,
    *resize.ROWS,
    *slicing.ROWS,
)
"""Lowerings by operation and type of the signature's type variable T."""
