"""Rows found by index and by key, row by row."""

import numpy as np
import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.model import Operand
from tests.nnapi.host.boxed import indexes, refuses
from tests.nnapi.host.oracle import F16, F32, I32, Q8, Q8S, run, store

SEED = 20260815
HITS = Operand(Q8, (), 1.0)


def table(code, *shape):
    numbers = np.random.default_rng(SEED).integers(-50, 50, shape)
    like = Operand(code, (), 0.5, 3) if code.quantized else None
    return store(numbers, code, like)


def of(stored):
    return Operand(stored.operand.type, (), stored.operand.scale, stored.operand.zero_point)


@pytest.mark.parametrize("code", [F32, F16, I32, Q8, Q8S], ids=lambda c: c.name)
@pytest.mark.parametrize("shape", [(4, 3), (4, 2, 3, 2, 2)], ids=str)
def test_embedding_lookup(code, shape):
    values, wanted = table(code, *shape), [3, 0, 3, 1, 2]
    given = {"lookups": indexes(wanted), "values": values}
    for constant in (False, True):
        (got,) = run(spec.EMBEDDING_LOOKUP, given, of(values), constant=constant)
        assert got.dtype == code.numpy
        assert np.array_equal(got, np.stack([values.array[i] for i in wanted]))


def test_embedding_lookup_of_nothing():
    given = {"lookups": indexes([]), "values": table(F32, 2, 3)}
    assert run(spec.EMBEDDING_LOOKUP, given, Operand(F32))[0].shape == (0, 3)


@pytest.mark.parametrize("wrong", [4, -1])
def test_an_index_that_the_table_lacks_is_refused(wrong):
    given = {"lookups": indexes([0, wrong]), "values": table(F32, 4, 3)}
    refuses(f"there is no row {wrong} of 4", spec.EMBEDDING_LOOKUP, given, Operand(F32))


@pytest.mark.parametrize("code", [F32, I32, Q8], ids=lambda c: c.name)
@pytest.mark.parametrize("shape", [(4,), (4, 3), (4, 2, 3)], ids=str)
def test_hashtable_lookup(code, shape):
    keys, wanted = [-7, 0, 5, 123456], [5, 6, -8, 123456, -7, 123457, 5]
    values = table(code, *shape)
    given = {"lookups": indexes(wanted), "keys": indexes(keys), "values": values}
    for constant in (False, True):
        got, hits = run(spec.HASHTABLE_LOOKUP, given, of(values), HITS, constant=constant)
        rows = dict(zip(keys, values.array, strict=True))
        missing = np.zeros(shape[1:], code.numpy)
        assert np.array_equal(got, np.stack([rows.get(key, missing) for key in wanted]))
        assert hits.tolist() == [int(key in rows) for key in wanted]


def test_hashtable_lookup_in_an_empty_table():
    values = store(np.zeros((0, 2)), F32)
    given = {"lookups": indexes([1, 2]), "keys": indexes([]), "values": values}
    got, hits = run(spec.HASHTABLE_LOOKUP, given, Operand(F32), HITS)
    assert got.tolist() == [[0, 0], [0, 0]]
    assert hits.tolist() == [0, 0]


def test_a_key_for_each_row():
    given = {"lookups": indexes([1]), "keys": indexes([1, 2, 3]), "values": table(F32, 4, 3)}
    refuses("sizes 3 and 4 must be equal", spec.HASHTABLE_LOOKUP, given, Operand(F32), HITS)
