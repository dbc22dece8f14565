"""Alternatives of a cluster: what they share, and what each must have."""

import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ep_nnapi.epcontext.alternatives import Alternative, everything
from ep_nnapi.epcontext.container import pack, unpack
from ep_nnapi.graph.value import DType
from ep_nnapi.nnapi.errors import ModelError
from tests.epcontext.forging import changed, lowered, repacked, several


def test_alternatives_share_one_copy_of_the_weights() -> None:
    given = several()
    alone, packed = pack(given[0]), pack(*given)
    assert packed.size == alone.size
    read = unpack(packed.with_embedded_weights(), None, 8)
    found = everything(read.alternatives)
    expected = [(a.name, a.kind, a.feature_level, a.border) for a in everything(given)]
    assert [(a.name, a.kind, a.feature_level, a.border) for a in found] == expected
    assert found[0].model == found[2].model == given[0].model
    weights = bytes(read.weights)
    for each in found:
        if each.data is not None:
            offsets = struct.unpack("<2Q", each.data)
            for offset, constant in zip(offsets, given[1].linked.constants, strict=False):
                assert weights[offset:][: constant.size] == bytes(constant)
    assert read.feature_level == 0
    assert unpack(pack(given[0]).with_embedded_weights(), None, 8).feature_level > 0


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda rows: rows["parts"].__setitem__("first", 0), "parts of alternative 0 are none"),
        (lambda rows: rows["parts"].__setitem__("count", 1 << 31), "of alternative 0 are none"),
        (
            lambda rows: rows["parts"].__setitem__("count", 1),
            "read before a part makes it",
        ),
        (lambda rows: rows["inputs"].__setitem__("count", 0), "read before a part makes it"),
        (
            lambda rows: rows.__setitem__("outputs", rows["inputs"]),
            "read before a part makes it",
        ),
    ],
)
def test_the_parts_of_a_partition_feed_one_another(change: Callable[[Any], None], says: str):
    data = pack(*several()).with_embedded_weights()
    forged = repacked(data, 4, lambda own: changed(own, "alternatives", 0, change))
    last = unpack(forged, None, 8).later[-1]
    with pytest.raises(ModelError, match=says):
        last.opened()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda data: changed(data, "header", 0, lambda h: _grow(h, "weights_size")), "weights"),
        (lambda data: changed(data, "header", 0, lambda h: _grow(h, "choices")), "has other"),
        (lambda _: pack(several()[3]).with_embedded_weights(), "has other weights"),
        (lambda data: data[:-1], "truncated"),
        (lambda data: bytes(1 << 20) + data, "no ep-nnapi context|is not an ep-nnapi context"),
    ],
)
def test_a_later_alternative_is_for_the_same_weights(change: Callable[[bytes], bytes], says: str):
    forged = repacked(pack(*several()).with_embedded_weights(), 2, change)
    with pytest.raises(ModelError, match=says):
        unpack(forged, None, 8).later[1].opened()


def _grow(rows: Any, field: str) -> None:
    rows[field] += 1


def test_a_later_alternative_is_what_its_row_says() -> None:
    data = pack(*several()).with_embedded_weights()
    for field in ("kind", "feature_level"):
        forged = changed(data, "alternatives", 3, lambda rows, field=field: _grow(rows, field))
        with pytest.raises(ModelError, match="a packed alternative is another one"):
            unpack(forged, None, 8).later[2].opened()
    with pytest.raises(ModelError, match="alternative 3 is not packed"):
        unpack(
            changed(data, "alternatives", 3, lambda rows: _grow(rows["parts"], "count")), None, 8
        )


def test_nothing_but_the_first_is_read() -> None:
    """Bytes of others that are no programs are of no concern until one is used."""
    data = pack(*several()).with_embedded_weights()
    read = unpack(changed(data, "packed", 0, lambda rows: rows.fill(0)), None, 8)
    assert read.first.name == several()[0].name
    assert [each.name for each in read.later] == [each.name for each in several()[1:]]
    with pytest.raises(ModelError, match="a packed alternative is corrupt"):
        read.later[0].opened()


@pytest.mark.parametrize(
    "change", [{"operand": 1}, {"shape": (7,)}, {"perm": (0, 0)}, {"dtype": DType.UINT8}]
)
def test_a_border_that_does_not_fit_is_refused(change: dict[str, object]) -> None:
    whole = Alternative.nnapi(lowered())
    unpack(pack(whole).with_embedded_weights(), None, 8)
    (first,) = whole.border.inputs
    border = replace(whole.border, inputs=(replace(first, **change),))
    with pytest.raises(ModelError, match="does not fit"):
        unpack(pack(replace(whole, border=border)).with_embedded_weights(), None, 8)
