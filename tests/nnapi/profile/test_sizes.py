"""Sizes and values of sample operands name operands that there are."""

from __future__ import annotations

import pytest

from ep_nnapi.nnapi.profile.sizes import INDEXES, SCALARS, SIZES, size_of
from ep_nnapi.nnapi.spec import BY_NAME, OPERATIONS


def names(operation: str) -> set[str]:
    return {param.name for form in BY_NAME[operation].input_params for param in form}


EVERY = set().union(*(names(o.name) for o in OPERATIONS))


@pytest.mark.parametrize("operation", sorted({operation for operation, _ in SIZES}))
def test_tables_name_operations_and_operands(operation: str):
    """The operands of one kind of LSTM are listed for all kinds."""
    listed = {name for owner, name in SIZES if owner == operation}
    assert listed & names(operation)
    assert not {n for n in listed - names(operation) if "LSTM" not in operation} - {
        "aux_weights",
        "fw_aux_weights",
        "bw_aux_weights",
    }


def test_scalars_and_indexes_are_operands():
    for key in SCALARS:
        operation, name = key if isinstance(key, tuple) else (None, key)
        assert name in (EVERY if operation is None else names(operation)), key
    assert INDEXES.keys() <= EVERY


@pytest.mark.parametrize(("rank", "size"), [(1, 4), (4, 4), (5, 2)])
def test_tensors_of_many_dimensions_are_small(rank: int, size: int):
    assert size_of(rank) == size
