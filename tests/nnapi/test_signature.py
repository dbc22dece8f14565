"""Forms, typings and how a spec row says no."""

import time

import numpy as np
import pytest

from ep_nnapi.nnapi.errors import Reason, Reject
from ep_nnapi.nnapi.rules import RequiredLevel
from ep_nnapi.nnapi.shapes import infer
from ep_nnapi.nnapi.shapes.operands import Tensor
from ep_nnapi.nnapi.signature import (
    AxisUse,
    OperationSpec,
    Param,
    align,
    parse_params,
    row,
    typing,
)
from ep_nnapi.nnapi.spec import (
    ADD,
    AVERAGE_POOL_2D,
    BY_NAME,
    CONCATENATION,
    CONV_2D,
    F16,
    F32,
    IF,
    LOGISTIC,
    LSTM,
    MAX_POOL_2D,
    OPERATIONS,
    PACK,
    RELU,
    RELU6,
    RESIZE_BILINEAR,
    SOFTMAX,
    SPLIT,
)
from tests.cases import each
from tests.nnapi.typed import operand, operands, typed


def test_form_reads_types_repetition_omission_level_and_ends():
    assert parse_params("x:T rest:any* w:F? | layout:b@3") == (
        Param("x", "T"),
        Param("rest", "any", many="*"),
        Param("w", "F", optional=True, last=True),
        Param("layout", "b", level=3, last=True),
    )


@pytest.mark.parametrize("text", ["x", "x:", "x:T@", "x:T@x", "x:T+*", "x:T**", "x T", ":T"])
def test_malformed_forms_are_refused(text):
    with pytest.raises(ValueError, match="malformed parameter"):
        parse_params(text)


@pytest.mark.parametrize(
    ("count", "names"), [(1, None), (2, "ab"), (3, None), (4, "abcd"), (5, "abcde"), (6, None)]
)
def test_lists_end_only_where_the_form_says(count, names):
    form = align(parse_params("a:T b:T | c:b d:b | e:b"), count)
    assert form is None if names is None else "".join(p.name for p in form) == names


@pytest.mark.parametrize(
    ("text", "count", "names"),
    [
        ("xs:T+ axis:i", 1, None),
        ("xs:T+ axis:i", 2, ["xs", "axis"]),
        ("xs:T+ axis:i", 4, ["xs", "xs", "xs", "axis"]),
        ("a:T xs:T*", 1, ["a"]),
        ("a:T xs:T*", 3, ["a", "xs", "xs"]),
        ("a:T xs:T+ axis:i", 2, None),
        ("a:T xs:T+ axis:i", 4, ["a", "xs", "xs", "axis"]),
    ],
)
def test_repeated_parameters_take_what_is_over(text, count, names):
    form = align(parse_params(text), count)
    assert form is None if names is None else [p.name for p in form] == names


def test_match_names_every_operand_and_takes_the_lowest_level():
    match = RESIZE_BILINEAR.match(operands("F32 i i"), operands("F32"), 1)
    assert [p.name for p in match.inputs] == ["input", "output_width", "output_height"]
    assert match.typing.types["T"] is F32
    assert match.level == 1


def test_form_is_chosen_by_types():
    match = RESIZE_BILINEAR.match(operands("F32 f f b"), operands("F32"), 3)
    assert [p.name for p in match.inputs][1:3] == ["width_scale", "height_scale"]
    assert match.level == 3


def test_repeated_outputs():
    assert len(SPLIT.match(operands("F32 i i"), operands("3*F32"), 3).outputs) == 3
    assert len(IF.match(operands("B8 m m F32 i"), operands("F32 I32"), 4).outputs) == 2


RELU_TYPES = "TENSOR_FLOAT16, TENSOR_FLOAT32, TENSOR_QUANT8_ASYMM, TENSOR_QUANT8_ASYMM_SIGNED"
LEVEL_3 = "needs feature level 3, the target has 2"
REFUSALS = [
    (PACK, "i F32", 5, Reason.LEVEL, "PACK needs feature level 6, the target has 5"),
    (SOFTMAX, "F32 f i", 2, Reason.LEVEL, f"SOFTMAX.axis {LEVEL_3}"),
    (RELU, "F16", 2, Reason.LEVEL, f"RELU of TENSOR_FLOAT16 {LEVEL_3}"),
    (RELU, "I32", 8, Reason.DTYPE, f"operand 0 is TENSOR_INT32, RELU.input takes {RELU_TYPES}"),
    (
        CONCATENATION,
        "F32 F32 F16 i",
        8,
        Reason.DTYPE,
        "operand 2 is TENSOR_FLOAT16, CONCATENATION.inputs takes TENSOR_FLOAT32 here",
    ),
    (SOFTMAX, "F32", 8, Reason.OP, "SOFTMAX has no signature with 1 inputs, 1 outputs"),
    (RELU, "?F32", 8, Reason.OP, "RELU.input must not be left out"),
]


@each(("row", "inputs", "level", "reason", "detail"), REFUSALS)
def test_refusals_name_the_culprit(row, inputs, level, reason, detail):
    given = operands(inputs)
    output = given[0].operand.type if row is RELU else F32
    with pytest.raises(Reject) as caught:
        row.match(given, typed([operand(output)]), level)
    assert (caught.value.reason, caught.value.detail) == (reason, detail)


def test_optional_operands_may_be_left_out():
    given = "F32 ?F32 3*F32 ?F32 3*F32 4*?F32 3*F32 2*?F32 2*F32 i 2*f"
    assert LSTM.match(operands(given), operands("4*F32"), 1).level == 1


@pytest.mark.parametrize("rank", [1, 4])
def test_rank_at_the_limits(rank):
    x = typed([operand(F32, *[2] * rank)])
    assert SOFTMAX.match([*x, *operands("f")], x, 8)


def test_rank_past_the_limit():
    x = typed([operand(F32, 1, 1, 1, 1, 1)])
    with pytest.raises(Reject, match="x is") as caught:
        SOFTMAX.match([*_named("x", x), *operands("f")], x, 8)
    assert caught.value.reason is Reason.RANK
    assert caught.value.detail == "x is TENSOR_FLOAT32 of rank 5, SOFTMAX.input takes rank 1-4"


def _named(name, typed_operands):
    class Named(type(typed_operands[0])):
        def describe(self):
            return f"{name} is {self.operand.type.name}"

    return [Named(o.operand, o.index) for o in typed_operands]


def test_exact_rank_is_said_as_one_number():
    spec = row("X", 0, "x:T^2 -> y:T", [typing(1, T=F32)])
    with pytest.raises(Reject, match=r"of rank 1, X\.x takes rank 2$"):
        spec.match(typed([operand(F32, 3)]), typed([operand(F32)]), 1)


def test_rows_of_one_code_are_matched_by_what_each_declares():
    """Matches are cached in the row: as keys, rows of one code are the same."""
    for code in (F32, F16, F32):
        spec = row("X", 0, "x:T -> y:T", [typing(1, T=code)])
        assert (
            spec.match(typed([operand(code)]), typed([operand(code)]), 1).typing.types["T"] is code
        )


def test_rules_may_ask_for_a_level_or_refuse():
    def rule(use):
        if use["x"].dimensions == (1,):
            return RequiredLevel(5, "of one number")
        if use["x"].dimensions == (2,):
            raise Reject(Reason.SHAPE, "two")
        return None

    spec = row("X", 0, "x:T -> y:T", [typing(2, T=F32), typing(3, T=F16)], rule)
    y = typed([operand(F32)])
    assert spec.level == 2
    assert spec.match(typed([operand(F32, 3)]), y, 2).level == 2
    assert spec.match(typed([operand(F32, 1)]), y, 5).level == 5
    with pytest.raises(Reject, match="LEVEL: X of one number needs feature level 5"):
        spec.match(typed([operand(F32, 1)]), y, 4)
    with pytest.raises(Reject, match="SHAPE: two"):
        spec.match(typed([operand(F32, 2)]), y, 8)


def test_rows_are_equal_by_code():
    assert row("A", 7, "x:T -> y:T", []) == row("B", 7, "x:T -> y:T", [])
    assert row("A", 7, "x:T -> y:T", []) != row("A", 8, "x:T -> y:T", [])
    assert repr(RELU) == "RELU"


def test_the_time_grows_as_the_operands():
    """Eight times as many: 8 times the time, 64 times if each were compared with all before it."""
    few, many = (operands(f"{n}*F32 i") for n in (4_000, 32_000))
    output = operands("F32")

    def seconds(inputs):
        begin = time.process_time()
        CONCATENATION.match(inputs, output, 8)
        return time.process_time() - begin

    assert min(seconds(many) for _ in range(3)) < 24 * min(seconds(few) for _ in range(3))


def params(row: OperationSpec) -> set[str]:
    return {p.name for form in row.input_params for p in form}


@each("row", OPERATIONS)
def test_traits_name_operands_of_the_operation(row: OperationSpec):
    traits = row.traits
    assert {*traits.elementwise, *traits.per_axis} <= params(row)
    if traits.axis is not None:
        assert {"axis", "axes"} & params(row)
        assert (traits.axis is AxisUse.REDUCED) == ("keep_dims" in params(row))
    assert not (traits.keeps_quantization and traits.output_quantization)


@each("row", [r for r in OPERATIONS if r.traits.elementwise])
def test_elementwise_operands_have_the_shape_that_numpy_broadcasts(row: OperationSpec):
    names = row.traits.elementwise
    shapes = [(2, 3, 4)] * len(names)
    if row.name != "SELECT" and len(names) > 1:  # NNAPI's SELECT does not broadcast
        shapes[1] = (3, 1)
    operands = {n: Tensor(s) for n, s in zip(names, shapes, strict=True)}
    assert infer(row, operands) == (np.broadcast_shapes(*shapes),)


@pytest.mark.parametrize(
    "row", [r for r in OPERATIONS if r.traits.axis is AxisUse.REDUCED], ids=str
)
@pytest.mark.parametrize("keep", [0, 1])
def test_reduced_axes_have_the_shape_that_numpy_reduces_to(row: OperationSpec, keep: int):
    x, axes = np.zeros((2, 3, 4)), np.array([2, 0])
    operands = {"input": Tensor(x.shape), "axes": Tensor.of(axes), "keep_dims": keep}
    assert infer(row, operands) == (x.sum(axis=(0, 2), keepdims=bool(keep)).shape,)


def test_only_the_relus_clamp():
    assert {r.name for r in OPERATIONS if r.traits.clamps} == {"RELU", "RELU1", "RELU6"}


def test_an_average_keeps_the_quantization_but_rounds():
    assert MAX_POOL_2D.traits.selects
    assert not AVERAGE_POOL_2D.traits.selects
    assert AVERAGE_POOL_2D.traits.keeps_quantization
    assert RELU6.traits.selects


def test_fixed_quantizations_cover_the_range_of_the_function():
    """256 steps from the least result on. Source: NDK, outputs of LOGISTIC, SOFTMAX, TANH."""
    ranges = {LOGISTIC: (0, 1), SOFTMAX: (0, 1), BY_NAME["TANH"]: (-1, 1)}
    for spec, (least, greatest) in ranges.items():
        assert spec.traits.output_quantization is not None
        scale, zero_point = spec.traits.output_quantization
        assert -zero_point * scale == least
        assert (256 - zero_point) * scale == greatest


def test_operations_that_compute_state_their_own_quantization():
    for spec in (ADD, CONV_2D):
        assert not spec.traits.keeps_quantization
        assert spec.traits.output_quantization is None
