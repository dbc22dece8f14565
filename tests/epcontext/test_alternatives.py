"""Alternatives of a cluster: what they share, and what each must have."""

import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ep_nnapi.epcontext.alternatives import Alternative, check, everything
from ep_nnapi.epcontext.container import pack, unpack
from ep_nnapi.epcontext.layout import AlternativeKind
from ep_nnapi.nnapi.errors import ModelError
from tests.epcontext.forging import changed, lowered, several


def test_alternatives_share_one_copy_of_the_weights() -> None:
    given = several()
    alone, packed = pack(given[0]), pack(*given)
    linked = 64 * 4  # of a flatbuffer and three models
    assert packed.size == alone.size + linked
    read = unpack(packed.with_embedded_weights(), None, 8)
    found = everything(read.alternatives)
    assert [(a.name, a.kind, a.feature_level, a.border) for a in found] == [
        (a.name, a.kind, a.feature_level, a.border) for a in everything(given)
    ]
    assert found[0].model == found[2].model == given[0].model
    weights = bytes(read.weights)
    for each in found:
        if each.data is not None:
            at, *offsets = struct.unpack_from("<3Q", each.data)
            assert (at == 0) is (each.kind is AlternativeKind.LITERT)  # before what it refers to
            assert len(each.data) == (len(weights) if at == 0 else 24)
            for offset, constant in zip(offsets, given[1].linked.constants, strict=False):
                assert offset >= linked // 4
                assert weights[offset:][: constant.size] == bytes(constant)
    assert read.feature_level == 0
    assert unpack(pack(given[0]).with_embedded_weights(), None, 8).feature_level > 0


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda rows: rows["parts"].__setitem__("first", 4), "parts of alternative 4 are none"),
        (lambda rows: rows["parts"].__setitem__("count", 1 << 31), "of alternative 4 are none"),
        (lambda rows: rows["parts"].__setitem__("count", 1), "y is read before a part makes it so"),
        (lambda rows: rows["inputs"].__setitem__("count", 0), "x is read before a part makes it"),
        (lambda rows: rows.__setitem__("outputs", rows["inputs"]), "x is read before a part makes"),
    ],
)
def test_the_parts_of_a_partition_feed_one_another(
    change: Callable[[Any], None], says: str
) -> None:
    data = pack(*several()).with_embedded_weights()
    with pytest.raises(ModelError, match=says):
        unpack(changed(data, "alternatives", 4, change), None, 8)


@pytest.mark.parametrize(
    "change", [{"operand": 1}, {"shape": (7,)}, {"perm": (0, 0)}, {"nnapi_dtype": np.dtype("u1")}]
)
def test_a_border_that_does_not_fit_is_refused(change: dict[str, object]) -> None:
    whole = Alternative.nnapi(lowered())
    check(whole)
    (first,) = whole.border.inputs
    border = replace(whole.border, inputs=(replace(first, **change),))
    with pytest.raises(ValueError, match="does not fit"):
        check(replace(whole, border=border))
