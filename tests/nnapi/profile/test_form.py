"""The normal form of an operation: group and traits."""

from __future__ import annotations

import pytest

from ep_nnapi.nnapi.profile.form import form_of
from tests.nnapi.profile.make import F32, I32, Q8, add, scalar, tensor, use

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
    assert form_of(use("ADD", [large, large, scalar(0)], large)) == form_of(add())


@pytest.mark.parametrize(
    ("other", "found"),
    [
        (add(activation=1), {"activation=1"}),
        (add(relaxed=True), {"relaxed=yes"}),
        (
            use("ADD", [IMAGE, tensor(1, 4, 4, 2, value=1), scalar(0)], IMAGE),
            {"input2=constant"},
        ),
        (
            use("ADD", [IMAGE, tensor(1, 1, 1, 2), scalar(0)], IMAGE),
            {"input2.shape=last axis"},
        ),
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
    assert differences(use("RELU", [a], a), use("RELU", [a], b)) == {
        "output.zero_point=other",
        "same_quantization=no",
    }


def test_repeated_operands_are_one_with_a_count():
    def concatenated(count: int):
        return form_of(use("CONCATENATION", [tensor(2, 2)] * count + [scalar(0)], tensor(2, 2)))

    two, nine, ten = map(concatenated, (2, 9, 10))
    assert two.types == nine.types == "TENSOR_FLOAT32+ INT32 > TENSOR_FLOAT32"
    assert nine.traits - two.traits == {"inputs.count=9+"}
    assert nine == ten


def test_relations_of_scalars():
    def pool(width: int, height: int):
        window = [scalar(v) for v in (1, width, height, 2, 2, 0)]
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
