"""Relations between an operation's operands: at the limit and just past it."""

import numpy as np
import pytest

from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.errors import Reject, SpecError
from ep_nnapi.nnapi.model import ChannelQuantization, Operand, TypedOperand
from ep_nnapi.nnapi.rules import OF_QUANTIZED, RuleOperands
from ep_nnapi.nnapi.spec import (
    BY_NAME,
    CAST,
    CONCATENATION,
    CONV_2D,
    DEPTHWISE_CONV_2D,
    F32,
    FULLY_CONNECTED,
    I32,
    INT32,
    MIRROR_PAD,
    MUL,
    PACK,
    PAD,
    Q8,
    Q8C,
    REVERSE,
    SOFTMAX,
    SPACE_TO_BATCH_ND,
    TRANSPOSE_CONV_2D,
)
from ep_nnapi.nnapi.validate import validate
from tests.nnapi.build import (
    NONE,
    X,
    accepted_from,
    constant,
    one,
    quantized,
    refuses,
    scalar,
    tensor,
)
from tests.nnapi.typed import operand, samples, typed


def test_mul_takes_a_wide_output_scale():
    validate(one(MUL, [*quantized(0.5, 0.5), NONE], quantized(0.26)), 1)
    refuses(
        one(MUL, [*quantized(0.5, 0.5), NONE], quantized(0.25)),
        "operation 0: MUL takes an output scale > input1 scale * input2 scale, "
        "not 0.25 for 0.5 * 0.5",
    )


@pytest.mark.parametrize(("scale", "level"), [(0.26, 1), (0.25, 3)])
def test_narrow_product_scales_came_with_level_3(scale, level):
    x, w = quantized(0.5, 0.5)
    bias = tensor(I32, 2, scale=0.25)
    accepted_from(one(FULLY_CONNECTED, [x, w, bias, NONE], quantized(scale)), level)
    image, filter_, made = (tensor(Q8, 2, 2, 2, 2, scale=s) for s in (0.5, 0.5, scale))
    numbers = [scalar(INT32, 1)] * 3 + [NONE]
    accepted_from(one(CONV_2D, [image, filter_, bias, *numbers], [made]), level)
    numbers = [scalar(INT32, 1)] * 4 + [NONE]
    accepted_from(one(DEPTHWISE_CONV_2D, [image, filter_, bias, *numbers], [made]), level)


@pytest.mark.parametrize(("spec", "dim", "numbers"), [(CONV_2D, 0, 4), (DEPTHWISE_CONV_2D, 3, 5)])
def test_filters_have_their_channels_in_one_dimension(spec, dim, numbers):
    for found in range(4):
        filter_ = Operand(Q8C, (2, 2, 2, 2), channels=ChannelQuantization(found, (1.0, 1.0)))
        image = tensor(Q8, 2, 2, 2, 2, scale=0.5)
        inputs = [image, filter_, tensor(I32, 2), *[scalar(INT32, 1)] * numbers]
        model = one(spec, inputs, [image])
        if found == dim:
            accepted_from(model, 3)
        else:
            refuses(
                model,
                f"operation 0: {spec}.filter takes scales along dimension {dim}, "
                f"not along dimension {found}",
            )


def test_transpose_conv_has_its_channels_first():
    filter_ = Operand(Q8C, (2, 2, 2, 2), channels=ChannelQuantization(3, (1.0, 1.0)))
    image = tensor(Q8, 2, 2, 2, 2, scale=0.5)
    ones = [scalar(INT32, 1)] * 7
    inputs = [image, filter_, tensor(I32, 2), *ones, scalar(OperandCode.BOOL, False)]
    with pytest.raises(SpecError, match="scales along dimension 0, not along dimension 3"):
        validate(one(TRANSPOSE_CONV_2D, inputs, [image]), 8)


@pytest.mark.parametrize(("other", "level"), [((0.5, 0), 1), ((0.25, 0), 3), ((0.5, 1), 3)])
def test_concatenation_requantizes_from_level_3(other, level):
    first = tensor(Q8, 2, scale=0.5)
    second = tensor(Q8, 2, scale=other[0], zero_point=other[1])
    made = tensor(Q8, 4, scale=0.5)
    accepted_from(one(CONCATENATION, [first, second, scalar(INT32, 0)], [made]), level)


@pytest.mark.parametrize(("zero_point", "level"), [(0, 2), (1, 3)])
def test_padding_with_a_zero_point_came_with_level_3(zero_point, level):
    x = tensor(Q8, 1, 2, 2, 1, scale=0.5, zero_point=zero_point)
    pads = constant(np.zeros((4, 2), np.int32))
    accepted_from(one(PAD, [x, pads], [x]), level)
    blocks = constant(np.ones(2, np.int32))
    pads = constant(np.zeros((2, 2), np.int32))
    accepted_from(one(SPACE_TO_BATCH_ND, [x, blocks, pads], [x]), level)


@pytest.mark.parametrize(("rank", "level"), [(1, 3), (2, 1), (3, 3), (4, 1)])
def test_softmax_of_odd_rank_came_with_level_3(rank, level):
    x = tensor(F32, *[2] * rank)
    accepted_from(one(SOFTMAX, [x, scalar(OperandCode.FLOAT32, 1)], [x]), level)


def test_cast_keeps_the_shape_as_far_as_known():
    for made in (tensor(I32, 2, 3), tensor(I32, 0, 3), tensor(I32)):
        validate(one(CAST, [X], [made]), 3)
    refuses(
        one(CAST, [X], [tensor(I32, 3, 2)]), "operation 0: CAST keeps the shape [2, 3], not [3, 2]"
    )


def test_pack_of_one_rank_and_quantization():
    axis = scalar(INT32, 0)
    validate(one(PACK, [axis, *quantized(0.5, 0.5)], [tensor(Q8, 2, 2, 2, scale=0.5)]), 6)
    validate(one(PACK, [axis, X, tensor(F32)], [tensor(F32)]), 6)
    refuses(
        one(PACK, [axis, X, tensor(F32, 2)], [tensor(F32)]),
        "operation 0: PACK takes inputs of one rank and an output of one more, not [1, 2] + 1",
    )
    refuses(
        one(PACK, [axis, *quantized(0.5, 0.25)], [tensor(Q8, 2, 2, 2, scale=0.5)]),
        "operation 0: PACK.inputs and output take the same quantization, "
        "not 0.25 from 0 and 0.5 from 0",
    )


@pytest.mark.parametrize(
    ("paddings", "sentence"),
    [
        ((2, 2), None),
        ((0, 2), None),
        ((3, 2), "MIRROR_PAD.paddings takes shape [2, 2], not [3, 2]"),
        ((2, 3), "MIRROR_PAD.paddings takes shape [2, 2], not [2, 3]"),
    ],
)
def test_mirror_pad(paddings, sentence):
    model = one(MIRROR_PAD, [X, tensor(I32, *paddings), NONE], [X])
    if sentence is None:
        validate(model, 7)
    else:
        refuses(model, f"operation 0: {sentence}")


def test_reverse_along_one_axis_of_the_same_tensor():
    validate(one(REVERSE, [X, tensor(I32, 1)], [X]), 7)
    refuses(
        one(REVERSE, [X, tensor(I32, 2)], [X]), "operation 0: REVERSE.axis takes shape [1], not [2]"
    )
    refuses(
        one(REVERSE, [X, tensor(I32, 1)], [tensor(F32, 2)]),
        "operation 0: REVERSE keeps the rank 2, not 1",
    )
    with pytest.raises(SpecError, match=r"same quantization, not 0\.5 from 0 and 0\.25 from 0"):
        validate(one(REVERSE, [*quantized(0.5), tensor(I32, 1)], quantized(0.25)), 8)


def test_fully_connected_shapes():
    def model(x, w, b):
        return one(FULLY_CONNECTED, [tensor(F32, *x), tensor(F32, *w), tensor(F32, *b), NONE], [X])

    validate(model((2, 6), (3, 4), (3,)), 1)
    validate(model((2, 0), (3, 4), (3,)), 1)
    validate(model((2, 5), (3, 0), (3,)), 1)
    validate(model((2, 5), (3, 4), ()), 3)
    refuses(
        model((2, 5), (3, 4), (3,)),
        "operation 0: FULLY_CONNECTED.input [2, 5] does not divide into rows of 4",
    )
    refuses(
        model((2, 4), (3, 4), (2,)), "operation 0: FULLY_CONNECTED.bias has 2 numbers for 3 units"
    )


def test_rules_of_quantized_operands_accept_all_others():
    """So they are not asked about types without a scale."""
    asked = 0
    for name, _, ins, outs in samples():
        row, given = BY_NAME[name], [operand(code, 2, 2, 2, 2) for code in (*ins, *outs)]
        if any(code.quantized for code in (*ins, *outs)):
            continue
        inputs, outputs = typed(given[: len(ins)]), typed(given[len(ins) :])
        try:
            found = row.match(inputs, outputs, 8)
        except Reject:  # for the shapes
            continue
        named: dict[str, list[TypedOperand]] = {}
        for param, each in zip((*found.inputs, *found.outputs), (*inputs, *outputs), strict=True):
            named.setdefault(param.name, []).append(each)
        for rule in OF_QUANTIZED.intersection((*row.rules, *row.kernel_rules)):
            assert rule(RuleOperands(name, found.typing, named)) is None
            asked += 1
    assert asked > 20
