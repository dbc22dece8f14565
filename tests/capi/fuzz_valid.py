"""Random valid sequences of the C API, with the numbers that they must compute."""

import random

import numpy as np

from ep_nnapi.nnapi.spec import ADD, LOGISTIC, MUL, RELU, SUB
from tests.capi.client import Library, operand_type, pointer, ref, u32s
from tests.capi.world import World

UNARY = {RELU: lambda a: np.maximum(a, 0), LOGISTIC: lambda a: 1 / (1 + np.exp(-a))}
BINARY = {ADD: np.add, SUB: np.subtract, MUL: np.multiply}
WAYS = ("compute", "start", "burst", "fenced")
Shape = tuple[int, ...]


def chain(nn: Library, r: random.Random) -> str:
    """Operations one after the other, on a shape that the model may leave unknown.

    Says what was made; raises AssertionError when a call or a number is wrong.
    """
    shape = tuple(r.randint(1, 4) for _ in range(r.randint(1, 4)))
    unknown = tuple(0 if r.random() < 0.3 else d for d in shape)
    ops = [r.choice((*UNARY, *BINARY)) for _ in range(r.randint(1, 4))]
    numbers = np.random.default_rng(r.getrandbits(32))
    a, b = (numbers.normal(size=shape).astype(np.float32) for _ in "ab")
    world, way = World(nn), r.choice(WAYS)
    try:
        model = _model(world, (shape, unknown), ops, b)
        compilation = world.ready(model=model, for_device=r.random() < 0.5)
        out = _run(world, compilation, a, way)
    finally:
        world.close()
    for op in ops:
        a = UNARY[op](a) if op in UNARY else BINARY[op](a, b)
    np.testing.assert_allclose(out, a, rtol=1e-5, atol=1e-6)  # exp in float32
    return f"{way} of {ops} on {shape}, declared {unknown}"


def _model(w: World, shapes: tuple[Shape, Shape], ops: list, b: np.ndarray) -> int:
    """Operand 0 is the input, 1 the constant `b`, 2 no activation, then the results."""
    (shape, unknown), none = shapes, np.array([0], np.int32)
    model = w.make("Model_create")
    for described in (operand_type(dimensions=unknown), operand_type(dimensions=shape)):
        w.check("Model_addOperand", model, ref(described))
    w.check("Model_addOperand", model, ref(operand_type(1, ())))
    w.check("Model_setOperandValue", model, 1, pointer(b), b.nbytes)
    w.check("Model_setOperandValue", model, 2, pointer(none), 4)
    value = 0
    for result, op in enumerate(ops, 3):
        inputs = [value] if op in UNARY else [value, 1, 2]
        w.check("Model_addOperand", model, ref(operand_type(dimensions=unknown)))
        ends = len(inputs), u32s(inputs), 1, u32s([result])
        w.check("Model_addOperation", model, op.code, *ends)
        value = result
    w.identify(model, [0], [value])
    w.check("Model_finish", model)
    return model


def _run(w: World, compilation: int, a: np.ndarray, way: str) -> np.ndarray:
    execution, out = w.execution(compilation), np.zeros_like(a)
    given = ref(operand_type(dimensions=a.shape))
    w.check("Execution_setInput", execution, 0, given, pointer(a), a.nbytes)
    w.check("Execution_setOutput", execution, 0, given, pointer(out), out.nbytes)
    if way == "compute":
        w.check("Execution_compute", execution)
    elif way == "burst":
        w.check("Execution_burstCompute", execution, w.burst(compilation))
    elif way == "start":
        w.check("Event_wait", w.make("Execution_startCompute", execution))
    else:
        start = "Execution_startComputeWithDependencies"
        w.check("Event_wait", w.make(start, execution, None, 0, 0))
    return out
