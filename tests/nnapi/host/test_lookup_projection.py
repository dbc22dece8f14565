"""LSH_PROJECTION against bits computed one by one, and the lookup against published ones."""

import struct

import numpy as np
import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.host.kernels import lookup
from ep_nnapi.nnapi.host.kernels.lookup import fingerprint64
from ep_nnapi.nnapi.model import Operand
from tests.nnapi.host.boxed import refuses
from tests.nnapi.host.oracle import F16, F32, I32, Q8, run, store

SEED = 20260816
SPARSE_DEPRECATED, DENSE, SPARSE = 1, 2, 3

# One for each range of lengths, and its ends. Sources: BigQuery, FARM_FINGERPRINT (the first
# three); the test strings of FarmHash and its ports.
PUBLISHED = {
    "3true": 0xBC4631F2E60EE4D0,
    "1footrue": 0xEA9AF1C357A4CCC9,
    "2applefalse": 0x26C7D758028BA93B,
    "abcd": 0x1A5502DE4A1F8101,
    "abcdefg": 0x3C40C92B1CCB7355,
    "abcdefgh": 0xFEE9D22990C82909,
    "0123456789@0123": 0x5361EAE17C1FF6BC,
    "0123456789'01234": 0x4283D4EF43627F64,
    "0123456789=012345": 0x46A7416ED4861E3B,
    "C is as portable as Stonehedge!!": 0xB944F8A16261E414,
    "Discard medicine more than two years old.": 0xE8F89AB6DF9BDD25,
    "The days of the digital watch are numbered.  -Tom Stoppard": 0x2A578B80BB82147C,
    "For every action there is an equal and opposite government program.": 0x55182F8859ECA4CE,
    "The fugacity of a constituent in a mixture of gases at a given temperature is proportional to "
    "its mole fraction.  Lewis-Randall Rule": 0x098EFF6958C5E91A,
}


def of_text(text):
    return int(fingerprint64(np.frombuffer(text.encode(), np.uint8).reshape(1, -1))[0])


@pytest.mark.parametrize("text", PUBLISHED)
def test_fingerprints_are_the_published_ones(text):
    assert hex(of_text(text)) == hex(PUBLISHED[text])


@pytest.mark.parametrize("length", [4, 8, 16, 17, 33, 64, 65, 128, 129, 200])
def test_keys_are_hashed_one_by_one(length):
    keys = np.random.default_rng(SEED).integers(0, 256, (5, length), np.uint8)
    alone = [fingerprint64(key[np.newaxis])[0] for key in keys]
    assert fingerprint64(keys).tolist() == alone
    assert len(set(alone)) == 5


def test_the_shortest_key():
    with pytest.raises(ValueError, match="keys of 3 bytes, the shortest have 4"):
        fingerprint64(np.zeros((1, 3), np.uint8))


def bit(seed, items, weights):
    """True if the sum of weighted hashes, as signed numbers, of a seed before an item is > 0."""
    total = 0.0
    for item, weight in zip(items, weights, strict=True):
        key = struct.pack("<f", seed) + item.tobytes()
        (signed,) = fingerprint64(np.frombuffer(key, np.uint8).reshape(1, -1)).view(np.int64)
        total += float(signed) * float(weight)
    return int(total > 0)


def projected(operands):
    """Bits [functions, width]."""
    items = operands["input"].array
    weights = operands["weight"].real if operands["weight"] else np.ones(len(items))
    seeds = operands["hash"].array.astype(np.float32)
    return np.array([[bit(s, items, weights) for s in row] for row in seeds])


def operands(hashes, code, shape, weighted=True):
    rng = np.random.default_rng(SEED)
    return {
        "hash": store(rng.uniform(-9, 9, (4, 7)), hashes),
        "input": store(rng.integers(0, 99, shape), code, Operand(code, (), 1.0)),
        "weight": store(rng.uniform(-1, 1, shape[0]), hashes) if weighted else None,
    }


@pytest.mark.parametrize(
    ("hashes", "weighted"),
    [(F32, False), (F32, True), (F16, True)],
    ids=["plain", "weighted", "weighted halves"],
)
@pytest.mark.parametrize("code", [F32, F16, I32, Q8], ids=lambda c: c.name)
@pytest.mark.parametrize("shape", [(3,), (3, 2), (2, 5, 9)], ids=str)
def test_lsh_projection(hashes, code, shape, weighted):
    given = operands(hashes, code, shape, weighted)
    bits = projected(given)
    numbers = [int("".join(map(str, row)), 2) for row in bits]
    moved = [n + k * 2**7 for k, n in enumerate(numbers)]
    assert len(set(bits.reshape(-1).tolist())) == 2
    want = {DENSE: bits.reshape(-1).tolist(), SPARSE_DEPRECATED: numbers, SPARSE: moved}
    for kind, expected in want.items():
        (got,) = run(spec.LSH_PROJECTION, given | {"type": kind}, Operand(I32))
        assert got.tolist() == expected


def test_many_keys_are_hashed_in_blocks(monkeypatch):
    """More bytes than a block holds: 40 seeds for 300 items of 4 bytes."""
    monkeypatch.setattr(lookup, "_BLOCK", 1 << 14)
    rng = np.random.default_rng(SEED)
    given = {
        "hash": store(rng.uniform(-9, 9, (20, 2)), F32),
        "input": store(rng.integers(0, 1000, 300), I32),
        "weight": None,
    }
    (got,) = run(spec.LSH_PROJECTION, given | {"type": DENSE}, Operand(I32))
    assert got.tolist() == projected(given).reshape(-1).tolist()


def test_the_sum_of_no_items_is_not_positive():
    given = operands(F32, I32, (0, 2), weighted=False) | {"type": DENSE}
    assert not run(spec.LSH_PROJECTION, given, Operand(I32))[0].any()


def test_numbers_of_32_bits_wrap():
    given = operands(F32, I32, (3,), weighted=False)
    given["hash"] = store(np.random.default_rng(SEED).uniform(-9, 9, (2, 32)), F32)
    (got,) = run(spec.LSH_PROJECTION, given | {"type": SPARSE_DEPRECATED}, Operand(I32))
    numbers = [int("".join(map(str, row)), 2) for row in projected(given)]
    assert got.view(np.uint32).tolist() == numbers


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"type": 4}, "projection type 4 is none of 1 to 3"),
        ({"type": 0}, "projection type 0 is none of 1 to 3"),
        ({"hash": store(np.zeros((1, 33)), F32)}, "hash has functions of 33 bits"),
        ({"weight": store(np.ones(2), F32)}, "sizes 2 and 3 must be equal"),
    ],
    ids=str,
)
def test_lsh_projection_refusals(change, sentence):
    given = operands(F32, I32, (3,)) | {"type": DENSE} | change
    refuses(sentence, spec.LSH_PROJECTION, given, Operand(I32))
