"""Kinds of outputs: which property of a model decides, and the tolerance of each kind."""

from __future__ import annotations

import numpy as np
import pytest

from ep_nnapi.diagnostics.output_kinds import TOLERANCES, Kind, Traits


def test_every_kind_has_a_tolerance() -> None:
    assert set(TOLERANCES) == set(Kind)


@pytest.mark.parametrize(
    ("traits", "dtype", "kind"),
    [
        (Traits(), np.float32, Kind.FLOAT32),
        (Traits(), np.float64, Kind.FLOAT32),
        (Traits(), np.float16, Kind.FLOAT16),
        (Traits(half=True), np.float32, Kind.FLOAT16),
        (Traits(), np.int64, Kind.INTEGER),
        (Traits(half=True), np.bool_, Kind.INTEGER),
        (Traits(quantized=True), np.float32, Kind.QUANTIZED),
        (Traits(quantized=True), np.uint8, Kind.QUANTIZED),
        (Traits(quantized=True, boxes=frozenset("y")), np.float32, Kind.BOXES),
        (Traits(boxes=frozenset("z")), np.float32, Kind.FLOAT32),
        (Traits(quantized=True, random=frozenset("y")), np.float32, Kind.RANDOM),
    ],
)
def test_kind(traits: Traits, dtype: type, kind: Kind) -> None:
    assert traits.kind("y", np.zeros(2, dtype)) is kind
