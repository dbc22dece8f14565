"""Operand lists in text: parsed, aligned with a number of operands, malformed."""

import pytest

from ep_nnapi.nnapi.params import align, parse_params

PADDED = parse_params("input:T padding:i? | layout:b@3 | dilation:i@3 factor:i@3")
JOINED = parse_params("first:T inputs:T+ axis:i")


def test_parameters_have_types_levels_and_options():
    assert [p.name for p in PADDED] == ["input", "padding", "layout", "dilation", "factor"]
    assert [p.type for p in PADDED] == ["T", "i", "b", "i", "i"]
    assert [p.level for p in PADDED] == [1, 1, 3, 3, 3]
    assert [p.optional for p in PADDED] == [False, True, False, False, False]


@pytest.mark.parametrize("count", range(7))
def test_a_list_ends_after_a_group(count: int):
    found = align(PADDED, count)
    assert (found is not None) == (count in (2, 3, 5))
    assert found is None or found == PADDED[:count]


@pytest.mark.parametrize("count", range(6))
def test_a_repeated_parameter_takes_what_is_left(count: int):
    found = align(JOINED, count)
    names = ["first", *["inputs"] * (count - 2), "axis"] if count >= 3 else None
    assert (None if found is None else [p.name for p in found]) == names


@pytest.mark.parametrize("text", ["input", "input:", "input:T**", "input:T@x", ":T"])
def test_malformed_parameters_are_named(text: str):
    with pytest.raises(ValueError, match="malformed parameter"):
        parse_params(f"{text} axis:i")
