"""Shapes of look-ups, projections and draws: what follows from what is known."""

from __future__ import annotations

import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.shapes import Pending, ShapeError, Tensor, infer


def t(*dims):
    return Tensor(dims)


EMBEDDING = {"lookups": t(5), "values": t(9, 2, 3)}
HASHTABLE = {"lookups": t(5), "keys": t(9), "values": t(9, 2)}
PROJECTION = {"hash": t(4, 7), "input": t(3, 2), "weight": t(3), "type": 2}
DRAWS = {"input": t(2, 5), "sample_count": 7, "seeds": t(2)}
CASES = [
    (spec.EMBEDDING_LOOKUP, EMBEDDING, {}, ((5, 2, 3),)),
    (spec.EMBEDDING_LOOKUP, EMBEDDING, {"lookups": t(None)}, ((None, 2, 3),)),
    (spec.EMBEDDING_LOOKUP, EMBEDDING, {"values": Tensor(None)}, (None,)),
    (spec.HASHTABLE_LOOKUP, HASHTABLE, {}, ((5, 2), (5,))),
    (spec.HASHTABLE_LOOKUP, HASHTABLE, {"keys": t(None)}, ((5, 2), (5,))),
    (spec.HASHTABLE_LOOKUP, HASHTABLE, {"values": t(9)}, ((5,), (5,))),
    (spec.LSH_PROJECTION, PROJECTION, {}, ((28,),)),
    (spec.LSH_PROJECTION, PROJECTION, {"hash": t(4, 32), "type": 3, "weight": None}, ((4,),)),
    (spec.LSH_PROJECTION, PROJECTION, {"hash": t(None, 7), "type": 1}, ((None,),)),
    (spec.LSH_PROJECTION, PROJECTION, {"hash": t(4, None)}, ((None,),)),
    (spec.LSH_PROJECTION, PROJECTION, {"weight": Tensor(None)}, ((28,),)),
    (spec.LSH_PROJECTION, PROJECTION, {"type": Pending.PENDING}, (None,)),
    (spec.RANDOM_MULTINOMIAL, DRAWS, {}, ((2, 7),)),
    (spec.RANDOM_MULTINOMIAL, DRAWS, {"input": t(None, 5), "sample_count": 0}, ((None, 0),)),
    (spec.RANDOM_MULTINOMIAL, DRAWS, {"seeds": Tensor(None)}, ((2, 7),)),
]


@pytest.mark.parametrize(("row", "operands", "change", "expected"), CASES)
def test_shapes(row, operands, change, expected):
    assert infer(row, operands | change, len(expected)) == expected


REFUSALS = [
    (spec.EMBEDDING_LOOKUP, EMBEDDING, {"values": t(9)}, "at least 2 dimensions, not 1"),
    (spec.EMBEDDING_LOOKUP, EMBEDDING, {"lookups": t(5, 1)}, "a list has 1 dimension, not 2"),
    (spec.HASHTABLE_LOOKUP, HASHTABLE, {"values": t(8)}, "sizes 9 and 8 must be equal"),
    (spec.HASHTABLE_LOOKUP, HASHTABLE, {"keys": t(8)}, "sizes 8 and 9 must be equal"),
    (spec.LSH_PROJECTION, PROJECTION, {"hash": t(28)}, "hash functions have 2 dimensions, not 1"),
    (spec.LSH_PROJECTION, PROJECTION, {"hash": t(1, 33)}, "hash has functions of 33 bits"),
    (spec.LSH_PROJECTION, PROJECTION, {"weight": t(2)}, "sizes 2 and 3 must be equal"),
    (spec.LSH_PROJECTION, PROJECTION, {"type": 0}, "projection type 0 is none of 1 to 3"),
    (spec.RANDOM_MULTINOMIAL, DRAWS, {"input": t(5)}, "log-probabilities have 2 dimensions"),
    (spec.RANDOM_MULTINOMIAL, DRAWS, {"sample_count": -1}, "sample_count is -1"),
    (spec.RANDOM_MULTINOMIAL, DRAWS, {"seeds": t(3)}, "sizes 3 and 2 must be equal"),
]


@pytest.mark.parametrize(("row", "operands", "change", "sentence"), REFUSALS)
def test_refusals(row, operands, change, sentence):
    with pytest.raises(ShapeError) as caught:
        infer(row, operands | change, 2)
    assert sentence in str(caught.value)
