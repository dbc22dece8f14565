"""Weights of 4 and 8 bits in blocks, beside the CPU provider, whose operators they are."""

from dataclasses import replace

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.nnapi.model import Data
from tests.oracle import (
    FL,
    Case,
    Fed,
    accepts,
    f16,
    f32,
    i64,
    lowered,
    matches,
    node,
    on_cpu,
    rejects,
)

RNG = np.random.default_rng(0)
ROUNDED = {"atol": 1e-4, "rtol": 1e-5, "oracle": on_cpu}  # sums of up to 256 numbers in float32


def bytes_of(*shape: int) -> np.ndarray:
    return RNG.integers(0, 256, shape).astype(np.uint8)


def reals(*shape: int, dtype: type = np.float32) -> np.ndarray:
    return RNG.uniform(0.01, 0.1, shape).astype(dtype)


def product(
    depth: int = 64,
    units: int = 6,
    *,
    bits: int = 4,
    block: int = 32,
    zero: str = "",
    bias: bool = False,
    **attributes: int,
) -> Case:
    """zero: packed, or real for real numbers"""
    count = -(-depth // block)
    zeros = {
        "": None,
        "packed": bytes_of(units, -(-count * bits // 8)),
        "real": reals(units, count) * 100,
    }[zero]
    weights = bytes_of(units, count, block * bits // 8), reals(units, count)
    more = [zeros, None, reals(units)] if bias else [zeros] if zero else []
    like = helper.make_tensor_type_proto(TensorProto.FLOAT, (2, 3, units))
    named = {"K": depth, "N": units, "bits": bits, "block_size": block, **attributes}
    given = f32(2, 3, depth), *weights, *more
    return node("MatMulNBits", *given, domain="com.microsoft", output_types=[like], **named)


PRODUCTS = {
    "4 bits": product(),
    "8 bits": product(bits=8),
    "packed zero points": product(100, zero="packed", block=16),
    "8 bits with zero points": product(100, bits=8, zero="packed"),
    "real zero points": product(zero="real", block=64),
    "a bias": product(256, bias=True, block=128),
    "a block that is not full": product(40, zero="packed"),
}


@pytest.mark.parametrize("case", PRODUCTS.values(), ids=PRODUCTS)
def test_products_match(case: Case):
    matches(case, FL[1], **ROUNDED)


def test_real_zero_points_of_8_bits_match():
    """The CPU provider has no kernel for these."""
    case = product(bits=8, zero="real", block=64)
    q, scales, zeros = (numpy_helper.to_array(t) for t in case.model.graph.initializer)
    weights = ((q.reshape(6, 64) - zeros) * scales).astype(np.float32)
    matches(case, FL[1], atol=1e-3, reference=[case.draw()["x0"] @ weights.T])


def test_half_precision_is_kept():
    q, scales = bytes_of(6, 2, 16), reals(6, 2, dtype=np.float16)
    like = [helper.make_tensor_type_proto(TensorProto.FLOAT16, (5, 6))]
    named = {"domain": "com.microsoft", "output_types": like, "K": 64, "N": 6, "block_size": 32}
    case = node("MatMulNBits", f16(5, 64), q, scales, bits=4, **named)
    matches(case, FL[3], atol=0.05, rtol=5e-3, oracle=on_cpu)  # weights of 11 bits, sums of 64


@pytest.mark.parametrize(
    ("case", "reason", "detail"),
    [
        (product(bits=2), Reason.ATTRIBUTE, "bits is 2; 4 and 8 are supported"),
        (product(block=8), Reason.ATTRIBUTE, "block_size is 8; it must be a power of two from 16"),
        (product(96, block=48), Reason.ATTRIBUTE, "block_size is 48"),
        (product(weight_prepacked=1), Reason.ATTRIBUTE, "weight_prepacked is 1"),
        (product(N=5), Reason.SHAPE, "x1 has 192 elements; it must have 160"),
        (product(K=65), Reason.SHAPE, "x0 has no rows of 65"),
    ],
    ids=["bits", "block", "no power of two", "prepacked", "units", "depth"],
)
def test_other_products_are_rejected(case: Case, reason: Reason, detail: str):
    rejects(case, FL[8], reason, detail)


def test_columns_in_another_order_are_rejected():
    case = product(bias=True)
    case.model.graph.node[0].input[4] = "x5"
    rejects(case, FL[8], Reason.ATTRIBUTE, "g_idx is given")


def test_weights_that_a_run_computes_are_rejected():
    given = f32(2, 3, 64), Fed(TensorProto.UINT8, (6, 2, 16), 0, 255), reals(6, 2)
    like = [helper.make_tensor_type_proto(TensorProto.FLOAT, (2, 3, 6))]
    named = {"domain": "com.microsoft", "output_types": like, "K": 64, "N": 6, "block_size": 32}
    rejects(node("MatMulNBits", *given, bits=4, **named), FL[8], Reason.CONSTANT, "x1 must be")


def table(rows: int = 9, *, bits: int = 4, zero: bool = False, shape=(2, 3), **more: int) -> Case:
    blocks, width = 3, 48 * bits // 8
    given = [bytes_of(rows, width), i64(*shape, low=-rows, high=rows - 1), reals(rows, blocks)]
    given += [bytes_of(rows, -(-blocks * bits // 8))] if zero else []
    like = [helper.make_tensor_type_proto(TensorProto.FLOAT, (*shape, 48))]
    named = {"bits": bits, "block_size": 16, "gather_axis": 0, "quantize_axis": 1, **more}
    return node("GatherBlockQuantized", *given, domain="com.microsoft", output_types=like, **named)


@pytest.mark.parametrize("zero", [False, True], ids=["half the range", "zero points"])
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("shape", [(), (5,), (2, 3)], ids=str)
def test_rows_match(bits: int, zero: bool, shape: tuple[int, ...]):
    matches(table(bits=bits, zero=zero, shape=shape), FL[3], **ROUNDED)


def test_other_tables_are_rejected():
    case = table()
    accepts(case, FL[3])
    rejects(case, FL[2], Reason.LEVEL, "needs feature level 3")
    rejects(table(gather_axis=1), FL[8], Reason.ATTRIBUTE, "gather_axis is 1; it must be 0")
    rejects(table(quantize_axis=0), FL[8], Reason.ATTRIBUTE, "quantize_axis is 0; it must be 1")
    rejects(table(bits=2), FL[8], Reason.ATTRIBUTE, "bits is 2; 4 and 8 are supported")


@pytest.mark.parametrize(("case", "size"), [(product(), 6 * 64 * 4), (table(), 9 * 48 * 4)])
def test_weights_are_dequantized_up_to_a_limit(case: Case, size: int):
    accepts(case, replace(FL[8], max_dequantized_bytes=size))
    less = replace(FL[8], max_dequantized_bytes=size - 1)
    detail = f"dequantized has {size} bytes; max_dequantized_bytes allows {size - 1}"
    rejects(case, less, Reason.SIZE, detail)


def test_weights_are_dequantized_when_they_are_read():
    model = lowered(product(zero="packed"), FL[8]).model
    (weights,) = (o for o in model.operands if isinstance(o.value, Data) and o.value.later)
    assert callable(weights.value.source)
    assert (weights.array.shape, weights.value.size) == ((6, 64), 6 * 64 * 4)
    assert not callable(weights.value.source)
