"""Temporaries share memory, and never while both are needed."""

from hypothesis import given
from hypothesis import strategies as st

from ep_nnapi.nnapi.host.execution_plan import ALIGNMENT, StepsAlive, assign_offsets, block


@st.composite
def extents(draw):
    found = []
    for key in range(draw(st.integers(0, 12))):
        first = draw(st.integers(0, 9))
        last = draw(st.integers(first, 9))
        found.append(StepsAlive(key, draw(st.integers(0, 300)), first, last))
    return found


@given(extents())
def test_what_lives_at_once_lies_apart(drawn):
    layout = assign_offsets(drawn)
    for a in drawn:
        start, end = layout.offsets[a.key], layout.offsets[a.key] + a.size
        assert start % ALIGNMENT == 0
        assert 0 <= start <= end <= layout.size
        for b in drawn:
            if a.key < b.key and a.first <= b.last and b.first <= a.last and a.size and b.size:
                other = layout.offsets[b.key]
                assert end <= other or other + b.size <= start


def test_a_chain_needs_two_places():
    steps = [StepsAlive(n, 640, n, n + 1) for n in range(10)]
    assert assign_offsets(steps).size == 1280


def test_a_block_is_aligned():
    assert block(100).ctypes.data % ALIGNMENT == 0
    assert block(100).size == 100
