"""Tables with one wrong fact are refused with a sentence that names it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ep_nnapi.epcontext.container import pack, unpack
from ep_nnapi.epcontext.table_reader import check_border
from ep_nnapi.nnapi.errors import ModelError
from tests.epcontext.clusters import branching, lowered
from tests.epcontext.forging import changed

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
        ("header", 0, setting(models_count=0), "it has no model"),
        ("header", 0, setting(operands_count=1 << 20), "the table operands lies outside"),
        ("header", 0, setting(operands_first=1), "the table operands lies outside"),
        ("header", 0, setting(text_first=2**32 - 1), "the table text lies outside"),
        ("header", 0, setting(flags=2), "sets bits that have no meaning"),
        ("header", 0, setting(reserved=1), "sets bits that have no meaning"),
        ("models", 0, setting(operands_count=99), "a range of 99 from 0 lies outside"),
        ("models", 0, setting(relaxed=2), "relaxed is 2"),
        ("operands", 2, setting(offset=0), "model 0 refers to an earlier one or to itself"),
        ("operands", 2, setting(offset=2), "2"),
        ("operands", 0, setting(value=4), "value is of kind 4"),
        ("operands", 0, setting(type=16), "16 is not a valid OperandCode"),
        ("operands", 7, setting(size=2**40), "a constant lies outside of the weights"),
        ("operands", 7, setting(offset=2**63), "a constant lies outside of the weights"),
        ("operations", 0, setting(type=106), "106"),
        ("operations", 0, setting(origin_first=9), "lies outside of its table"),
        ("inputs", 0, setting(operand=2), "index out of range"),
        ("inputs", 0, setting(operand=1), "does not fit"),
        ("inputs", 0, setting(element_type=8), "which does not fit its operand"),
        ("inputs", 1, setting(permutation_count=1), "x does not fit its operand"),
        ("sizes", 0, number(-2), "x does not fit its operand"),
        ("text", 0, number(0xFF), "codec can't decode"),
    ],
)
def test_malformed_tables_are_refused(
    table: str, row: int, change: Callable[[Any], None], says: str
) -> None:
    unpack(changed(DATA, table, row, lambda rows: None), None, 8)
    with pytest.raises(ModelError, match="the context is malformed") as refused:
        unpack(changed(DATA, table, row, change), None, 8)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "change", [{"operand": 1}, {"shape": (7,)}, {"perm": (0, 0)}, {"nnapi_dtype": np.dtype("u1")}]
)
def test_a_border_that_does_not_fit_is_refused(change: dict[str, object]) -> None:
    whole = lowered()
    check_border(whole.border, whole.model)
    (first,) = whole.border.inputs
    with pytest.raises(ValueError, match="does not fit"):
        check_border(replace(whole.border, inputs=(replace(first, **change),)), whole.model)
