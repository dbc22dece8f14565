"""Operations taken out of their models, and their digests."""

from __future__ import annotations

import pytest

from ep_nnapi.nnapi.profile.use import uses
from tests.nnapi.profile.make import add, model, scalar, tensor, use

IMAGE = tensor(1, 4, 4, 2)


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
        use("ADD", [tensor(1, 4, 4, 2, value=1), IMAGE, scalar(0)], IMAGE),
        use("MUL", [IMAGE, IMAGE, scalar(0)], IMAGE),
    ],
    ids=["a scalar", "relaxed", "a size", "a constant", "the operation"],
)
def test_what_a_driver_can_see_is_in_the_digest(other):
    assert other.digest != add().digest
    assert add().digest == add().digest


def test_of_constants_beyond_128_bytes_the_numbers_are_not():
    small, large = (
        [
            use("ADD", [IMAGE, tensor(n, value=v), scalar(0)], tensor(1, 4, 4, n)).digest
            for v in (1, 2)
        ]
        for n in (32, 33)
    )
    assert small[0] != small[1]
    assert large[0] == large[1]
