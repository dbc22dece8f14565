"""Clusters that a device declines: whether for their size."""

from __future__ import annotations

import pytest

from ep_nnapi.provider.declined import Declined
from tests.faulty import FaultyDevice
from tests.provider.test_compiler import compiler, lowered


@pytest.mark.parametrize(
    ("code", "too_large"),
    [
        ("OUT_OF_MEMORY", True),
        ("RESOURCE_EXHAUSTED_TRANSIENT", True),
        ("RESOURCE_EXHAUSTED_PERSISTENT", True),
        ("OP_FAILED", False),
        ("BAD_DATA", False),
    ],
)
def test_codes_of_models_that_are_too_large(code: str, too_large: bool):
    device = FaultyDevice(refuses_above=1, code=code)
    with pytest.raises(Declined) as caught:
        compiler(device).compile(lowered(device))
    assert caught.value.too_large is too_large
    assert caught.value.names == frozenset()
    assert "faulty did not compile its cluster" in caught.value.detail
    assert f"ANEURALNETWORKS_{code}" in caught.value.detail
