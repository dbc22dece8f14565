"""The constants of containers, each of which stands once."""

import numpy as np

from ep_nnapi.epcontext.layout import ALIGNMENT
from ep_nnapi.epcontext.pool import ConstantPool

GATES = [np.random.default_rng(i).bytes(2 * ALIGNMENT) for i in range(4)]


def array(*parts: bytes) -> np.ndarray:
    return np.frombuffer(b"".join(parts), np.uint8)


def test_a_constant_is_pooled_once() -> None:
    pool, first, second = ConstantPool(), np.zeros(3, np.uint8), np.ones(ALIGNMENT, np.uint8)
    assert [pool.add(a) for a in (first, second, first)] == [(0, 3), (ALIGNMENT, 64), (0, 3)]
    assert (len(pool.arrays), pool.size) == (2, 2 * ALIGNMENT)


def test_parts_stand_in_what_they_are_parts_of() -> None:
    """Whichever comes first, as far as it was expected."""
    whole, parts = array(*GATES), [array(gate) for gate in GATES]
    other = array(GATES[0][:-1] + b"\0")
    for given in ([whole, *parts], [*parts, whole]):
        pool = ConstantPool()
        pool.expect([*given, other])
        found = {id(each): pool.add(each) for each in given}
        for number, part in enumerate(parts):
            assert found[id(part)] == (number * 128, 128)
        assert (found[id(whole)], pool.size) == ((0, 512), 512)
        assert pool.add(other)[0] == 512
    assert ConstantPool().add(parts[1]) == (0, 128)


def test_a_part_at_no_multiple_of_the_alignment_stands_alone() -> None:
    pool, whole = ConstantPool(), array(*GATES)
    part = whole[8 : 8 + ALIGNMENT].copy()
    pool.expect([whole, part])
    assert [pool.add(whole), pool.add(part)] == [(0, 512), (512, 64)]


def test_zeros_are_parts_of_zeros() -> None:
    pool, large, small = ConstantPool(), np.zeros(1 << 20, np.uint8), np.zeros(100, np.uint8)
    pool.expect([small, large])
    assert [pool.add(small), pool.add(large)] == [(0, 100), (0, 1 << 20)]
