"""A model with its listing, and models of any kind, legal or not, drawn by hypothesis."""

import numpy as np
from hypothesis import strategies as st

from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.listing import MAX_INLINE_ELEMENTS
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
