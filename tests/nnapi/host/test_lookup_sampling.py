"""RANDOM_MULTINOMIAL: the distribution, and which draws; Philox against published numbers."""

import numpy as np
import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.host.kernels import lookup as philox
from ep_nnapi.nnapi.model import Operand
from tests.nnapi.host.boxed import indexes, refuses
from tests.nnapi.host.oracle import F16, F32, I32, run, store

# Source: Random123, kat_vectors of philox4x32 with ten rounds.
ONES = 0xFFFFFFFF
PUBLISHED = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((ONES,) * 4, (ONES, ONES), (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "words"), PUBLISHED)
def test_philox_is_the_published_one(counter, key, words):
    assert tuple(philox.philox(np.array([counter], np.uint64), key)[0]) == words


def test_uniform_numbers_follow_from_words():
    """Two words a number, 52 bits, the first word's low 20 bits on top."""
    words = philox.philox(np.array([[0, 0, 7, 0], [1, 0, 7, 0]], np.uint64), (5, 0)).tolist()
    pairs = [(row[i], row[i + 1]) for row in words for i in (0, 2)]
    want = [((high % 2**20) * 2**32 + low) / 2**52 for high, low in pairs]
    assert philox.uniform(4, 5, 7).tolist() == want
    assert philox.uniform(3, 5, 7).tolist() == want[:3]


def test_a_negative_seed_has_all_its_64_bits():
    words = philox.philox(np.array([[0, 0, ONES, ONES]], np.uint64), (ONES - 1, ONES)).tolist()[0]
    want = ((words[0] % 2**20) * 2**32 + words[1]) / 2**52
    assert philox.uniform(1, -2, -1).tolist() == [want]


def draw(code, logits, count, seeds=(37, 42)):
    given = {"input": store(logits, code), "sample_count": count, "seeds": indexes(seeds)}
    return run(spec.RANDOM_MULTINOMIAL, given, Operand(I32))[0]


LOGITS = np.array([[0.5, -1.0, 2.0, 0.0, -3.0], [-2.0, 0.25, 0.25, 1.5, -8.0]])


@pytest.mark.parametrize("code", [F32, F16], ids=lambda c: c.name)
def test_classes_come_with_their_probabilities(code):
    count = 40_000
    found = draw(code, LOGITS, count)
    assert found.shape == (2, count)
    odds = np.exp(store(LOGITS, code).real)
    odds /= odds.sum(axis=1, keepdims=True)
    shares = np.stack([np.bincount(row, minlength=5) for row in found]) / count
    # five standard deviations of a share
    assert (np.abs(shares - odds) < 5 * np.sqrt(odds * (1 - odds) / count) + 1e-9).all()


def test_a_draw_is_the_first_class_whose_cumulated_probability_is_beyond_a_uniform_number():
    """Rows take numbers one after another."""
    odds = np.exp(LOGITS)
    ends = np.cumsum(odds / odds.sum(axis=1, keepdims=True), axis=1)
    numbers = philox.uniform(14, -3, 9).reshape(2, 7)
    want = [
        [int(np.argmax(end > number)) for number in row]
        for row, end in zip(numbers, ends, strict=True)
    ]
    assert draw(F32, LOGITS, 7, (-3, 9)).tolist() == want


def test_seeds_decide_the_draws():
    first = draw(F32, LOGITS, 64)
    assert np.array_equal(first, draw(F32, LOGITS, 64))
    assert not np.array_equal(first, draw(F32, LOGITS, 64, (37, 43)))
    assert not np.array_equal(first, draw(F32, LOGITS, 64, (38, 42)))
    assert np.array_equal(draw(F32, LOGITS, 64, (0, 1)), draw(F32, LOGITS, 64, (0, 1)))


def test_two_zero_seeds_are_drawn_too():
    """Equal with a probability of less than 10**-20."""
    assert not np.array_equal(draw(F32, LOGITS, 64, (0, 0)), draw(F32, LOGITS, 64, (0, 0)))


@pytest.mark.parametrize("other", [-np.inf, np.nan, np.inf])
def test_a_class_that_is_not_finite_is_never_drawn(other):
    found = draw(F32, [[other, 0.0, other, 1.0, other]], 1000)
    assert set(found[0].tolist()) == {1, 3}


def test_random_multinomial_limits():
    assert draw(F32, [[7.0]], 3).tolist() == [[0, 0, 0]]
    assert draw(F32, LOGITS, 0).shape == (2, 0)
    given = {"input": store([[-np.inf, np.nan]], F32), "sample_count": 1, "seeds": indexes([1, 2])}
    sentence = "a row of log-probabilities has no finite number"
    refuses(sentence, spec.RANDOM_MULTINOMIAL, given, Operand(I32))
    given |= {"input": store(LOGITS, F32), "sample_count": -1}
    refuses("sample_count is -1", spec.RANDOM_MULTINOMIAL, given, Operand(I32))
    given |= {"sample_count": 1, "seeds": indexes([1, 2, 3])}
    refuses("sizes 3 and 2 must be equal", spec.RANDOM_MULTINOMIAL, given, Operand(I32))
