"""Permutes of a cluster: at its border where possible, inside where necessary, none in vain."""

import numpy as np

from ep_nnapi.graph.value import DType
from ep_nnapi.lowering.border import Border, Crossing
from ep_nnapi.lowering.inner_transposes import with_inner_transposes
from ep_nnapi.lowering.model_builder import Lowered
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.model import Operand
from tests.calls import Calls, operations, permutes, run
from tests.layouts import same_numbers
from tests.ort_devices.networks import Network

# from an image to an image -------------------------------------------------------------------


def test_convolutions_in_a_row_permute_at_each_border_only():
    g = Calls()
    y = g.conv(g.relu(g.conv(g.input(1, 3, 8, 8), 4)), 2)
    low = g.lower(y)
    assert operations(low) == ["CONV_2D", "CONV_2D"]
    assert permutes(low) == [">x0", f"{y.name}>"]
    same_numbers(g, y)


def test_level_1_convolves_without_transpose():
    """NNAPI 1.0 has no TRANSPOSE: the border does it all."""
    g = Calls()
    y = g.conv(g.relu(g.conv(g.input(1, 3, 8, 8), 4)), 2)
    assert permutes(g.lower(y, level=1)) == [">x0", f"{y.name}>"]


# from an image to a row ----------------------------------------------------------------------


# the model's own transposes ------------------------------------------------------------------


# readers inside and outside ------------------------------------------------------------------


def test_an_operation_between_a_convolution_and_a_stay_behind_follows_the_larger():
    """RELU joins the convolution, whose tensor is the same; the shrunk one is permuted."""
    g = Calls()
    x = g.conv(g.input(1, 3, 8, 8), 4)
    small = g.mean(x, (3,), keep=True)
    y = g.mean(small, (2,), keep=False)
    low = g.lower(y)
    assert permutes(low)[1:] in ([f"MEAN {y.name}"], [])
    same_numbers(g, y)


# constants -----------------------------------------------------------------------------------


# Permutations of a border as operations of the model

NHWC = (0, 2, 3, 1)
OUTER, INNER = (1, 3, 4, 5), (1, 4, 5, 3)
X = np.arange(60, dtype=np.float32).reshape(OUTER)


def lowered(code: OperandCode, outputs: tuple[int, ...] = (2,)) -> Lowered:
    """x + x in NHWC, with an image in NCHW outside."""
    tensor = Operand(code, INNER)
    net = Network(tensor)
    net.operation(spec.ADD, [*net.inputs * 2, 0], tensor, "Add_0")
    model = net.model(*outputs)
    dtype = DType.FLOAT if code is OperandCode.TENSOR_FLOAT32 else DType.INT32

    def crossing(name: str, operand: int) -> Crossing:
        return Crossing(name, dtype, OUTER, operand, NHWC, INNER, dtype.numpy)

    leaving = tuple(crossing(f"y{n}", n) for n in range(len(outputs)))
    return Lowered(model, Border((crossing("x", 0),), leaving))


def test_both_ends_are_transposed_inside():
    moved = with_inner_transposes(lowered(OperandCode.TENSOR_FLOAT32))
    assert [o.spec for o in moved.model.operations] == [spec.TRANSPOSE, spec.ADD, spec.TRANSPOSE]
    assert all(c.plain for c in (*moved.border.inputs, *moved.border.outputs))
    np.testing.assert_array_equal(run(moved, {"x": X})["y0"], X + X)


def test_types_without_transpose_stay_in_the_border():
    before = lowered(OperandCode.TENSOR_INT32)
    assert with_inner_transposes(before) is None


def test_an_operand_that_leaves_twice_stays_in_the_border():
    moved = with_inner_transposes(lowered(OperandCode.TENSOR_FLOAT32, (2, 2)))
    assert [o.spec for o in moved.model.operations] == [spec.TRANSPOSE, spec.ADD]
    assert [c.perm for c in moved.border.outputs] == [NHWC, NHWC]
