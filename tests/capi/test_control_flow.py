"""IF and WHILE as a client builds and runs them: the models they refer to, and loops that go on."""

import ctypes as c
import itertools
import time
from collections.abc import Sequence

import pytest

from ep_nnapi.nnapi.codes import OperandCode, ResultCode
from ep_nnapi.nnapi.signature import OperationSpec
from ep_nnapi.nnapi.spec import ADD, CAST, GREATER_EQUAL, IF, LESS, WHILE
from tests.capi.client import OperandType, operand_type, ref, scalar, u32s
from tests.capi.operations import CODES, described
from tests.capi.ways import WAYS, Way
from tests.capi.world import World

NO_ERROR, BAD_DATA = ResultCode.NO_ERROR, ResultCode.BAD_DATA
MISSED = (ResultCode.MISSED_DEADLINE_TRANSIENT, ResultCode.MISSED_DEADLINE_PERSISTENT)
F32, BOOL8, MODEL = OperandCode.TENSOR_FLOAT32, OperandCode.TENSOR_BOOL8, OperandCode.MODEL
KNOWN = {"known": (1, 2, 3), "ranked": (0, 2, 0), "unknown": ()}
COMBINATIONS = [*itertools.product(KNOWN.values(), repeat=3)]
IDS = ["-".join(names) for names in itertools.product(KNOWN, repeat=3)]
Step = tuple[OperationSpec, Sequence[int], Sequence[int]]
ONE_BOOL = operand_type(BOOL8, (1,))


def open_model(w: World, operands: Sequence[OperandType], values: dict[int, int]) -> int:
    """A model with those operands; `values` are the finished models of some of them."""
    model = w.make("Model_create")
    for operand in operands:
        w.check("Model_addOperand", model, ref(operand))
    for index, value in values.items():
        w.check("Model_setOperandValueFromModel", model, index, value)
    return model


def add(w: World, model: int, step: Step) -> int:
    row, ins, outs = step
    ends = len(ins), u32s(ins), len(outs), u32s(outs)
    return w.nn.Model_addOperation(model, row.code, *ends)


def finish(w: World, model: int, step: Step, ends: tuple[list[int], list[int]]) -> int:
    assert add(w, model, step) == NO_ERROR
    w.identify(model, *ends)
    w.check("Model_finish", model)
    return model


def identity(w: World, dims: tuple[int, ...]) -> int:
    model = open_model(w, [operand_type(F32, dims)] * 2, {})
    return finish(w, model, (CAST, [0], [1]), ([0], [1]))


def less(w: World, dims: tuple[int, ...]) -> int:
    """A condition of two numbers."""
    model = open_model(w, [*[operand_type(F32, dims)] * 2, ONE_BOOL], {})
    return finish(w, model, (LESS, [0, 1], [2]), ([0, 1], [2]))


def first(w: World, dims: tuple[int, ...]) -> int:
    """A body that hands on the first of two numbers."""
    model = open_model(w, [operand_type(F32, dims)] * 3, {})
    return finish(w, model, (CAST, [0], [2]), ([0, 1], [2]))


def branching(w: World, outer: tuple[int, ...], inner: Sequence[tuple[int, ...]]) -> int:
    data = operand_type(F32, outer)
    branches = {1 + i: identity(w, dims) for i, dims in enumerate(inner)}
    return open_model(w, [ONE_BOOL, scalar(MODEL), scalar(MODEL), data, data], branches)


def looping(w: World, outer: tuple[int, ...], inner: Sequence[tuple[int, ...]]) -> int:
    data = operand_type(F32, outer)
    models = {0: less(w, inner[0]), 1: first(w, inner[1])}
    return open_model(w, [scalar(MODEL), scalar(MODEL), data, data, data], models)


KINDS = {"IF": (IF, branching), "WHILE": (WHILE, looping)}


@pytest.mark.parametrize("dims", COMBINATIONS, ids=IDS)
@pytest.mark.parametrize("kind", KINDS)
def test_dimensions_may_be_known_inside_or_outside(
    world: World, kind: str, dims: tuple[tuple[int, ...], ...]
) -> None:
    row, build = KINDS[kind]
    assert add(world, build(world, dims[0], dims[1:]), (row, range(4), [4])) == NO_ERROR


@pytest.mark.parametrize("kind", KINDS)
def test_one_operand_of_another_type_too_many_too_few(world: World, kind: str) -> None:
    row, build = KINDS[kind]
    dims = KNOWN["known"]
    model = build(world, dims, [dims] * 2)
    codes = [BOOL8, MODEL, MODEL, F32, F32] if kind == "IF" else [MODEL, MODEL, F32, F32, F32]
    for number, code in enumerate(CODES):
        given = described(code, dims)
        world.check("Model_addOperand", model, ref(operand_type(*given)))
        for place in range(5):
            if code != codes[place]:
                operands = [*range(5)]
                operands[place] = 5 + number
                assert add(world, model, (row, operands[:4], operands[4:])) == BAD_DATA
    for more in range(1, 6):
        assert add(world, model, (row, [*range(4), *[0] * more], [4])) == BAD_DATA
        assert add(world, model, (row, range(4), [4] * (1 + more))) == BAD_DATA
    assert add(world, model, (row, range(3), [4])) == BAD_DATA


def endless(w: World) -> int:
    """A compilation of `i = 1; while i >= n: i += 1`; n is the input."""
    number = operand_type(F32, (1,))
    condition = open_model(w, [number, number, ONE_BOOL], {})
    finish(w, condition, (GREATER_EQUAL, [0, 1], [2]), ([0, 1], [2]))
    body = open_model(w, [number, number, number, scalar(), number], {})
    one, none = c.c_float(1), c.c_int32(0)
    w.check("Model_setOperandValue", body, 2, ref(one), 4)
    w.check("Model_setOperandValue", body, 3, ref(none), 4)
    finish(w, body, (ADD, [0, 2, 3], [4]), ([0, 1], [4]))
    operands = [scalar(MODEL), scalar(MODEL), number, number, number]
    model = open_model(w, operands, {0: condition, 1: body})
    w.check("Model_setOperandValue", model, 2, ref(one), 4)
    return w.ready(model=finish(w, model, (WHILE, range(4), [4]), ([3], [4])))


@pytest.mark.parametrize("way", WAYS, ids=lambda w: w.__name__)
def test_a_loop_that_goes_on_is_stopped(world: World, way: Way) -> None:
    compilation = endless(world)
    execution = world.execution(compilation)
    n, result = c.c_float(0), c.c_float()
    world.check("Execution_setInput", execution, 0, None, ref(n), 4)
    world.check("Execution_setOutput", execution, 0, None, ref(result), 4)
    world.check("Execution_setLoopTimeout", execution, 1_000_000)
    begin = time.process_time()
    assert way(world, execution, compilation) in MISSED
    assert time.process_time() - begin < 1.5  # the default would be 2 seconds


def test_how_long_loops_may_take(world: World) -> None:
    assert world.nn.getDefaultLoopTimeout() == 2 * 10**9
    assert world.nn.getMaximumLoopTimeout() == 15 * 10**9
