"""The normal form of an operation: group and traits."""

import numpy as np
import pytest

from ep_nnapi.nnapi.profile.form import class_of_contents, class_of_scalar, form_of, uses
from tests.nnapi.profile.make import F32, I32, Q8, add, model, tensor, use

IMAGE = tensor(1, 4, 4, 2)


def differences(one, two) -> set[str]:
    a, b = form_of(one), form_of(two)
    assert (a.operation, a.types, a.ranks) == (b.operation, b.types, b.ranks)
    return set(b.traits - a.traits)


def test_a_group_is_operation_types_and_ranks():
    found = form_of(add())
    assert found.operation == "ADD"
    assert found.types == "TENSOR_FLOAT32*2 INT32 > TENSOR_FLOAT32"
    assert found.ranks == "4 4 > 4"


def test_sizes_are_no_traits():
    large = tensor(9, 8, 7, 6)
    assert form_of(use("ADD", [large, large, 0], large)) == form_of(add())


@pytest.mark.parametrize(
    ("other", "found"),
    [
        (add(activation=1), {"activation=1"}),
        (add(relaxed=True), {"relaxed=yes"}),
        (use("ADD", [IMAGE, tensor(1, 4, 4, 2, value=1), 0], IMAGE), {"input2=constant"}),
        (use("ADD", [IMAGE, tensor(1, 1, 1, 2), 0], IMAGE), {"input2.shape=last axis"}),
    ],
)
def test_each_property_is_one_trait(other, found: set[str]):
    assert differences(add(), other) == found


def test_unknown_sizes():
    unknown = use("RELU", [tensor(0, 4, 4, 2)], tensor(0, 4, 4, 2))
    known = use("RELU", [IMAGE], IMAGE)
    assert differences(known, unknown) == {"input.sizes=unknown", "output.sizes=unknown"}


def test_quantization():
    a, b = tensor(2, 2, code=Q8, zero=128), tensor(2, 2, code=Q8, zero=3)
    expected = {"output.zero_point=other", "same_quantization=no"}
    assert differences(use("RELU", [a], a), use("RELU", [a], b)) == expected


def test_repeated_operands_are_one_with_a_count():
    def concatenated(count: int):
        return form_of(use("CONCATENATION", [tensor(2, 2)] * count + [0], tensor(2, 2)))

    two, nine, ten = map(concatenated, (2, 9, 10))
    assert two.types == nine.types == "TENSOR_FLOAT32+ INT32 > TENSOR_FLOAT32"
    assert nine.traits - two.traits == {"inputs.count=9+"}
    assert nine == ten


def test_relations_of_scalars():
    def pool(width: int, height: int):
        window = (1, width, height, 2, 2, 0)
        return use("MAX_POOL_2D", [IMAGE, *window], IMAGE)

    assert differences(pool(2, 2), pool(2, 1)) == {"stride_height=1", "square_strides=no"}
    assert differences(pool(3, 3), pool(4, 3)) == {"square_strides=no"}


def test_lower_ranks_of_high_elementwise_operands_are_one():
    def maximum(rank: int):
        tensors = [tensor(*[2] * 6), tensor(*[2] * rank)]
        return form_of(use("MAXIMUM", tensors, tensor(*[2] * 6))).ranks

    assert [maximum(rank) for rank in (6, 5, 1)] == ["6 6 > 6", "6 < > 6", "6 < > 6"]


def test_constant_indexes():
    def transposed(*perm: int):
        order = tensor(4, code=I32, value=list(perm))
        return use("TRANSPOSE", [IMAGE, order], tensor(1, 2, 4, 4, code=F32))

    assert differences(transposed(0, 3, 1, 2), transposed(0, 3, 2, 1)) == {"perm.value=0,3,2,1"}


# Classes of scalars and of constant tensors of indexes


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        ("activation", 3, "3"),
        ("layout", True, "True"),
        ("axis", -1, "-1"),
        ("stride_width", 2, "2"),
        ("stride_width", 3, "3+"),
        ("stride_width", 17, "3+"),
        ("stride_width", 0, "0-"),
        ("padding_left", 0, "0"),
        ("padding_left", 1, "+"),
        ("output_width", 7, "size"),
        ("beta", 1.0, "1"),
        ("beta", 0.5, "+"),
        ("beta", -0.5, "-"),
    ],
)
def test_scalars(name: str, value: float, found: str):
    assert class_of_scalar(name, value) == found


@pytest.mark.parametrize(
    ("name", "values", "found"),
    [
        ("axes", [2, 1], "1,2"),
        ("axes", [-2, -1], "- -2,-1"),
        ("perm", [0, 3, 1, 2], "0,3,1,2"),
        ("paddings", [[0, 0], [1, 2], [0, 1], [0, 0]], "0110"),
        ("strides", [1, 1], "1"),
        ("strides", [1, 2], "+"),
        ("strides", [1, -1], "-"),
        ("shape", [2, -1], "-"),
        ("shape", [2, 3], "+"),
        ("indices", [2, 3], None),
    ],
)
def test_contents(name: str, values: list[int], found: str | None):
    assert class_of_contents(name, np.array(values, np.int32)) == found


# Operations taken out of their models, and their digests


def test_an_operation_has_a_parameter_for_each_operand():
    found = add()
    assert [p.name for p, _ in found.named_inputs] == ["input1", "input2", "activation"]
    assert [p.name for p, _ in found.named_outputs] == ["output"]
    assert (found.spec.name, found.relaxed) == ("ADD", False)
    assert len(list(uses(model("RELU", [IMAGE], IMAGE)))) == 1


@pytest.mark.parametrize(
    "other",
    [
        add(activation=1),
        add(relaxed=True),
        add(dimensions=(1, 4, 4, 1)),
        use("ADD", [tensor(1, 4, 4, 2, value=1), IMAGE, 0], IMAGE),
        use("MUL", [IMAGE, IMAGE, 0], IMAGE),
    ],
    ids=["a scalar", "relaxed", "a size", "a constant", "the operation"],
)
def test_what_a_driver_can_see_is_in_the_digest(other):
    assert other.digest != add().digest
    assert add().digest == add().digest


def test_of_constants_beyond_128_bytes_the_numbers_are_not():
    small, large = (
        [use("ADD", [IMAGE, tensor(n, value=v), 0], tensor(1, 4, 4, n)).digest for v in (1, 2)]
        for n in (32, 33)
    )
    assert small[0] != small[1]
    assert large[0] == large[1]
