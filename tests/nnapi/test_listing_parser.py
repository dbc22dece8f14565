"""Listings read back: damage is one sentence with the number of the line."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ep_nnapi.errors import ModelError
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.listing import MAX_INLINE_ELEMENTS, listing, parse
from ep_nnapi.nnapi.model import ChannelQuantization, Data, Model, Omitted, Operand, Operation
from ep_nnapi.nnapi.spec import ADD, OPERATIONS
from tests.nnapi.build import F32, INT32, scalar, tensor

TEXT = """\
model relaxed
  inputs %0
  outputs %3
  %0: TENSOR_FLOAT32 [1, 4] input
  %1: TENSOR_FLOAT32 [4] constant [0.5, 1.0, -2.0, 0.0]
  %2: INT32 constant 1
  %3: TENSOR_FLOAT32 [1, 4] output
  ADD(input1=%0, input2=%1, activation=%2) -> output=%3 from ["Add_0", "Relu_0"]
"""


def bias():
    numbers = np.array([0.5, 1, -2, 0], np.float32)
    x, w = tensor(F32, 1, 4), tensor(F32, 4, value=Data.of(numbers))
    operation = Operation(ADD, (0, 1, 2), (3,), ("Add_0", "Relu_0"))
    return Model((x, w, scalar(INT32, 1), x), (operation,), (0,), (3,), relaxed=True)


finite = st.floats(allow_nan=False)
indexes = st.lists(st.integers(0, 99), max_size=4).map(tuple)


@st.composite
def constants(draw, code):
    if draw(st.booleans()):
        return Data.of(np.frombuffer(draw(st.binary(max_size=80)), np.uint8))
    count = draw(st.integers(1, MAX_INLINE_ELEMENTS + 2))
    raw = draw(
        st.binary(min_size=count * code.numpy.itemsize, max_size=count * code.numpy.itemsize)
    )
    return Data.of(np.frombuffer(raw, np.uint8))


@st.composite
def operands(draw, depth):
    code = draw(st.sampled_from(OperandCode))
    value = None
    if code is OperandCode.MODEL:
        value = draw(models(depth - 1)) if depth else None
    else:
        value = draw(st.one_of(st.none(), st.just(Omitted.NO_VALUE), constants(code)))
    channels = st.builds(ChannelQuantization, st.integers(-1, 4), st.lists(finite).map(tuple))
    return Operand(
        code,
        draw(st.lists(st.integers(-1, 2**32), max_size=4).map(tuple)),
        draw(finite),
        draw(st.integers(-(2**31), 2**31 - 1)),
        draw(st.none() | channels),
        value,
    )


@st.composite
def models(draw, depth):
    names = st.lists(st.text(max_size=9), max_size=2).map(tuple)
    operations = st.builds(Operation, st.sampled_from(OPERATIONS), indexes, indexes, names)
    return Model(
        tuple(draw(st.lists(operands(depth), max_size=4))),
        tuple(draw(st.lists(operations, max_size=3))),
        draw(indexes),
        draw(indexes),
        draw(st.booleans()),
    )


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
