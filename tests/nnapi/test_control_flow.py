"""IF and WHILE with the models they run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.errors import SpecError
from ep_nnapi.nnapi.host import HostRuntime
from ep_nnapi.nnapi.model import Model, Operand, Operation
from ep_nnapi.nnapi.spec import ADD, IF, LESS, RELU, WHILE
from ep_nnapi.nnapi.validate import required_level, validate
from tests.nnapi import build

FLAG = build.tensor(build.BOOL8, 1)


def branch(dims=(2, 3)):
    return Operand(OperandCode.MODEL, value=build.relu(build.tensor(build.F32, *dims)))


def conditional(condition=FLAG, then=(2, 3), otherwise=(2, 3), x=(2, 3)):
    data = build.tensor(build.F32, *x)
    return build.one(IF, [condition, branch(then), branch(otherwise), data], [data])


def test_if_runs_models_that_fit():
    build.accepted_from(conditional(), 4)
    for unknown in ((0, 3), ()):
        validate(conditional(then=unknown), 4)
        validate(conditional(x=unknown), 4)


def test_if_refusals():
    build.refuses(
        conditional(condition=build.tensor(build.BOOL8, 2)),
        "operation 0: IF.condition is TENSOR_BOOL8 [2], it takes TENSOR_BOOL8 [1]",
    )
    build.refuses(
        conditional(condition=build.tensor(build.BOOL8)),
        "operation 0: IF.condition is TENSOR_BOOL8 [?], it takes TENSOR_BOOL8 [1]",
    )
    build.refuses(
        conditional(otherwise=(2, 4)),
        "operation 0: IF.else_model inputs: number 0 is TENSOR_FLOAT32 [2, 4] "
        "and must fit TENSOR_FLOAT32 [2, 3]",
    )
    model = build.one(IF, [FLAG, branch(), branch(), build.X, build.X], [build.X])
    build.refuses(model, "operation 0: IF.then_model inputs: the model has 1, the operation has 2")


def either(*models):
    """IF with the last of the models as both branches; there are MODEL operands for all."""
    inner = [Operand(OperandCode.MODEL, value=m) for m in models]
    last = 2 + len(inner)
    operation = Operation(IF, (0, last, last, 0, 1), (2,))
    return Model((FLAG, build.X, build.X, *inner), (operation,), (0, 1), (2,))


def nested(depth):
    """IF within IF, outermost last: there are 2^depth ways into the innermost model."""
    models = [Model((FLAG, build.X, build.X), (Operation(RELU, (1,), (2,)),), (0, 1), (2,))]
    for _ in range(depth):
        models.append(either(models[-1]))
    return models


def test_a_shared_model_is_checked_and_prepared_once():
    """Once for each way there, 64 deep would never end."""
    runtime, x = HostRuntime(), np.float32([[-1, 0, 1], [2, -3, 4]])
    model = nested(64)[-1]
    made = runtime.compile(model, runtime.devices()[0])
    np.testing.assert_array_equal(made.run([np.array([True]), x])[0], np.maximum(x, 0))
    assert required_level(model) == 4


@pytest.mark.parametrize("shown", ["outermost", "innermost"])
def test_models_nested_too_deep_are_refused(shown):
    """Also where the check meets each of them beside the others, and no deeper."""
    models = nested(64)
    model = either(models[-1]) if shown == "outermost" else either(*models)
    with pytest.raises(SpecError, match=r"models are nested more than 64 deep$"):
        validate(model, 8)


def test_quantization_must_fit_too():
    inner = Operand(OperandCode.MODEL, value=build.relu(build.tensor(build.Q8, 2, scale=0.5)))
    outer = build.tensor(build.Q8, 2, scale=0.25)
    build.refuses(
        build.one(IF, [FLAG, inner, inner, outer], [outer]),
        "operation 0: IF.then_model inputs: number 0 is TENSOR_QUANT8_ASYMM [2] of scale 0.5 "
        "from 0 and must fit TENSOR_QUANT8_ASYMM [2] of scale 0.25 from 0",
    )


def test_errors_inside_a_model_say_where():
    broken = replace(build.relu(), outputs=(1, 1))
    inner = Operand(OperandCode.MODEL, value=broken)
    build.refuses(
        build.one(IF, [FLAG, inner, branch(), build.X], [build.X]),
        "in the model of operand 1: operand 1 is listed as output and again as output",
    )


def loop(condition=None, body=None, extra=(), outputs=1):
    data = build.tensor(build.F32, 1)
    condition = condition or build.one(LESS, [data, data], [FLAG])
    body = body or build.chain((0, 2), size=3)
    body = replace(body, operands=(data,) * 3, inputs=(0, 1))
    models = [Operand(OperandCode.MODEL, value=m) for m in (condition, body)]
    return build.one(WHILE, [*models, data, data, *extra], [data] * outputs)


def test_while_runs_models_that_fit():
    build.accepted_from(loop(), 4)


def test_while_keeps_state_that_it_does_not_return():
    data = build.tensor(build.F32, 1)
    body = Model(
        (data,) * 4, (Operation(RELU, (0,), (2,)), Operation(RELU, (1,), (3,))), (0, 1), (2, 3)
    )
    models = [
        Operand(OperandCode.MODEL, value=m) for m in (build.one(LESS, [data] * 2, [FLAG]), body)
    ]
    validate(build.one(WHILE, [*models, data, data], [data]), 4)
    validate(build.one(WHILE, [*models, data, data], [data, data]), 4)
    build.refuses(
        build.one(WHILE, [*models, data, data], [data] * 3),
        "operation 0: WHILE.body_model has 2 outputs, it takes 3 to 2",
    )


def test_while_refusals():
    build.refuses(
        loop(extra=[build.X]),
        "operation 0: WHILE.condition_model inputs: the model has 2, the operation has 3",
    )
    data = build.tensor(build.F32, 1)
    build.refuses(
        loop(condition=build.one(ADD, [data, data, build.NONE], [data])),
        "operation 0: WHILE.condition_model output is TENSOR_FLOAT32 [1], "
        "it takes TENSOR_BOOL8 [1]",
    )
    two = build.one(LESS, [data, data], [FLAG])
    again = Operation(LESS, (0, 1), (3,))
    two = replace(
        two, operands=(*two.operands, FLAG), operations=(*two.operations, again), outputs=(2, 3)
    )
    build.refuses(
        loop(condition=two), "operation 0: WHILE.condition_model has 2 outputs, it takes 1"
    )
