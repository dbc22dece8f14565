"""Dimensions that model and execution leave open, in every mix: who notices what, and when.

The model is out[b, a] = transpose(in[a, b] + column[a, 1]), a = 2, b = 2. Each of its tensors is
known in full ("full"), in rank ("rank") or not at all ("none"), and so is what the execution
says of inputs and outputs, which may also say nothing ("null").
"""

import ctypes as c
import itertools

import numpy as np
import pytest

from ep_nnapi.nnapi.codes import ResultCode
from ep_nnapi.nnapi.spec import ADD, I32, TRANSPOSE
from tests.capi import client
from tests.capi.world import World

INSUFFICIENT = ResultCode.OUTPUT_INSUFFICIENT_SIZE
MODEL, EXECUTION = ("full", "rank", "none"), ("full", "rank", "none", "null")
KNOWN = {"full": 2, "rank": 1, "none": 0}
A, B = 2, 2


def described(dims: tuple[int, ...], level: str, code: int = 3) -> client.OperandType | None:
    sizes = {"full": dims, "rank": (0,) * len(dims), "none": (), "null": None}[level]
    return None if sizes is None else client.operand_type(code, sizes)


class Case:
    """One model; `levels` and `sizes` by tensor: in, sum, out."""

    def __init__(self, world: World, levels: dict[str, str], sizes: dict[str, tuple]) -> None:
        self.world, column = world, np.array([1, 2], np.float32)
        none, perm = np.array([0], np.int32), np.array([1, 0], np.int32)
        model = world.make("Model_create")
        types = {
            "in": described(sizes.get("in", (A, B)), levels.get("in", "rank")),
            "column": client.operand_type(dimensions=(A, 1)),
            "sum": described(sizes.get("sum", (A, B)), levels.get("sum", "rank")),
            "perm": client.operand_type(I32, (2,)),
            "out": described(sizes.get("out", (B, A)), levels.get("out", "rank")),
            "none": client.scalar(),
        }
        for each in types.values():
            world.check("Model_addOperand", model, client.ref(each))
        for index, data in ((1, column), (3, perm), (5, none)):
            world.check("Model_setOperandValue", model, index, client.pointer(data), data.nbytes)
        for op, inputs, output in ((ADD, [0, 1, 5], 2), (TRANSPOSE, [2, 3], 4)):
            ends = len(inputs), client.u32s(inputs), 1, client.u32s([output])
            world.check("Model_addOperation", model, op.code, *ends)
        world.identify(model, [0], [4])
        world.check("Model_finish", model)
        self.execution = world.execution(world.ready(model=model))
        self.numbers = np.arange(1, 7, dtype=np.float32)
        self.out = np.full(16, -1, np.float32)

    def set_input(self, dims: tuple[int, ...], level: str) -> int:
        given, size = client.ref(described(dims, level)), 4 * int(np.prod(dims))
        at = client.pointer(self.numbers)
        return self.world.nn.Execution_setInput(self.execution, 0, given, at, size)

    def set_output(self, dims: tuple[int, ...], level: str, floats: int) -> int:
        given, at = client.ref(described(dims, level)), client.pointer(self.out)
        return self.world.nn.Execution_setOutput(self.execution, 0, given, at, 4 * floats)

    def compute(self) -> int:
        return self.world.nn.Execution_compute(self.execution)

    def dimensions(self) -> list[int]:
        dims = (c.c_uint32 * 2)()
        self.world.nn.Execution_getOutputOperandDimensions(self.execution, 0, dims)
        return [*dims]


@pytest.mark.parametrize(("model", "execution"), [*itertools.product(MODEL, EXECUTION)])
def test_a_shape_is_known_when_the_input_is_set(world: World, model: str, execution: str) -> None:
    case = Case(world, {"in": model}, {})
    known = execution == "full" or (execution == "null" and model == "full")
    assert case.set_input((A, B), execution) == (client.NO_ERROR if known else client.BAD_DATA)
    if known:
        assert case.set_output((B, A), "full", A * B) == client.NO_ERROR
        assert case.compute() == client.NO_ERROR
        assert case.out[:4].tolist() == [2, 5, 3, 6]
        assert case.dimensions() == [B, A]


@pytest.mark.parametrize("model", MODEL)
def test_an_input_of_other_dimensions(world: World, model: str) -> None:
    """Three rows: noticed at once if the model knows, by the first operation otherwise."""
    case = Case(world, {"in": model}, {})
    expected = client.BAD_DATA if model == "full" else client.NO_ERROR
    assert case.set_input((3, B), "full") == expected
    if model != "full":
        assert case.set_output((B, A), "full", A * B) == client.NO_ERROR
        assert case.compute() == client.OP_FAILED


@pytest.mark.parametrize("model", MODEL)
def test_a_temporary_of_other_dimensions(world: World, model: str) -> None:
    case = Case(world, {"sum": model}, {"sum": (3, B)})
    assert case.set_input((A, B), "full") == client.NO_ERROR
    assert case.set_output((B, A), "full", A * B) == client.NO_ERROR
    assert case.compute() == (client.OP_FAILED if model == "full" else client.NO_ERROR)


SIZES = {"less": A * B // 2, "equal": A * B, "more": A * B * 2}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("model", "execution"), [*itertools.product(MODEL, EXECUTION)])
def test_an_output_may_stay_open(world: World, model: str, execution: str, size: str) -> None:
    """A length is wrong once the dimensions are known; until then it may be too small later."""
    case = Case(world, {"out": model}, {})
    assert case.set_input((A, B), "full") == client.NO_ERROR
    known = "full" in (model, execution) if execution in ("full", "null") else False
    less_known = execution != "null" and KNOWN[execution] < KNOWN[model]
    refused = less_known or (known and size != "equal")
    code = case.set_output((B, A), execution, SIZES[size])
    assert code == (client.BAD_DATA if refused else client.NO_ERROR)
    if not refused:
        assert case.compute() == (INSUFFICIENT if size == "less" else client.NO_ERROR)
        assert case.dimensions() == [B, A]
        assert case.out[:4].tolist() == ([-1] * 4 if size == "less" else [2, 5, 3, 6])


@pytest.mark.parametrize("level", ["model", "execution"])
def test_an_output_of_other_dimensions(world: World, level: str) -> None:
    """Known in full and wrong: the run finds out."""
    model, execution = ("full", "null") if level == "model" else ("rank", "full")
    case = Case(world, {"out": model}, {"out": (B, 3)})
    assert case.set_input((A, B), "full") == client.NO_ERROR
    assert case.set_output((B, 3), execution, B * 3) == client.NO_ERROR
    assert case.compute() == client.OP_FAILED
