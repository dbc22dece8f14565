"""Operators between two convolutions, whose layout they follow or not: the numbers stay."""

import numpy as np
import pytest
from onnx import helper

from tests.onnx_graph import nodes_of
from tests.oracle import FL, NCHW3, emitted, f32, graph, ints, matches, on_cpu

RNG = np.random.default_rng(0)
SUMS = {"atol": 3e-5, "rtol": 3e-5, "oracle": on_cpu}  # two convolutions, sums in another order


def drawn(*shape, low=-1.0):
    return RNG.uniform(low, 1, shape).astype(np.float32)


def number(value):
    return np.array(value, np.float32)


# name -> (op_type, more inputs, attributes, lowest target that takes it all)
ONE = {
    "Relu": ("Relu", [], {}, FL[1]),
    "Sigmoid": ("Sigmoid", [], {}, FL[1]),
    "HardSwish": ("HardSwish", [], {}, FL[1]),
    "HardSigmoid": ("HardSigmoid", [], {}, FL[1]),
    "Clip": ("Clip", [number(-0.5), number(0.5)], {}, FL[3]),
    "LeakyRelu": ("LeakyRelu", [], {"alpha": 0.2}, FL[1]),
    "PRelu by channel": ("PRelu", [drawn(4, 1, 1)], {}, FL[1]),
    "PRelu of all": ("PRelu", [drawn(4, 6, 6)], {}, FL[1]),
    "Elu": ("Elu", [], {}, FL[3]),
    "Mish": ("Mish", [], {}, FL[3]),
    "Softplus": ("Softplus", [], {}, FL[3]),
    "Softsign": ("Softsign", [], {}, FL[2]),
    "Gelu": ("Gelu", [], {}, FL[1]),
    "Erf": ("Erf", [], {}, FL[1]),
    "Round": ("Round", [], {}, FL[3]),
    "Sign": ("Sign", [], {}, FL[1]),
    "Abs": ("Abs", [], {}, FL[1]),
    "Cos": ("Cos", [], {}, FL[3]),
    "Add a channel's": ("Add", [drawn(4, 1, 1)], {}, FL[1]),
    "Add a row": ("Add", [drawn(6)], {}, FL[1]),
    "Mul a scalar": ("Mul", [number(0.5)], {}, FL[1]),
    "Div": ("Div", [drawn(1, 4, 1, 1, low=0.5)], {}, FL[2]),
    "Pow": ("Pow", [number(2)], {}, FL[1]),
    "Max": ("Max", [drawn(4, 1, 1)], {}, FL[3]),
    "Sum": ("Sum", [drawn(4, 1, 1), drawn(1)], {}, FL[1]),
    "BatchNormalization": (
        "BatchNormalization",
        [drawn(4), drawn(4), drawn(4), drawn(4, low=0.1)],
        {},
        FL[1],
    ),
    "InstanceNormalization": ("InstanceNormalization", [drawn(4), drawn(4)], {}, FL[3]),
    "LayerNormalization": ("LayerNormalization", [drawn(4, 6, 6)], {"axis": 1}, FL[3]),
    "LRN": ("LRN", [], {"size": 3}, FL[2]),
    "LpNormalization": ("LpNormalization", [], {"axis": 1}, FL[3]),
    "Softmax of channels": ("Softmax", [], {"axis": 1}, FL[3]),
    "Softmax of rows": ("Softmax", [], {"axis": -1}, FL[2]),
    "LogSoftmax": ("LogSoftmax", [], {"axis": 1}, FL[3]),
    "Pad": ("Pad", [ints(0, 0, 1, 0, 0, 0, 1, 2)], {}, FL[2]),
    "Pad channels": ("Pad", [ints(0, 0, 0, 0, 0, 0, 0, 0), number(3)], {}, FL[3]),
    "Pad, mirrored": ("Pad", [ints(0, 0, 1, 1, 0, 0, 1, 1)], {"mode": "reflect"}, FL[3]),
    "Pad, edge": ("Pad", [ints(0, 0, 1, 1, 0, 0, 1, 1)], {"mode": "edge"}, FL[3]),
    "Slice": ("Slice", [ints(1, 0), ints(6, 5), ints(2, 3), ints(2, 1)], {}, FL[2]),
    "Slice backwards": ("Slice", [ints(-1), ints(-9), ints(1), ints(-1)], {}, FL[2]),
    "Gather channels": ("Gather", [ints(3, 1, 2, 0)], {"axis": 1}, FL[3]),
    "Tile": ("Tile", [ints(1, 1, 2, 1)], {}, FL[3]),
    "Expand": ("Expand", [ints(1, 4, 6, 6)], {}, FL[3]),
    "Identity": ("Identity", [], {}, FL[1]),
    "Dropout": ("Dropout", [], {}, FL[1]),
    "ReduceMean of pixels": ("ReduceMean", [ints(2, 3)], {"keepdims": 1}, FL[2]),
    "ReduceMax of rows": ("ReduceMax", [ints(3)], {"keepdims": 1}, FL[3]),
    "ReduceL2 of pixels": ("ReduceL2", [ints(2, 3)], {"keepdims": 1}, FL[3]),
    "CumSum": ("CumSum", [np.array(1, np.int64)], {}, FL[3]),
    "Transpose": ("Transpose", [], {"perm": [0, 1, 3, 2]}, FL[2]),
    "Cast": ("Cast", [], {"to": 1}, FL[3]),
    "Trilu": ("Trilu", [], {}, FL[3]),
    "MaxPool": ("MaxPool", [], {"kernel_shape": [2, 2]}, FL[1]),
    "AveragePool": ("AveragePool", [], {"kernel_shape": [2, 2], "pads": [1, 1, 0, 0]}, FL[1]),
}


BEFORE, AFTER = nodes_of(
    """[before] a = Conv <pads = [1, 1, 1, 1]> (x, w0)
    [after] y0 = Conv <pads = [1, 1, 1, 1]> (b, w1)"""
)
ENDS = {"x": f32(1, 3, 6, 6), "w0": drawn(4, 3, 3, 3), "w1": drawn(2, 4, 3, 3)}


def sandwich(name):
    op_type, more, attributes, _ = ONE[name]
    extra = {f"c{i}": c for i, c in enumerate(more)}
    middle = helper.make_node(op_type, ["a", *extra], ["b"], "middle", **attributes)
    return graph([BEFORE, middle, AFTER], ENDS | extra, opset=21)


@pytest.mark.parametrize("name", ONE)
def test_matches_at_the_newest_level(name):
    matches(sandwich(name), FL[8], **SUMS)


@pytest.mark.parametrize("name", ONE)
def test_matches_at_its_lowest_level(name):
    matches(sandwich(name), ONE[name][3], **SUMS)


@pytest.mark.parametrize("name", ONE)
def test_matches_in_nchw(name):
    matches(sandwich(name), NCHW3, **SUMS)


FOLLOW = [
    name
    for name in ONE
    if name
    not in {"LayerNormalization", "CumSum", "Transpose", "Trilu", "Softmax of rows", "Expand"}
]


@pytest.mark.parametrize("name", FOLLOW)
def test_is_not_permuted_between(name):
    assert "TRANSPOSE" not in emitted(sandwich(name), FL[8])


SPLITS = {
    "swapped": "p, q = Split <axis = 1, num_outputs = 2> (a) b = Concat <axis = 1> (q, p)",
    "two ways": "p = Sigmoid (a) b = Mul (a, p)",
    "squeeze and excite": "p = GlobalAveragePool (a) q = HardSigmoid (p) b = Mul (a, q)",
    "a mask": "p = Greater (a, zero) b = Where (p, a, zero)",
}


@pytest.mark.parametrize("middle", SPLITS.values(), ids=SPLITS)
@pytest.mark.parametrize("target", [FL[3], NCHW3, FL[8]], ids=["3", "NCHW", "8"])
def test_branches_match(middle, target):
    case = graph([BEFORE, *nodes_of(middle), AFTER], ENDS | {"zero": number(0)}, opset=21)
    matches(case, target, **SUMS)
    if target is FL[8]:
        assert "TRANSPOSE" not in emitted(case, target)
