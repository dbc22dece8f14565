"""Rules for a finished model as a whole: each at its limit and just past it."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.errors import SpecError
from ep_nnapi.nnapi.model import Data, Model, Omitted, Operation
from ep_nnapi.nnapi.spec import ADD, BY_NAME, CAST, PAD, RELU, SOFTMAX, SQUEEZE
from ep_nnapi.nnapi.validate import check_operation, execution_order, required_level, validate
from tests.nnapi.build import (
    BOOL8,
    F32,
    I32,
    INT32,
    NONE,
    Q8,
    Q8S,
    X,
    accepted_from,
    chain,
    one,
    refuses,
    relu,
    scalar,
    tensor,
)
from tests.nnapi.conformance import FOLDER, cases, model


@pytest.mark.parametrize(
    ("model", "level"),
    [
        (relu(), 1),
        (relu(tensor(F32)), 3),
        (relu(tensor(Q8, 2, scale=0.5)), 1),
        (relu(tensor(Q8S, 2, scale=0.5)), 4),
        (one(BY_NAME["TANH"], [tensor(Q8, 2, scale=0.5)], [tensor(Q8, 2, scale=0.5)]), 3),
        (one(CAST, [tensor(BOOL8, 2)], [tensor(BOOL8, 2)]), 4),
    ],
)
def test_level_of_a_model(model, level):
    accepted_from(model, level)


def test_a_model_takes_operations():
    refuses(replace(relu(), operations=()), "a model takes at least one operation")


def test_a_model_may_have_no_outputs():
    validate(replace(relu(), outputs=()), 1)


@pytest.mark.parametrize(
    ("inputs", "outputs", "sentence"),
    [
        ((0, 0), (1,), "operand 0 is listed as input and again as input"),
        ((0,), (1, 1), "operand 1 is listed as output and again as output"),
        ((0, 1), (1,), "operand 1 is listed as input and again as output"),
        ((0, 2), (1,), "model input 2 is no operand, there are 2"),
        ((0,), (-1,), "model output -1 is no operand, there are 2"),
    ],
)
def test_lists_of_inputs_and_outputs(inputs, outputs, sentence):
    refuses(replace(relu(), inputs=inputs, outputs=outputs), sentence)


def test_an_operand_with_a_value_is_no_input():
    model = one(ADD, [X, X, NONE], [X])
    refuses(replace(model, inputs=(0, 1, 2)), "operand 2 has a value and is listed as input")


def test_operations_name_operands():
    model = replace(relu(), operations=(Operation(RELU, (0,), (2,)),))
    refuses(model, "operation 0: RELU names operand 2 of 2")


def test_operands_are_written_once():
    refuses(chain((0, 1), (0, 1)), "operations 0 and 1 both write operand 1")
    twice = Operation(BY_NAME["TOPK_V2"], (0, 1), (2, 2))
    model = Model((tensor(I32, 4), scalar(INT32, 2), tensor(I32, 2)), (twice,), (0,), (2,))
    refuses(model, "operations 0 and 0 both write operand 2")


def test_inputs_and_constants_are_not_written():
    refuses(chain((0, 1), (1, 0)), "operation 1 writes operand 0, which is an input")
    model = replace(chain((0, 1), (0, 2)), outputs=(2,))
    filled = replace(X, value=Data.of(np.zeros((2, 3), np.float32)))
    model = replace(model, operands=(X, filled, X))
    refuses(model, "operation 0 writes operand 1, which has a value")


def test_every_operand_is_written():
    refuses(chain((0, 1), (0, 3)), "operand 2 is never written")
    refuses(replace(relu(), operands=(X, X, X)), "operand 2 is never written")


def test_unused_constants_and_dead_results_are_legal():
    validate(replace(relu(), operands=(X, X, NONE)), 1)
    validate(chain((0, 1), (0, 2)), 1)


def test_operations_may_stand_in_any_order_but_not_wait_for_each_other():
    backwards = chain((2, 3), (1, 2), (0, 1))
    validate(backwards, 1)
    assert execution_order(backwards) == (2, 1, 0)
    refuses(chain((1, 2), (2, 1), (0, 3)), "operations form a cycle: 0 (RELU), 1 (RELU)")
    refuses(chain((1, 1), (0, 2)), "operations form a cycle: 0 (RELU)")


def test_order_keeps_what_is_in_order():
    for order in permutations([(0, 1), (0, 2), (1, 3), (2, 4)]):
        model = chain(*order)
        known, ran = {0}, execution_order(model)
        for n in ran:
            assert order[n][0] in known
            known.add(order[n][1])
        ready = all(any(b == a for _, b in order[:n]) or a == 0 for n, (a, _) in enumerate(order))
        assert (ran == (0, 1, 2, 3)) == ready


@given(st.data())
def test_order_of_drawn_graphs(data):
    """Each operation reads operands of lower number; shuffled, the order must be found again."""
    count = data.draw(st.integers(1, 12))
    edges = [(data.draw(st.integers(0, n)), n + 1) for n in range(count)]
    shuffled = data.draw(st.permutations(edges))
    model = chain(*shuffled)
    ran = execution_order(model)
    assert sorted(ran) == list(range(count))
    known = {0}
    for n in ran:
        assert shuffled[n][0] in known
        known.add(shuffled[n][1])
    validate(model, 1)


def test_refusal_of_a_row_names_the_operation():
    refuses(
        one(RELU, [tensor(F32, 1, 1, 1, 1, 1)], [X]),
        "operation 0: operand 0 is TENSOR_FLOAT32 of rank 5, RELU.input takes rank 1-4",
    )
    refuses(
        one(SOFTMAX, [X, scalar(OperandCode.FLOAT32, 1), scalar(INT32, 0)], [X]),
        "operation 0: SOFTMAX.axis needs feature level 3, the target has 2",
        level=2,
    )


def test_left_out_where_allowed_only():
    nothing = tensor(I32, 0, value=Omitted.NO_VALUE)
    validate(one(SQUEEZE, [tensor(F32, 2, 1), nothing], [tensor(F32, 2)]), 2)
    refuses(one(PAD, [X, nothing], [X]), "operation 0: PAD.paddings must not be left out")
    half = tensor(OperandCode.TENSOR_FLOAT16, 1, value=Omitted.NO_VALUE)
    with pytest.raises(SpecError, match=r"SQUEEZE.axes takes TENSOR_INT32"):
        validate(one(SQUEEZE, [tensor(F32, 2, 1), half], [tensor(F32, 2)]), 8)


def test_check_operation_alone_as_when_it_is_added():
    assert check_operation(Operation(RELU, (0,), (1,)), [X, X], 1) == 1
    with pytest.raises(SpecError, match="RELU names operand 7 of 2"):
        check_operation(Operation(RELU, (7,), (1,)), [X, X], 1)


@pytest.mark.skipif(not FOLDER.exists(), reason="the conformance cases are not here")
def test_conformance_cases_need_the_level_that_androids_validator_finds():
    wrong, found = [], cases()
    for case in found:
        try:
            level = required_level(model(case))
        except SpecError:
            level = -1
        # Android finds an operand that must not be left out only when it runs the model.
        late = level == -1 and case.expect_failure
        if level != case.validator_level and not late:
            wrong.append((case.id, level, case.validator_level))
    assert not wrong
    assert len(found) == 3152
