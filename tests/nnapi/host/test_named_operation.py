"""Operands by the names of their parameters."""

import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.errors import Reject
from ep_nnapi.nnapi.host.kernel import indexes, named_operations, without_data
from ep_nnapi.nnapi.model import Model, Omitted, Operand
from ep_nnapi.nnapi.spec import F32, I32, INT32
from tests.nnapi.build import one


def concatenation(count: int) -> Model:
    parts = [Operand(F32, (2, 3))] * count
    return one(spec.CONCATENATION, [*parts, 0], [Operand(F32, (2 * count, 3))])


@pytest.mark.parametrize("count", [1, 3])
def test_a_repeated_parameter_has_all_its_operands(count: int) -> None:
    (op,) = named_operations(concatenation(count), 8)
    assert op.inputs == {"inputs": tuple(range(count)), "axis": count}
    assert op.outputs == {"output": count + 1}
    assert len(op.types.many("inputs")) == count
    assert op.types["output"].dimensions == (2 * count, 3)
    assert op.code is F32
    assert indexes(op.inputs["inputs"]) == tuple(range(count))
    assert indexes(op.inputs["axis"]) == (count,)


def test_omitted_operands_are_absent() -> None:
    axes = Operand(I32, (2,), value=Omitted.NO_VALUE)
    given, out = [Operand(F32, (2, 3)), axes], Operand(F32, (3, 2))
    (op,) = named_operations(one(spec.TRANSPOSE, given, [out]), 8)
    assert op.inputs == {"input": 0}
    assert "perm" not in op.types


def test_types_are_without_data() -> None:
    model = concatenation(1)
    (op,) = named_operations(model, 8)
    assert model.operands[1].value is not None
    assert op.types["axis"].value is None
    omitted = Operand(I32, value=Omitted.NO_VALUE)
    assert without_data([omitted, model.operands[1]]) == [omitted, Operand(INT32)]


def test_an_operation_that_matches_no_signature_is_rejected() -> None:
    integers = Operand(I32, (2,))
    with pytest.raises(Reject, match="LOGISTIC"):
        named_operations(one(spec.LOGISTIC, [integers], [integers]), 8)
