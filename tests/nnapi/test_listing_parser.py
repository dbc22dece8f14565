"""Listings read back: damage is one sentence with the number of the line."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ep_nnapi.nnapi.errors import ModelError
from ep_nnapi.nnapi.listing import listing, parse
from tests.nnapi.listings import TEXT, bias, models


def complaint(text):
    """Error of `parse` for the text; None if it is read."""
    try:
        parse(text)
    except ModelError as error:
        return str(error)
    return None


def test_model_of_a_text():
    read = parse(TEXT)
    assert read == bias()
    assert read.operations[0].origin == ("Add_0", "Relu_0")


def test_blank_lines_and_trailing_blanks_do_not_matter():
    assert parse("\n" + TEXT.replace("\n", "  \n\n")) == bias()


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("model relaxed", "modell", 'line 1: expected "model" or "model relaxed"'),
        ("inputs %0", "inputs 0", 'line 2: expected "inputs %0 %1 …"'),
        ("  outputs %3\n", "", 'line 3: expected "outputs %0 %1 …"'),
        ("%0: T", "%1: T", "line 4: expected operand %0, found %1"),
        ("[4] constant", "[4 constant", 'line 5: expected "%1: TYPE [dimensions] value"'),
        ("TENSOR_FLOAT32 [4]", "TENSOR_F [4]", 'line 5: expected "%1: TYPE [dimensions] value"'),
        ("[4]", "[x]", "line 5: unreadable: invalid literal for int() with base 10: 'x'"),
        ("0.5", "half", "line 5: unreadable: could not convert string to float: 'half'"),
        ("0.5", "1e39", "line 5: unreadable: overflow"),
        (
            "constant 1",
            "constant 4294967296",
            "line 6: unreadable: a number is outside of -2147483648 to 2147483647",
        ),
        ("[0.5, 1.0, -2.0, 0.0]", "base64 !", "line 5: unreadable: "),
        ("4] input", "4] temporary", 'line 4: expected "input", found "temporary"'),
        ("4] output", "4] nothing", 'line 7: expected "output", found "nothing"'),
        ("ADD(", "ADDITION(", "line 8: there is no operation ADDITION"),
        ("ADD(", "ADD ", 'line 8: expected "OPERATION(%0, %1) -> %2"'),
        ("input2=%1", "input2", 'line 8: expected operands as "name=%0", found "input1=%0, input2'),
        ('["Add_0", "Relu_0"]', '["Add_0", 1]', "line 8: origins are names"),
        ('"Relu_0"]', "Relu_0]", "line 8: unreadable: "),
        ("  ADD", "     ADD", "line 8: expected the end or another indentation"),
        (TEXT, "", 'line 1: expected "model" or "model relaxed"'),
    ],
)
def test_malformed_text_names_the_line(old, new, sentence):
    assert old in TEXT
    changed = TEXT.replace(old, new, 1)
    with pytest.raises(ModelError) as caught:
        parse(changed)
    assert str(caught.value).startswith(sentence)
    assert "\n" not in str(caught.value)


def test_models_cannot_be_nested_without_end():
    lines = []
    for depth in range(2000):
        step = "    " * depth
        lines += [f"{step}model", f"{step}  inputs", f"{step}  outputs"]
        lines += [f"{step}  %0: MODEL subgraph"]
    with pytest.raises(ModelError, match="models are nested too deeply"):
        parse("\n".join(lines))


@given(models(1), st.data())
def test_any_damage_is_one_sentence_with_a_line_number(made, data):
    text = listing(made)
    at = data.draw(st.integers(0, len(text) - 1))
    changed = text[:at] + data.draw(st.text(max_size=3)) + text[at + 1 :]
    said = complaint(changed)
    assert said is None or re.fullmatch(r"line \d+: .+", said)
