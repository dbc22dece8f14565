"""Operators on stored numbers of 8 bits, and quantization over a range found at run time."""

import numpy as np
import pytest

import ep_nnapi
from ep_nnapi.capability.node import judge
from ep_nnapi.graph.graph import copy_constants
from ep_nnapi.lowering.model_builder import lower
from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.nnapi.model import Data, Operand
from ep_nnapi.quantization.propagate import propagate_quantization
from tests.end_to_end import quantized as q
from tests.onnx_graph import graph_of, parsed
from tests.operators.test_conversion import assert_equal, feeds, one, refused, results
from tests.oracle import FL

U8, S8 = np.uint8, np.int8


def dynamic(shape: tuple[int, ...]):
    """A product as ONNX Runtime's quantize_dynamic writes it, its sums times both scales."""
    text = f"""(float[{",".join(map(str, shape))}] x) => (y) {{
        [quantize] xq, xs, xz = DynamicQuantizeLinear (x)
        [product] sum = MatMulInteger (xq, w, xz, wz) [cast] real = Cast <to = 1> (sum)
        [scales] scale = Mul (xs, ws) [scaled] y = Mul (real, scale) }}"""
    weights = np.random.default_rng(2).integers(-127, 128, (shape[-1], 5)).astype(S8)
    return parsed(text, 21, w=weights, wz=np.zeros((), S8), ws=np.float32(0.01))


def test_dynamically_quantized_product_matches():
    model = dynamic((3, 40))
    report = ep_nnapi.check(model.SerializeToString())
    assert (report.rejections, len(report.clusters)) == ((), 1)
    given = {"x": np.random.default_rng(4).normal(size=(3, 40)).astype(np.float32)}
    got, want = q.on_nnapi(model, given)[0], q.on_cpu(model, given)[0]
    step = np.ptp(given["x"]) / 255
    # one factor may be rounded to the other side of a tie: one step times the greatest weight
    np.testing.assert_allclose(got, want, atol=127 * 0.01 * step)


def test_what_is_computed_in_floats_is_noted():
    notes = ep_nnapi.check(dynamic((3, 40)).SerializeToString()).notes
    assert [n.op_type for n in notes] == ["DynamicQuantizeLinear", "MatMulInteger"]
    assert {n.detail.split(":")[0] for n in notes} == {"computed in floats"}


def test_dynamic_quantization_of_zeros_matches():
    model = dynamic((2, 8))
    given = {"x": np.zeros((2, 8), np.float32)}
    np.testing.assert_array_equal(q.on_nnapi(model, given)[0], q.on_cpu(model, given)[0])


@pytest.mark.parametrize(
    ("fed", "given"),
    [
        ([(U8, (3, 8)), (U8, (8, 5))], [0, 1, np.uint8(120), np.uint8(9)]),
        (
            [(U8, (2, 3, 8))],
            [0, np.arange(40, dtype=U8).reshape(8, 5), U8(7), np.arange(5, dtype=U8)],
        ),
        ([(S8, (3, 8))], [0, np.arange(-20, 20, dtype=S8).reshape(8, 5)]),
    ],
    ids=["both fed", "zero point a column", "signed, no zero points"],
)
def test_matmul_integer_matches(fed, given):
    assert_equal(*results(one("MatMulInteger", fed, given, np.int32)))


@pytest.mark.parametrize("pads", [[0, 0, 0, 0], [1, 1, 1, 1]])
def test_conv_integer_matches(pads):
    w = np.arange(54, dtype=U8).reshape(3, 2, 3, 3)
    given = [0, w, np.uint8(120), np.uint8(9)]
    assert_equal(*results(one("ConvInteger", [(U8, (1, 2, 6, 6))], given, np.int32, pads=pads)))


@pytest.mark.parametrize(
    ("op_type", "x", "shape"),
    [("MatMulInteger", (3, 8), (8, 5)), ("ConvInteger", (1, 2, 6, 6), (3, 2, 3, 3))],
)
@pytest.mark.parametrize("zero", [9, None])
def test_weights_become_floats_when_they_are_read(op_type, x, shape, zero):
    """host-cpu reads the bytes alone, which are not copied where they live as long."""
    w = np.arange(np.prod(shape), dtype=U8).reshape(shape)
    given = [0, w, np.uint8(120), *([] if zero is None else [np.uint8(zero)])]
    graph = propagate_quantization(graph_of(one(op_type, [(U8, x)], given, np.int32)))
    (node,) = copy_constants(graph.nodes)
    model = lower(judge(node, FL[8]).calls, graph.inputs, graph.outputs, FL[8]).model
    (floats,) = (o for o in model.operands if isinstance(o.value, Data) and o.value.later)
    assert callable(floats.value.source)
    want = w.astype(np.float32) - (zero or 0)
    np.testing.assert_array_equal(np.sort(floats.array, None), np.sort(want, None))
    (composite,) = (c for c in model.composites if c.name == op_type)
    kept = composite.inputs[1].operand
    assert isinstance(kept, Operand)
    assert np.shares_memory(kept.array, node.inputs[1].constant.array)


def test_matmul_integer_of_a_vector_is_refused():
    model = one("MatMulInteger", [(U8, (8,)), (U8, (8, 5))], [0, 1], np.int32)
    refused(model, Reason.RANK, "vector")


@pytest.mark.parametrize("shape", [(3,), (3, 1)])
def test_matmul_integer_with_a_zero_point_a_row_matches(shape):
    """ONNX Runtime has one zero point for the left side; the reference is ONNX's evaluator."""
    zeros = np.array([1, 2, 250], U8).reshape(shape)
    given = [0, np.arange(15, dtype=U8).reshape(3, 5), zeros]
    model = one("MatMulInteger", [(U8, (3, 3))], given, np.int32)
    numbers = feeds(model)
    x = numbers["x0"].astype(np.int64)
    want = (x - zeros.astype(np.int64).reshape(3, 1)) @ np.arange(15).reshape(3, 5)
    np.testing.assert_array_equal(q.on_nnapi(model, numbers)[0], want)


@pytest.mark.parametrize(
    ("op_type", "x", "w", "index", "count"),
    [
        ("MatMulInteger", (3, 2), (2, 5), 3, 0),
        ("MatMulInteger", (3, 2), (2, 5), 3, 2),
        ("MatMulInteger", (3, 2), (2, 5), 2, 2),
        ("ConvInteger", (1, 2, 6, 6), (3, 2, 3, 3), 3, 2),
        ("ConvInteger", (2, 2, 6, 6), (3, 2, 3, 3), 2, 2),
    ],
)
def test_zero_points_of_another_size_are_refused(op_type, x, w, index, count):
    given = [0, np.zeros(w, U8), U8(1), U8(1)]
    given[index] = np.zeros(count, U8)
    model = one(op_type, [(U8, x)], given, np.int32)
    refused(model, Reason.SHAPE, f"is [{count}]; ")
