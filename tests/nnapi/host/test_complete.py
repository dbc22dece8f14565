"""Every operation of the table has a kernel for every type, and a shape function."""

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.host.kernels.table import find
from ep_nnapi.nnapi.shapes import SHAPES

LATER = ["IF", "WHILE"]
"""Their outputs' shapes are those of the models that run."""


def test_every_operation_has_a_kernel_for_every_type():
    missing = [
        (row.name, typing.types.get("T"))
        for row in spec.OPERATIONS
        for typing in row.typings
        if find(row, typing.types.get("T")) is None
    ]
    assert not missing


def test_every_operation_has_a_shape_function():
    assert [row.name for row in spec.OPERATIONS if row not in SHAPES] == LATER
