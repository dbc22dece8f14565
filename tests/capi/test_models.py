"""Models: constants by copy and by reference, shapes given at run time, levels."""

import ctypes as c
import itertools
import mmap
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.capi import c_arguments, device
from ep_nnapi.nnapi.capi.model import MODELS
from ep_nnapi.nnapi.codes import OperandCode, ResultCode
from ep_nnapi.nnapi.model import Model
from ep_nnapi.nnapi.spec import BOOL8, F32
from tests.capi.client import (
    BAD_DATA,
    NO_ERROR,
    Library,
    operand_type,
    pointer,
    ref,
    scalar,
    u32s,
)
from tests.capi.operations import CODES, described
from tests.capi.world import WAYS, Way, World
from tests.programs import in_child

TOKEN = bytes(range(32))


@pytest.mark.parametrize(("floats", "shared"), [(32, False), (33, True)])
def test_constants_up_to_128_bytes_are_copied_larger_ones_referenced(world, floats, shared):
    data = np.arange(floats, dtype=np.float32)
    model = world.typed_model(F32, (floats,))
    world.check("Model_setOperandValue", model, 0, pointer(data), data.nbytes)
    held = MODELS[model].operands[0].value.bytes
    assert np.shares_memory(held, data) is shared
    assert held.tobytes() == data.tobytes()


def test_constants_of_a_memory_are_what_the_file_holds(world: World) -> None:
    data = np.arange(100, dtype=np.float32)
    memory = world.memory(data.tobytes(), mmap.PROT_READ)
    model = world.typed_model(F32, (40,))
    world.check("Model_setOperandValueFromMemory", model, 0, memory, 80, 160)
    world.nn.Memory_free(memory)
    assert MODELS[model].operands[0].array.tolist() == data[20:60].tolist()


def test_a_referenced_model_outlives_its_handle(world: World) -> None:
    inner = world.finished_model
    model = world.typed_model()
    world.check("Model_setOperandValueFromModel", model, 0, inner)
    world.nn.Model_free(inner)
    assert isinstance(MODELS[model].operands[0].value, Model)


@pytest.mark.parametrize("relaxed", [True, False])
def test_the_relaxed_flag_is_the_models(world: World, relaxed: bool) -> None:
    model = world.open_model
    world.check("Model_relaxComputationFloat32toFloat16", model, relaxed)
    world.check("Model_finish", model)
    assert MODELS[model].finished.model.relaxed is relaxed


def test_supported_operations_are_told_in_the_order_of_adding(world: World) -> None:
    """2 = vendor(2) would be refused; here LOGISTIC(2) -> 1 is added before RELU(0) -> 2."""
    steps = (spec.LOGISTIC.code, [2], [1]), (spec.RELU.code, [0], [2])
    model = world.model_of([operand_type()] * 3, *steps, ends=([0], [1]))
    assert MODELS[model].finished.order == (1, 0)
    answers = (c.c_bool * 2)(False, False)
    devices = world.devices(world.device)
    world.check("Model_getSupportedOperationsForDevices", model, devices, 1, answers)
    assert list(answers) == [True, True]


def test_a_vendors_operation_is_supported_by_no_device(world: World) -> None:
    model = world.model_of([operand_type(10001, (1,))] * 2, (10000, [0], [1]), ends=([0], [1]))
    answers = (c.c_bool * 1)(True)
    devices = world.devices(world.device)
    world.check("Model_getSupportedOperationsForDevices", model, devices, 1, answers)
    assert not answers[0]


@pytest.fixture
def level(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """The environment, read anew before and after."""
    device.runtime.cache_clear()
    yield monkeypatch
    device.runtime.cache_clear()


@pytest.mark.parametrize(
    ("asked", "code", "float16", "optional_axis"),
    [
        ("1", 27, False, False),
        ("2", 28, False, False),
        ("3", 29, True, True),
        ("8", 1000008, True, True),
    ],
)
def test_a_lower_level_validates_as_that_level_does(
    nn: Library,
    world: World,
    level: pytest.MonkeyPatch,
    asked: str,
    code: int,
    float16: bool,
    optional_axis: bool,
) -> None:
    """TENSOR_FLOAT16 came with level 3, SOFTMAX's axis too."""
    level.setenv(device.LEVEL_VARIABLE, asked)
    assert nn.getRuntimeFeatureLevel() == code
    model = world.make("Model_create")
    half = ref(operand_type(OperandCode.TENSOR_FLOAT16))
    assert nn.Model_addOperand(model, half) == (0 if float16 else BAD_DATA)
    tensor = operand_type(dimensions=(1, 2))
    model = world.model_of([tensor, scalar(OperandCode.FLOAT32), scalar(), tensor])
    assert world.add(model, spec.SOFTMAX.code, [0, 1, 2], [3]) == (0 if optional_axis else BAD_DATA)


@pytest.mark.parametrize("asked", ["0", "9", "three"])
def test_a_level_that_does_not_exist_fails_every_call(nn, level, caplog, asked):
    level.setenv(device.LEVEL_VARIABLE, asked)
    with caplog.at_level("INFO"):
        assert nn.Model_create(ref(c.c_void_p())) == ResultCode.OP_FAILED
    assert asked in caplog.text


@pytest.mark.parametrize("declared", [(0, 0), (0, 3), ()], ids=str)
def test_unknown_dimensions_are_given_by_the_execution(world: World, declared: tuple[int, ...]):
    compilation = world.ready(model=world.finished(dims=declared))
    a, b = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((2, 3), np.float32)
    out = np.zeros(6, np.float32)
    execution = world.execution(compilation)
    given = ref(operand_type(dimensions=(2, 3)))
    for i, array in enumerate((a, b)):
        missing = world.nn.Execution_setInput(execution, i, None, pointer(array), array.nbytes)
        assert missing == BAD_DATA
        world.check("Execution_setInput", execution, i, given, pointer(array), array.nbytes)
    world.check("Execution_setOutput", execution, 0, None, pointer(out), out.nbytes)
    world.check("Execution_compute", execution)
    rank, dims = c.c_uint32(), (c.c_uint32 * 2)()
    world.check("Execution_getOutputOperandRank", execution, 0, ref(rank))
    world.check("Execution_getOutputOperandDimensions", execution, 0, dims)
    assert (rank.value, [*dims]) == (2, [2, 3])
    assert out.tolist() == (a + b).reshape(-1).tolist()


def test_models_do_not_pile_up(world: World) -> None:
    before = len(MODELS)
    model = world.finished_model
    assert len(MODELS) == before + 1
    world.nn.Model_free(model)
    assert len(MODELS) == before


def test_operations_are_the_specs(world: World) -> None:
    model = MODELS[world.finished_model].finished.model
    assert [o.spec for o in model.operations] == [spec.ADD]


def test_a_cache_is_taken_and_nothing_is_kept_there(world: World, tmp_path: Path) -> None:
    for token in (TOKEN, TOKEN, bytes(32)):
        compilation = world.compilation(world.finished_model)
        world.check("Compilation_setCaching", compilation, bytes(tmp_path), token)
        world.check("Compilation_finish", compilation)
        world.check("Execution_compute", world.set_all(world.execution(compilation)))
        assert world.out.tolist() == [11, 22]
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("count", [64, 65, 300], ids=["short", "longer", "in chunks"])
def test_lists_of_any_length(world: World, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """A concatenation of one tensor with itself, `count` times."""
    monkeypatch.setattr(c_arguments, "_CHUNK", 128)
    one, whole = operand_type(dimensions=(1,)), operand_type(dimensions=(count,))
    model, axis = world.model_of([one, scalar(), whole]), c.c_int32(0)
    world.check("Model_setOperandValue", model, 1, ref(axis), 4)
    assert world.add(model, spec.CONCATENATION.code, [0] * count + [1], [2]) == NO_ERROR
    assert MODELS[model].operations[0].inputs == (0,) * count + (1,)
    assert world.add(model, spec.CONCATENATION.code, [0] * count + [3], [2]) == BAD_DATA


def test_a_list_that_ends_in_nothing_is_bad_data(world: World) -> None:
    """The last page of a mapping, 100 entries before its end."""
    mapping = mmap.mmap(-1, 2 * mmap.PAGESIZE)
    at = c.addressof(c.c_char.from_buffer(mapping)) + 2 * mmap.PAGESIZE - 400
    operation = (spec.ADD.code, 2_000_000, at, 1, u32s([3]))
    assert world.nn.Model_addOperation(world.open_model, *operation) == BAD_DATA


def test_a_forked_child_reads_its_own_lists(world: World) -> None:
    model, inputs = world.open_model, u32s([0] * 100)
    world.nn.Model_addOperation(model, 2, 100, inputs, 1, u32s([3]))  # opens the parent's memory

    def check() -> bool:
        inputs[99] = 77
        MODELS[model].operations.clear()
        return world.nn.Model_addOperation(model, 2, 100, inputs, 1, u32s([3])) != BAD_DATA

    assert in_child(check) == 0


MISSED = (ResultCode.MISSED_DEADLINE_TRANSIENT, ResultCode.MISSED_DEADLINE_PERSISTENT)
MODEL = OperandCode.MODEL
KNOWN = {"known": (1, 2, 3), "ranked": (0, 2, 0), "unknown": ()}
COMBINATIONS = [*itertools.product(KNOWN.values(), repeat=3)]
IDS = ["-".join(names) for names in itertools.product(KNOWN, repeat=3)]
ONE_BOOL = operand_type(BOOL8, (1,))


def identity(w: World, dims: tuple[int, ...]) -> int:
    return w.model_of([operand_type(F32, dims)] * 2, (spec.CAST.code, [0], [1]), ends=([0], [1]))


def less(w: World, dims: tuple[int, ...]) -> int:
    """A condition of two numbers."""
    operands = [*[operand_type(F32, dims)] * 2, ONE_BOOL]
    return w.model_of(operands, (spec.LESS.code, [0, 1], [2]), ends=([0, 1], [2]))


def first(w: World, dims: tuple[int, ...]) -> int:
    """A body that hands on the first of two numbers."""
    return w.model_of([operand_type(F32, dims)] * 3, (spec.CAST.code, [0], [2]), ends=([0, 1], [2]))


def branching(w: World, outer: tuple[int, ...], inner: Sequence[tuple[int, ...]]) -> int:
    data = operand_type(F32, outer)
    branches = {1 + i: identity(w, dims) for i, dims in enumerate(inner)}
    operands = [ONE_BOOL, scalar(MODEL), scalar(MODEL), data, data]
    return w.model_of(operands, models=branches)


def looping(w: World, outer: tuple[int, ...], inner: Sequence[tuple[int, ...]]) -> int:
    data = operand_type(F32, outer)
    models = {0: less(w, inner[0]), 1: first(w, inner[1])}
    return w.model_of([scalar(MODEL), scalar(MODEL), data, data, data], models=models)


KINDS = {"IF": (spec.IF, branching), "WHILE": (spec.WHILE, looping)}


@pytest.mark.parametrize("dims", COMBINATIONS, ids=IDS)
@pytest.mark.parametrize("kind", KINDS)
def test_dimensions_may_be_known_inside_or_outside(world, kind, dims):
    row, build = KINDS[kind]
    assert world.add(build(world, dims[0], dims[1:]), row.code, range(4), [4]) == NO_ERROR


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
                assert world.add(model, row.code, operands[:4], operands[4:]) == BAD_DATA
    for more in range(1, 6):
        assert world.add(model, row.code, [*range(4), *[0] * more], [4]) == BAD_DATA
        assert world.add(model, row.code, range(4), [4] * (1 + more)) == BAD_DATA
    assert world.add(model, row.code, range(3), [4]) == BAD_DATA


def endless(w: World) -> int:
    """A compilation of `i = 1; while i >= n: i += 1`; n is the input."""
    number = operand_type(F32, (1,))
    step = spec.GREATER_EQUAL.code, [0, 1], [2]
    condition = w.model_of([number, number, ONE_BOOL], step, ends=([0, 1], [2]))
    body = w.model_of([number, number, number, scalar(), number], (spec.ADD.code, [0, 2, 3], [4]))
    one, none = c.c_float(1), c.c_int32(0)
    w.check("Model_setOperandValue", body, 2, ref(one), 4)
    w.check("Model_setOperandValue", body, 3, ref(none), 4)
    w.identify(body, [0, 1], [4])
    w.check("Model_finish", body)
    operands, models = (
        [scalar(MODEL), scalar(MODEL), number, number, number],
        {0: condition, 1: body},
    )
    model = w.model_of(operands, (spec.WHILE.code, range(4), [4]), models=models)
    w.check("Model_setOperandValue", model, 2, ref(one), 4)
    w.identify(model, [3], [4])
    w.check("Model_finish", model)
    return w.ready(model=model)


@pytest.mark.parametrize("way", WAYS, ids=lambda w: w.__name__)
def test_a_loop_that_goes_on_is_stopped(world: World, way: Way) -> None:
    compilation = endless(world)
    execution = world.execution(compilation)
    n, result = np.zeros(1, np.float32), np.zeros(1, np.float32)
    world.bind(execution, n, out=result)
    world.check("Execution_setLoopTimeout", execution, 1_000_000)
    begin = time.process_time()
    assert way(world, execution, compilation) in MISSED
    assert time.process_time() - begin < 1.5  # the default would be 2 seconds


def test_how_long_loops_may_take(world: World) -> None:
    assert world.nn.getDefaultLoopTimeout() == 2 * 10**9
    assert world.nn.getMaximumLoopTimeout() == 15 * 10**9
