"""Models as text and back."""

import json

import numpy as np
import pytest
from hypothesis import given

from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.listing import MAX_INLINE_ELEMENTS, listing
from ep_nnapi.nnapi.model import ChannelQuantization, Data, Model, Omitted, Operand, Operation
from ep_nnapi.nnapi.spec import ADD, CONCATENATION, IF
from tests.nnapi.build import BOOL8, F32, I32, NONE, X, one, relu, scalar, tensor
from tests.nnapi.conformance import FOLDER, cases, model
from tests.nnapi.listing_parser import parse
from tests.nnapi.listings import TEXT, bias, models


def test_text_of_a_model():
    assert listing(bias()) == TEXT


def test_everything_an_operand_may_be():
    codes = OperandCode
    channels = ChannelQuantization(1, (0.5, 0.25))
    operands = (
        tensor(F32),
        tensor(codes.TENSOR_QUANT8_ASYMM, 0, 2, scale=0.1, zero_point=3),
        tensor(codes.TENSOR_QUANT8_SYMM_PER_CHANNEL, 3, 2, channels=channels),
        tensor(I32, 1, value=Omitted.NO_VALUE),
        scalar(codes.BOOL, True),
        scalar(codes.FLOAT16, 0.1),
        tensor(BOOL8, 2, value=Data.of(np.array([True, False]))),
        Operand(codes.MODEL, value=relu()),
    )
    text = listing(Model(operands, (), (0,), (1,)))
    assert text == (
        "model\n"
        "  inputs %0\n"
        "  outputs %1\n"
        "  %0: TENSOR_FLOAT32 [?] input\n"
        "  %1: TENSOR_QUANT8_ASYMM [0, 2] scale=0.1 zero_point=3 output\n"
        "  %2: TENSOR_QUANT8_SYMM_PER_CHANNEL [3, 2] channels=1:[0.5, 0.25] temporary\n"
        "  %3: TENSOR_INT32 [1] no value\n"
        "  %4: BOOL constant True\n"
        "  %5: FLOAT16 constant 0.1\n"
        "  %6: TENSOR_BOOL8 [2] constant [True, False]\n"
        "  %7: MODEL subgraph\n"
        "    model\n"
        "      inputs %0\n"
        "      outputs %1\n"
        "      %0: TENSOR_FLOAT32 [2, 3] input\n"
        "      %1: TENSOR_FLOAT32 [2, 3] output\n"
        "      RELU(input=%0) -> output=%1\n"
    )
    assert parse(text) == Model(operands, (), (0,), (1,))


def test_models_stand_behind_their_operands():
    flag, branch = tensor(BOOL8, 1), relu()
    outer = one(IF, [flag, one(IF, [flag, branch, branch, X], [X]), branch, X], [X])
    assert parse(listing(outer)) == outer


@pytest.mark.parametrize("count", [1, MAX_INLINE_ELEMENTS, MAX_INLINE_ELEMENTS + 1])
def test_small_constants_are_numbers_and_large_ones_base64(count):
    large = tensor(I32, count, value=Data.of(np.arange(count, dtype=np.int32)))
    made = one(CONCATENATION, [tensor(I32, 2), large, NONE], [tensor(I32, count + 2)])
    text = listing(made)
    assert ("base64" in text) == (count > MAX_INLINE_ELEMENTS)
    assert parse(text) == made


def test_without_data_a_listing_is_for_readers():
    large = tensor(I32, 100, value=Data.of(np.arange(100, dtype=np.int32)))
    made = one(CONCATENATION, [tensor(I32, 2), large, NONE], [tensor(I32, 102)])
    text = listing(made, data=False)
    assert "%1: TENSOR_INT32 [100] constant of 400 bytes, sha256 " in text


@pytest.mark.parametrize(
    "bits", [0x7F800001, 0xFFC00000, 0x7F800000, 0x80000000, 0x00000001, 0x7F7FFFFF]
)
def test_every_bit_of_a_number_is_kept(bits):
    raw = np.array([bits], np.uint32).view(np.float32)
    made = one(ADD, [X, tensor(F32, 1, value=Data.of(raw)), NONE], [X])
    assert parse(listing(made)) == made


@given(models(2))
def test_any_model_comes_back(made):
    text = listing(made)
    read = parse(text)
    assert read == made
    assert [op.origin for op in read.operations] == [op.origin for op in made.operations]
    assert listing(read) == text


@pytest.mark.skipif(not FOLDER.exists(), reason="the conformance cases are not here")
def test_conformance_cases_come_back():
    for case in cases():
        made = model(case)
        assert parse(listing(made)) == made, case.id


def test_listing_of_origins_is_one_line():
    named = Operation(ADD, (0, 1, 2), (3,), ('a"b\n\u2028',))
    made = bias()
    made = Model(made.operands, (named,), made.inputs, made.outputs)
    assert json.dumps(list(named.origin)) in listing(made)
    assert parse(listing(made)).operations == (named,)
