"""Rules for a finished model as a whole: each at its limit and just past it."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.errors import SpecError
from ep_nnapi.nnapi.host import HostRuntime
from ep_nnapi.nnapi.model import ChannelQuantization, Data, Model, Omitted, Operand, Operation
from ep_nnapi.nnapi.spec import BOOL8, F32, I32, INT32, Q8, Q8C, Q8S
from ep_nnapi.nnapi.validate import check_operation, execution_order, required_level, validate
from tests.nnapi import build
from tests.nnapi.build import (
    NONE,
    X,
    accepted_from,
    chain,
    constant,
    one,
    refuses,
    relu,
    scalar,
    tensor,
)
from tests.nnapi.conformance import FOLDER, cases, model
from tests.ort_devices.networks import Network


@pytest.mark.parametrize(
    ("model", "level"),
    [
        (relu(), 1),
        (relu(tensor(F32)), 3),
        (relu(tensor(Q8, 2, scale=0.5)), 1),
        (relu(tensor(Q8S, 2, scale=0.5)), 4),
        (one(spec.BY_NAME["TANH"], [tensor(Q8, 2, scale=0.5)], [tensor(Q8, 2, scale=0.5)]), 3),
        (one(spec.CAST, [tensor(BOOL8, 2)], [tensor(BOOL8, 2)]), 4),
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
    model = one(spec.ADD, [X, X, NONE], [X])
    refuses(replace(model, inputs=(0, 1, 2)), "operand 2 has a value and is listed as input")


def test_operations_name_operands():
    model = replace(relu(), operations=(Operation(spec.RELU, (0,), (2,)),))
    refuses(model, "operation 0: RELU names operand 2 of 2")


def test_operands_are_written_once():
    refuses(chain((0, 1), (0, 1)), "operations 0 and 1 both write operand 1")
    twice = Operation(spec.BY_NAME["TOPK_V2"], (0, 1), (2, 2))
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
        one(spec.RELU, [tensor(F32, 1, 1, 1, 1, 1)], [X]),
        "operation 0: operand 0 is TENSOR_FLOAT32 of rank 5, RELU.input takes rank 1-4",
    )
    refuses(
        one(spec.SOFTMAX, [X, scalar(OperandCode.FLOAT32, 1), scalar(INT32, 0)], [X]),
        "operation 0: SOFTMAX.axis needs feature level 3, the target has 2",
        level=2,
    )


def test_left_out_where_allowed_only():
    nothing = tensor(I32, 0, value=Omitted.NO_VALUE)
    validate(one(spec.SQUEEZE, [tensor(F32, 2, 1), nothing], [tensor(F32, 2)]), 2)
    refuses(one(spec.PAD, [X, nothing], [X]), "operation 0: PAD.paddings must not be left out")
    half = tensor(OperandCode.TENSOR_FLOAT16, 1, value=Omitted.NO_VALUE)
    with pytest.raises(SpecError, match=r"SQUEEZE.axes takes TENSOR_INT32"):
        validate(one(spec.SQUEEZE, [tensor(F32, 2, 1), half], [tensor(F32, 2)]), 8)


def test_check_operation_alone_as_when_it_is_added():
    assert check_operation(Operation(spec.RELU, (0,), (1,)), [X, X], 1) == 1
    with pytest.raises(SpecError, match="RELU names operand 7 of 2"):
        check_operation(Operation(spec.RELU, (7,), (1,)), [X, X], 1)


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


@pytest.mark.parametrize(
    ("operand", "sentence"),
    [
        (Operand(INT32, (1,)), "is a scalar with dimensions [1]"),
        (tensor(F32, -1), "has a negative dimension"),
        (tensor(F32, 2**15, 2**15), "takes more than 4294967295 bytes"),
        (tensor(F32, 2**15, 0, 2**15), "takes more than 4294967295 bytes"),
        (tensor(F32, 2, scale=0.5), "has scale 0.5, it takes none"),
        (tensor(F32, 2, zero_point=1), "has zero point 1, it takes 0"),
        (tensor(Q8, 2), "has scale 0, it takes a scale > 0"),
        (tensor(Q8, 2, scale=float("nan")), "has scale nan, it takes a scale > 0"),
        (tensor(Q8, 2, scale=0.5, zero_point=256), "has zero point 256, it takes 0 to 255"),
        (tensor(Q8S, 2, scale=0.5, zero_point=-129), "has zero point -129, it takes -128 to 127"),
        (
            tensor(OperandCode.TENSOR_QUANT16_ASYMM, 2, scale=0.5, zero_point=65536),
            "has zero point 65536, it takes 0 to 65535",
        ),
        (
            tensor(OperandCode.TENSOR_QUANT16_SYMM, 2, scale=0.5, zero_point=1),
            "has zero point 1, it takes 0",
        ),
        (
            tensor(OperandCode.TENSOR_QUANT8_SYMM, 2, scale=-1.0),
            "has scale -1, it takes a scale > 0",
        ),
        (tensor(I32, 2, scale=-1.0), "has scale -1, it takes a scale >= 0"),
        (
            tensor(F32, 2, channels=ChannelQuantization(0, (1.0, 1.0))),
            "takes no scales per channel",
        ),
        (Operand(OperandCode.MODEL), ": models, and only models, are values of MODEL operands"),
    ],
)
def test_operand_is_illegal_on_its_own(operand, sentence):
    dims = f" {list(operand.dimensions)}" if operand.type.tensor else ""
    space = "" if sentence.startswith(":") else " "
    refuses(relu(operand), f"operand 0 ({operand.type.name}{dims}){space}{sentence}")


@pytest.mark.parametrize(
    "operand",
    [
        tensor(F32, 2**15, 2**15 - 1),
        tensor(F32, 0, 0),
        tensor(Q8, 2, scale=1e-30, zero_point=255),
        tensor(Q8S, 2, scale=0.5, zero_point=-128),
        tensor(Q8S, 2, scale=0.5, zero_point=127),
    ],
)
def test_operand_at_the_limits(operand):
    validate(relu(operand), 8)


def test_plain_integers_may_carry_a_scale():
    bias = constant(np.zeros(3, np.int32), scale=0.25)
    x, w = tensor(Q8, 2, 4, scale=0.5), tensor(Q8, 3, 4, scale=0.5)
    validate(one(spec.FULLY_CONNECTED, [x, w, bias, NONE], [tensor(Q8, 2, 3, scale=1.0)]), 1)


@pytest.mark.parametrize(
    ("channels", "sentence"),
    [
        (None, "has no scales per channel"),
        (ChannelQuantization(2, (1.0, 1.0)), "has scales along dimension 2"),
        (ChannelQuantization(-1, (1.0, 1.0)), "has scales along dimension -1"),
        (ChannelQuantization(0, (1.0,)), "has 1 scales for 2 channels"),
        (ChannelQuantization(0, (1.0, 0.0)), "has a scale that is not > 0"),
        (ChannelQuantization(1, ()), "has 0 scales for 0 channels"),
    ],
)
def test_scales_per_channel(channels, sentence):
    x = Operand(Q8C, (2, 0), channels=channels)
    refuses(
        one(spec.DEQUANTIZE, [x], [tensor(F32, 2, 0)]),
        f"operand 0 (TENSOR_QUANT8_SYMM_PER_CHANNEL [2, 0]) {sentence}",
    )


@pytest.mark.parametrize(
    ("operand", "sentence"),
    [
        (replace(X, value=Data.of(np.zeros(5, np.float32))), "takes 24 bytes, its constant has 20"),
        (
            tensor(F32, 2, 0, value=Data.of(np.zeros(0, np.float32))),
            "is a constant of unknown shape",
        ),
        (tensor(F32, value=Data.of(np.zeros(1, np.float32))), "is a constant of unknown shape"),
        (tensor(F32, 2, value=relu()), ": models, and only models, are values of MODEL operands"),
    ],
)
def test_values(operand, sentence):
    model = one(spec.ADD, [X, operand, NONE], [X])
    with pytest.raises(SpecError, match=r"operand 1 \(TENSOR_FLOAT32 ") as caught:
        validate(model, 8)
    assert str(caught.value).endswith(sentence)


FLAG = build.tensor(build.BOOL8, 1)


def branch(dims=(2, 3)):
    return build.relu(build.tensor(build.F32, *dims))


def conditional(condition=FLAG, then=(2, 3), otherwise=(2, 3), x=(2, 3)):
    data = build.tensor(build.F32, *x)
    return build.one(spec.IF, [condition, branch(then), branch(otherwise), data], [data])


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
    model = build.one(spec.IF, [FLAG, branch(), branch(), build.X, build.X], [build.X])
    build.refuses(model, "operation 0: IF.then_model inputs: the model has 1, the operation has 2")


def either(*models):
    """IF with the last of the models as both branches; there are MODEL operands for all."""
    inner = [*map(build.operand, models)]
    last = 2 + len(inner)
    operation = Operation(spec.IF, (0, last, last, 0, 1), (2,))
    return Model((FLAG, build.X, build.X, *inner), (operation,), (0, 1), (2,))


def nested(depth):
    """IF within IF, outermost last: there are 2^depth ways into the innermost model."""
    models = [Model((FLAG, build.X, build.X), (Operation(spec.RELU, (1,), (2,)),), (0, 1), (2,))]
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
    inner = build.relu(build.tensor(build.Q8, 2, scale=0.5))
    outer = build.tensor(build.Q8, 2, scale=0.25)
    build.refuses(
        build.one(spec.IF, [FLAG, inner, inner, outer], [outer]),
        "operation 0: IF.then_model inputs: number 0 is TENSOR_QUANT8_ASYMM [2] of scale 0.5 "
        "from 0 and must fit TENSOR_QUANT8_ASYMM [2] of scale 0.25 from 0",
    )


def test_errors_inside_a_model_say_where():
    inner = replace(build.relu(), outputs=(1, 1))
    build.refuses(
        build.one(spec.IF, [FLAG, inner, branch(), build.X], [build.X]),
        "in the model of operand 1: operand 1 is listed as output and again as output",
    )


def loop(condition=None, body=None, extra=(), outputs=1):
    data = build.tensor(build.F32, 1)
    condition = condition or build.one(spec.LESS, [data, data], [FLAG])
    body = body or build.chain((0, 2), size=3)
    body = replace(body, operands=(data,) * 3, inputs=(0, 1))
    return build.one(spec.WHILE, [condition, body, data, data, *extra], [data] * outputs)


def test_while_runs_models_that_fit():
    build.accepted_from(loop(), 4)


def test_while_keeps_state_that_it_does_not_return():
    data = build.tensor(build.F32, 1)
    net = Network(data, data)
    body = net.model(*(net.operation(spec.RELU, [x], data) for x in net.inputs))
    models = build.one(spec.LESS, [data] * 2, [FLAG]), body
    validate(build.one(spec.WHILE, [*models, data, data], [data]), 4)
    validate(build.one(spec.WHILE, [*models, data, data], [data, data]), 4)
    build.refuses(
        build.one(spec.WHILE, [*models, data, data], [data] * 3),
        "operation 0: WHILE.body_model has 2 outputs, it takes 3 to 2",
    )


def test_while_refusals():
    build.refuses(
        loop(extra=[build.X]),
        "operation 0: WHILE.condition_model inputs: the model has 2, the operation has 3",
    )
    data = build.tensor(build.F32, 1)
    build.refuses(
        loop(condition=build.one(spec.ADD, [data, data, build.NONE], [data])),
        "operation 0: WHILE.condition_model output is TENSOR_FLOAT32 [1], "
        "it takes TENSOR_BOOL8 [1]",
    )
    two = build.one(spec.LESS, [data, data], [FLAG])
    again = Operation(spec.LESS, (0, 1), (3,))
    two = replace(
        two, operands=(*two.operands, FLAG), operations=(*two.operations, again), outputs=(2, 3)
    )
    build.refuses(
        loop(condition=two), "operation 0: WHILE.condition_model has 2 outputs, it takes 1"
    )
