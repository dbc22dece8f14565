"""HARD_SWISH in place of the operations that compute it in parts."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from ep_nnapi.diagnostics.check import partitioned
from ep_nnapi.graph.value import Constant, DType, Quantization, Value
from ep_nnapi.lowering.call import Call, apply
from ep_nnapi.lowering.hard_swish import fuse_hard_swish
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.codes import FuseCode
from ep_nnapi.options.table import parse
from tests.calls import Calls, operations, run
from tests.onnx_graph import parsed

SIZES = (2, 3)
LEVEL = 4  # HARD_SWISH needs it
Written: TypeAlias = Callable[[Calls, Value], Value]


def number(value: float, *shape: int) -> Constant:
    return Constant.of(np.full(shape or (1,), value, np.float32))


def relu6(g: Calls, x: Value, shift: float = 3, code: FuseCode = FuseCode.RELU6) -> Value:
    return g.call(spec.ADD, SIZES, x, number(shift), activation=code)


def mul(g: Calls, *factors: Value | Constant, code: FuseCode = FuseCode.NONE) -> Value:
    return g.call(spec.MUL, SIZES, *factors, activation=code)


def div(g: Calls, *given: Value | Constant) -> Value:
    return g.call(spec.DIV, SIZES, *given)


SIXTH, SIX = number(1 / 6), number(6)
WRITTEN: dict[str, Written] = {
    "x (relu6 / 6)": lambda g, x: mul(g, x, mul(g, relu6(g, x), SIXTH)),
    "(1/6 relu6) x": lambda g, x: mul(g, mul(g, SIXTH, relu6(g, x)), x),
    "x (relu6 DIV 6)": lambda g, x: mul(g, x, div(g, relu6(g, x), SIX)),
    "(x relu6) / 6": lambda g, x: mul(g, mul(g, x, relu6(g, x)), SIXTH),
    "(relu6 x) DIV 6": lambda g, x: div(g, mul(g, relu6(g, x), x), SIX),
    "a constant of the rank of x": lambda g, x: div(g, mul(g, relu6(g, x), x), number(6, 1, 1)),
}
DIFFERENT: dict[str, Written] = {
    "another sum": lambda g, x: mul(g, x, div(g, relu6(g, x, 2.999), SIX)),
    "another share": lambda g, x: mul(g, x, mul(g, relu6(g, x), number(0.1667))),
    "several shares": lambda g, x: mul(g, x, mul(g, relu6(g, x), number(1 / 6, 3))),
    "a division by zero": lambda g, x: mul(g, x, div(g, relu6(g, x), number(0))),
    "6 divided by it": lambda g, x: mul(g, x, div(g, SIX, relu6(g, x))),
    "not divided": lambda g, x: mul(g, x, relu6(g, x)),
    "not clipped above": lambda g, x: mul(g, x, div(g, relu6(g, x, code=FuseCode.RELU), SIX)),
    "another factor": lambda g, x: mul(g, g.input(*SIZES), div(g, relu6(g, x), SIX)),
    "a sum of two tensors": lambda g, x: mul(g, x, div(g, g.add(x, g.input(*SIZES)), SIX)),
    "an activation after it": lambda g, x: mul(g, x, div(g, relu6(g, x), SIX), code=FuseCode.RELU),
    "an activation inside": lambda g, x: div(g, mul(g, x, relu6(g, x), code=FuseCode.RELU), SIX),
}


def names(calls: Sequence[Call]) -> list[str]:
    return [c.spec.name for c in calls]


@pytest.mark.parametrize("written", WRITTEN.values(), ids=WRITTEN)
def test_every_way_to_write_it(written: Written):
    g = Calls()
    x = g.input(*SIZES)
    y = written(g, x)
    (fused,) = fuse_hard_swish(g.calls, {y.name}, LEVEL)
    assert (fused.spec, fused.inputs, fused.outputs) == (spec.HARD_SWISH, (x,), (y,))
    assert set(fused.origin) == {name for c in g.calls for name in c.origin}
    assert names(fuse_hard_swish(g.calls, {y.name}, LEVEL - 1)) == names(g.calls)


@pytest.mark.parametrize("written", DIFFERENT.values(), ids=DIFFERENT)
def test_anything_else_stays(written: Written):
    g = Calls()
    y = written(g, g.input(*SIZES))
    assert fuse_hard_swish(g.calls, {y.name}, LEVEL) == g.calls


def test_a_part_that_another_operation_reads_stays():
    for part in range(2):
        g = Calls()
        y = WRITTEN["x (relu6 / 6)"](g, g.input(*SIZES))
        read = g.tanh(g.calls[part].outputs[0])
        assert fuse_hard_swish(g.calls, {y.name, read.name}, LEVEL) == g.calls


def test_a_part_that_leaves_the_cluster_stays():
    for part in range(2):
        g = Calls()
        y = WRITTEN["x (relu6 / 6)"](g, g.input(*SIZES))
        kept = {y.name, g.calls[part].outputs[0].name}
        assert fuse_hard_swish(g.calls, kept, LEVEL) == g.calls


def test_a_result_of_another_shape_stays():
    """A broadcast constant enlarges it."""
    g = Calls()
    x = g.input(*SIZES)
    y = g.call(spec.DIV, (1, *SIZES), mul(g, x, relu6(g, x)), number(6, 1, 1, 1))
    assert fuse_hard_swish(g.calls, {y.name}, LEVEL) == g.calls


def test_quantized_products_stay():
    """Every intermediate result is rounded to a scale of its own."""
    q = Quantization((0.5,), (0,))
    x, t, s, y = (Value(name, DType.UINT8, SIZES, q) for name in "xtsy")
    three, sixth = (
        Value(name, DType.UINT8, (1,), q, constant=Constant.of(np.array([n], np.uint8)))
        for name, n in (("three", 6), ("sixth", 1))
    )
    calls = [
        apply(spec.ADD, x, three, activation=FuseCode.RELU6, out=t),
        apply(spec.MUL, t, sixth, out=s),
        apply(spec.MUL, x, s, out=y),
    ]
    assert fuse_hard_swish(calls, {"y"}, LEVEL) == calls


def test_a_division_after_it_stays():
    g = Calls()
    x = g.input(*SIZES)
    y = div(g, mul(g, x, div(g, relu6(g, x), SIX)), SIX)
    assert names(fuse_hard_swish(g.calls, {y.name}, LEVEL)) == ["HARD_SWISH", "DIV"]


def test_two_in_a_row():
    g = Calls()
    y = g.input(*SIZES)
    for written in WRITTEN.values():
        y = written(g, y)
    assert names(fuse_hard_swish(g.calls, {y.name}, LEVEL)) == ["HARD_SWISH"] * len(WRITTEN)


def test_it_computes_the_same():
    g = Calls()
    x = g.input(50)
    clipped = g.call(spec.ADD, (50,), x, number(3), activation=FuseCode.RELU6)
    y = g.call(spec.DIV, (50,), g.call(spec.MUL, (50,), x, clipped), SIX)
    low = g.lower(y)
    assert operations(low) == ["HARD_SWISH"]
    given = np.linspace(-5, 5, 50, dtype=np.float32)
    exact = given.astype(np.float64)
    want = exact * np.clip(exact + 3, 0, 6) / 6
    np.testing.assert_allclose(run(low, {x.name: given})[y.name], want, atol=1e-6)  # float32


def exported(dtype: int) -> onnx.ModelProto:
    """A Conv and the parts of a hard swish as exporters write them at opset 13."""
    kind = helper.tensor_dtype_to_np_dtype(dtype)
    name = "float16" if kind == np.float16 else "float"
    text = f"""({name}[1,3,6,6] x) => ({name}[1,4,6,6] y) {{
        [conv] c = Conv <pads = [1,1,1,1]> (x, w) [add] a = Add (c, three)
        [clip] r = Clip (a, zero, six) [mul] m = Mul (c, r) [div] y = Div (m, six) }}"""
    given = {"three": np.array(3, kind), "zero": np.array(0, kind), "six": np.array(6, kind)}
    return parsed(
        text, 13, w=np.random.default_rng(7).uniform(-1, 1, (4, 3, 3, 3)).astype(kind), **given
    )


@pytest.mark.parametrize("dtype", [TensorProto.FLOAT, TensorProto.FLOAT16])
def test_an_exported_model(dtype: int):
    (cluster,) = partitioned(exported(dtype), parse({"feature_level": LEVEL})).clusters
    assert operations(cluster.lowered) == ["CONV_2D", "HARD_SWISH"]
    (cluster,) = partitioned(exported(dtype), parse({"feature_level": LEVEL - 1})).clusters
    assert operations(cluster.lowered) == ["CONV_2D", "ADD", "MUL", "DIV"]
