"""Tables of containers, as they are written and read."""

from collections.abc import Callable
from typing import Any

import pytest

from ep_nnapi.epcontext.container import pack, split, unpack
from ep_nnapi.epcontext.layout import ALIGNMENT, TABLES
from ep_nnapi.lowering.model_builder import Lowered
from ep_nnapi.nnapi.errors import ModelError
from ep_nnapi.nnapi.model import Data, Model
from tests.epcontext.forging import branching, changed, lowered, quantized_digits

CLUSTERS = [lowered, quantized_digits, branching]


@pytest.mark.parametrize("make", CLUSTERS)
def test_a_cluster_comes_back(make: Callable[[], Lowered]) -> None:
    whole = make()
    again = unpack(pack(whole).with_embedded_weights(), None, 8).lowered
    assert again.model == whole.model
    expected = [op.origin for op in whole.model.operations]
    assert [op.origin for op in again.model.operations] == expected
    assert again.border == whole.border


@pytest.mark.parametrize("make", CLUSTERS)
def test_what_is_read_writes_the_same_bytes(make: Callable[[], Lowered]) -> None:
    data = pack(make()).with_embedded_weights()
    assert pack(unpack(data, None, 8).lowered).with_embedded_weights() == data


def test_a_referenced_model_is_written_once_and_after_its_references() -> None:
    header, _, _ = split(pack(branching()).with_embedded_weights())
    assert header["models"]["count"] == 2
    model = unpack(pack(branching()).with_embedded_weights(), None, 8).lowered.model
    first, second = model.operands[2].value, model.operands[3].value
    assert isinstance(first, Model)
    assert first is second


def test_tables_and_constants_are_aligned() -> None:
    data = pack(quantized_digits()).with_embedded_weights()
    header, program, _ = split(data)
    assert all(header[t.name]["first"] % 8 == 0 for t in TABLES)
    assert len(program) % ALIGNMENT == 0
    constants = [
        o.value.bytes
        for o in unpack(data, None, 8).lowered.model.operands
        if isinstance(o.value, Data)
    ]
    addresses = [c.ctypes.data for c in constants]
    assert len(set(addresses)) > 10
    assert {(a - min(addresses)) % ALIGNMENT for a in addresses} == {0}


DATA = pack(branching()).with_embedded_weights()


def setting(**values: object) -> Callable[[Any], None]:
    """Sets fields of a row; `first` and `count` of a range as name_first and name_count."""

    def change(rows: Any) -> None:
        for name, value in values.items():
            field, _, part = name.rpartition("_")
            if part in ("first", "count"):
                rows[field][part] = value
            else:
                rows[name] = value

    return change


def number(value: int) -> Callable[[Any], None]:
    def change(rows: Any) -> None:
        rows[0] = value

    return change


@pytest.mark.parametrize(
    ("table", "row", "change", "says"),
    [
        ("header", 0, setting(models_count=0), "a range of 2 from 0 lies outside"),
        ("header", 0, setting(choices=0), "0 of 1 alternatives compute it"),
        ("header", 0, setting(choices=2), "2 of 1 alternatives compute it"),
        ("alternatives", 0, setting(kind=4), "alternative 0 is not what its kind 4 has"),
        ("alternatives", 0, setting(kind=3), "not what its kind 3 has"),
        ("alternatives", 0, setting(feature_level=0), "not what its kind 0 has"),
        ("alternatives", 0, setting(parts_count=1), "not what its kind 0 has"),
        ("alternatives", 0, setting(models_count=1), "to an earlier one, to itself or to none"),
        ("alternatives", 0, setting(size=1), "not what its kind 0 has"),
        ("header", 0, setting(operands_count=1 << 20), "the table operands lies outside"),
        ("header", 0, setting(operands_first=1), "the table operands lies outside"),
        ("header", 0, setting(text_first=2**32 - 1), "the table text lies outside"),
        ("header", 0, setting(flags=2), "sets bits that have no meaning"),
        ("header", 0, setting(reserved=1), "sets bits that have no meaning"),
        ("models", 0, setting(operands_count=99), "a range of 99 from 0 lies outside"),
        ("models", 0, setting(relaxed=2), "relaxed is 2"),
        ("operands", 2, setting(offset=0), "model 0 refers to an earlier one, to itself"),
        ("operands", 2, setting(offset=2), "model 0 refers to an earlier one"),
        ("operands", 0, setting(value=4), "value is of kind 4"),
        ("operands", 0, setting(type=16), "16 is no operand type"),
        ("operands", 7, setting(size=2**40), "a constant lies outside of the weights"),
        ("operands", 7, setting(offset=2**63), "a constant lies outside of the weights"),
        ("operations", 0, setting(type=106), "106"),
        ("operations", 0, setting(origin_first=9), "lies outside of the table names"),
        ("crossings", 0, setting(operand=2), "does not fit its operand"),
        ("crossings", 0, setting(operand=1), "does not fit"),
        ("crossings", 0, setting(element_type=8), "which does not fit its operand"),
        ("crossings", 1, setting(permutation_count=1), "x does not fit its operand"),
        ("sizes", 0, number(-2), "x does not fit its operand"),
        ("text", 0, number(0xFF), "a name is not UTF-8"),
    ],
)
def test_malformed_tables_are_refused(table, row, change, says):
    unpack(changed(DATA, table, row, lambda rows: None), None, 8)
    with pytest.raises(ModelError, match="the context is malformed") as refused:
        unpack(changed(DATA, table, row, change), None, 8)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)
