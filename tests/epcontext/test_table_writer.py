"""Models and borders as tables and back."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from ep_nnapi.epcontext.container import pack, split, unpack
from ep_nnapi.epcontext.layout import ALIGNMENT, TABLES
from ep_nnapi.epcontext.table_writer import ConstantPool
from ep_nnapi.lowering.model_builder import Lowered
from ep_nnapi.nnapi.model import Data, Model
from tests.epcontext.clusters import branching, lowered, quantized_digits

CLUSTERS = [lowered, quantized_digits, branching]


@pytest.mark.parametrize("make", CLUSTERS)
def test_a_cluster_comes_back(make: Callable[[], Lowered]) -> None:
    whole = make()
    again = unpack(pack(whole).with_embedded_weights(), None, 8).lowered
    assert again.model == whole.model
    assert [op.origin for op in again.model.operations] == [
        op.origin for op in whole.model.operations
    ]
    assert again.border == whole.border


@pytest.mark.parametrize("make", CLUSTERS)
def test_what_is_read_writes_the_same_bytes(make: Callable[[], Lowered]) -> None:
    data = pack(make()).with_embedded_weights()
    assert pack(unpack(data, None, 8).lowered).with_embedded_weights() == data


def test_a_referenced_model_is_written_once_and_after_its_references() -> None:
    header, _, _ = split(pack(branching()).with_embedded_weights())
    assert header["models"]["count"] == 2
    model = unpack(pack(branching()).with_embedded_weights(), None, 8).lowered.model
    first, second = model.operands[2].value, model.operands[3].value
    assert isinstance(first, Model)
    assert first is second


def test_tables_and_constants_are_aligned() -> None:
    data = pack(quantized_digits()).with_embedded_weights()
    header, program, _ = split(data)
    assert all(header[t.name]["first"] % 8 == 0 for t in TABLES)
    assert len(program) % ALIGNMENT == 0
    constants = [
        o.value.bytes
        for o in unpack(data, None, 8).lowered.model.operands
        if isinstance(o.value, Data)
    ]
    addresses = [c.ctypes.data for c in constants]
    assert len(set(addresses)) > 10
    assert {(a - min(addresses)) % ALIGNMENT for a in addresses} == {0}


def test_a_constant_is_pooled_once() -> None:
    pool, first, second = ConstantPool(), np.zeros(3, np.uint8), np.ones(ALIGNMENT, np.uint8)
    assert [pool.add(a) for a in (first, second, first)] == [(0, 3), (ALIGNMENT, 64), (0, 3)]
    assert (len(pool.arrays), pool.size) == (2, 2 * ALIGNMENT)
