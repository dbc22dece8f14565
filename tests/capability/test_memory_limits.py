"""Memory of a lowering beside its node's own tensors: at the limit, and just past it."""

import tracemalloc

import numpy as np
import pytest

from ep_nnapi.nnapi.errors import Reason
from tests.oracle import FL3, FL7, FL8, Case, accepts, f16, f32, i64, matches, node, rejects

FLOATS = 2**20  # in 4 MiB, which are always taken


def roi_align(samples: int) -> Case:
    """One bin of a region in an image of 4 x 4: 4 distances for each sampling point."""
    regions = np.array([[0, 0, 3, 3]], np.float32)
    return node("RoiAlign", f32(1, 1, 4, 4), regions, np.array([0]), sampling_ratio=samples)


def conv(**attributes: object) -> Case:
    return node("Conv", f32(1, 2, 8, 8), np.ones((2, 2, 3, 3), np.float32), **attributes)


def pool(op_type: str, kernel: int) -> Case:
    """Of one image of 8 x 8, with as much padding as ONNX allows."""
    window = {"kernel_shape": [kernel] * 2, "pads": [kernel // 2] * 4}
    return node(op_type, f32(1, 1, 8, 8), **window)


# intermediates: 4 MiB, and 16 times the node's own bytes


def test_sampling_points_of_regions():
    accepts(roi_align(FLOATS // 4), FL7)
    rejects(roi_align(FLOATS), FL7, Reason.SIZE, "SUB computes a tensor of 16777216 bytes")


@pytest.mark.parametrize(
    ("samples", "says"),
    [
        (10**7, "MUL reads a derived constant of 40000000 bytes; a node of these sizes is limited"),
        (2**30, "has 4294967296 bytes; NNAPI's maximum is 4294967295"),
        (2**31, "2147483648 does not fit INT32"),
        (2**62, "4611686018427387904 does not fit INT32"),
    ],
)
def test_points_are_not_made_before_they_are_refused(samples: int, says: str):
    tracemalloc.start()
    rejects(roi_align(samples), FL7, Reason.SIZE, says)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**22


# constants: 4 MiB, and 4 times those of the node


@pytest.mark.parametrize("k", [-(2**63), -3, 0, 2, 2**63 - 1])
def test_the_diagonal_of_a_matrix(k: int):
    matches(
        node("EyeLike", f32(4, 6), k=k), FL8, reference=[np.eye(4, 6, max(-9, min(k, 9)), "f4")]
    )


def test_matrices_of_ones_and_zeros():
    accepts(node("EyeLike", f32(1024, 1024)), FL8)
    past = node("EyeLike", f32(1025, 1024))
    rejects(past, FL8, Reason.SIZE, "RESHAPE reads a derived constant of 4198400")


def test_a_triangle_that_is_kept():
    accepts(node("Trilu", f32(1024, 4096)), FL8)
    rejects(node("Trilu", f32(1025, 4096)), FL8, Reason.SIZE, "reads a derived constant")


# scratch memory: 65536 elements, and 16 times the operands'


@pytest.mark.parametrize("op_type", ["AveragePool", "LpPool", "MaxPool"])
def test_padding_of_pools(op_type: str):
    accepts(pool(op_type, 128), FL8)
    rejects(pool(op_type, 512), FL8, Reason.SIZE, "POOL_2D needs scratch memory")


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"pads": [30_000] * 4, "dilations": [30_000] * 2}, "CONV_2D needs scratch memory"),
        ({"pads": [2**20] * 4, "dilations": [2**20] * 2}, "CONV_2D needs scratch memory"),
        ({"pads": [2**30] * 4, "strides": [2**29] * 2}, "PAD computes a tensor"),
    ],
    ids=str,
)
def test_padding_of_convolutions(attributes: dict[str, list[int]], message: str):
    accepts(conv(pads=[80] * 4, strides=[50] * 2), FL3)
    rejects(conv(**attributes), FL3, Reason.SIZE, message)


def test_a_transposed_convolution_that_is_cut_to_little():
    weights = np.ones((1, 1, 3, 3), np.float32)

    def cut(stride: int) -> Case:
        """The first element of [stride + 3, stride + 3]."""
        pads, strides = [0, 0, stride + 2, stride + 2], [stride] * 2
        return node("ConvTranspose", f32(1, 1, 2, 2), weights, pads=pads, strides=strides)

    accepts(cut(250), FL3)
    rejects(cut(300), FL3, Reason.SIZE, "TRANSPOSE_CONV_2D needs scratch memory")


# integers


@pytest.mark.parametrize("stride", [2**31, 2**62])
def test_strides_of_more_than_32_bits(stride: int):
    accepts(conv(strides=[2**31 - 1] * 2), FL3)
    says = f"CONV_2D.stride_width is {stride}, which does not fit INT32"
    rejects(conv(strides=[stride] * 2), FL3, Reason.ATTRIBUTE, says)


def test_a_flag_that_is_none():
    window = {"kernel_shape": [3, 3], "strides": [3, 3]}
    accepts(node("LpPool", f32(1, 1, 8, 8), ceil_mode=1, **window), FL8)
    past = node("LpPool", f32(1, 1, 8, 8), ceil_mode=2, **window)
    rejects(past, FL8, Reason.ATTRIBUTE, "ceil_mode is 2; ONNX has 0, 1")


def test_lists_of_integers_of_more_than_32_bits():
    case = node("Gather", f32(4), i64(2))
    accepts(case, FL8)
    blocks = node("MaxPool", f32(1, 1, 8, 8), kernel_shape=[1, 1], dilations=[2**31] * 2)
    rejects(blocks, FL8, Reason.SIZE, "2147483648 does not fit INT32")


# floats: finite in the operand's type


@pytest.mark.parametrize("op_type", ["Elu", "LeakyRelu"])
def test_a_factor_beyond_float16_is_left_to_the_cpu(op_type: str):
    """ONNX's attribute is float32, in which the products are finite."""
    accepts(node(op_type, f16(2, 3), alpha=65504.0), FL8)
    rejects(node(op_type, f16(2, 3), alpha=65536.0), FL8, Reason.ATTRIBUTE, "65536, too large for")
    accepts(node(op_type, f32(2, 3), alpha=65536.0), FL8)


def test_a_slope_beyond_float32_is_refused():
    accepts(node("HardSigmoid", f32(2, 3), alpha=5e37), FL8)
    case = node("HardSigmoid", f32(2, 3), alpha=6e37)
    rejects(case, FL8, Reason.ATTRIBUTE, "3.6e+38, too large for float32")
