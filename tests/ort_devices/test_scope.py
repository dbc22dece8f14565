"""Operands as ONNX values: layouts and number formats, each made once and only when read."""

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.model import Data, Model, Operand
from ep_nnapi.nnapi.spec import F16, F32, I32, Q8, Q8S
from ep_nnapi.ort_devices.graph import Inexpressible, OnnxGraph, require
from ep_nnapi.ort_devices.scope import (
    TO_NCHW,
    TO_NHWC,
    Scope,
    composed,
    converted,
    identity,
    inverse,
    permuted,
    zero_point,
)

SHAPE = (1, 2, 3, 4)


def scope(*operands: Operand) -> Scope:
    """A scope of operands, which are inputs unless they are constant; all shapes are known."""
    inputs = tuple(i for i, o in enumerate(operands) if o.value is None)
    model = Model(tuple(operands), (), inputs, ())
    return Scope(OnnxGraph(), model, {i: o.dimensions for i, o in enumerate(operands)})


def entered(operand: Operand) -> Scope:
    """A scope with one operand, defined by the graph's input `x`."""
    found = scope(operand)
    found.enter(0, "x")
    return found


def computed(found: Scope, output: str, x: np.ndarray, code: int) -> np.ndarray:
    """The value `output` of the scope's graph, by ONNX's reference evaluator."""
    proto = found.graph.build(
        [found.declare(0, "x")], [helper.make_tensor_value_info(output, code, None)]
    ).proto
    (result,) = ReferenceEvaluator(proto).run(None, {"x": x})
    return result


def operators(found: Scope) -> list[str]:
    return [node.op_type for node in found.graph.nodes]


@pytest.mark.parametrize("perms", [(TO_NCHW, TO_NHWC), ((2, 0, 1, 3), (3, 1, 0, 2))])
def test_permutations_compose_as_transposes_do(perms):
    first, second = perms
    x = np.arange(24).reshape(SHAPE)
    both = x.transpose(first).transpose(second)
    np.testing.assert_array_equal(x.transpose(composed(first, second)), both)
    assert composed(first, inverse(first)) == identity(4)
    assert permuted(SHAPE, first) == x.transpose(first).shape


def test_require_raises_with_the_detail():
    require(True, "fine")
    with pytest.raises(Inexpressible, match="too large"):
        require(False, "too large")


def test_signed_elements_are_stored_as_unsigned_ones():
    signed = np.array([-128, 0, 127], np.int8)
    assert converted(signed, Q8S).tolist() == [0, 128, 255]
    assert converted(np.array([1.5], np.float16), F16).dtype == np.float32
    assert zero_point(Operand(Q8S, (3,), 0.5, -3)) == 125
    assert zero_point(Operand(Q8, (3,), 0.5, 3)) == 3


def test_a_layout_is_made_once_and_only_when_it_is_read():
    found = entered(Operand(F32, SHAPE))
    assert operators(found) == []
    first = found.value(0, TO_NCHW, real=True)
    assert found.value(0, TO_NCHW, real=True) == first
    assert found.value(0, real=True) == "x"
    assert operators(found) == ["Transpose"]
    x = np.arange(24, dtype=np.float32).reshape(SHAPE)
    result = computed(found, first, x, TensorProto.FLOAT)
    np.testing.assert_array_equal(result, x.transpose(TO_NCHW))


def test_a_layout_is_made_from_another_one():
    found = scope(Operand(F32, SHAPE))
    found.define(0, "x", TO_NCHW, real=True)
    assert found.perms(0) == [TO_NCHW]
    assert found.has(0, TO_NCHW)
    assert not found.has(0, identity(4))
    found.value(0, real=True)
    (node,) = found.graph.nodes
    assert tuple(node.attribute[0].ints) == TO_NHWC


@pytest.mark.parametrize(
    ("code", "stored", "scale", "zero"), [(Q8, [0, 10, 255], 0.5, 10), (Q8S, [-128, 0, 127], 2, 0)]
)
def test_quantized_operands_are_read_as_real_numbers(code, stored, scale, zero):
    found = entered(Operand(code, (3,), scale, zero))
    x = np.array(stored, code.numpy)
    result = computed(found, found.value(0, real=True), x, TensorProto.FLOAT)
    assert result.tolist() == [(n - zero) * scale for n in stored]


def test_real_numbers_are_quantized_when_the_elements_are_read():
    found = scope(Operand(Q8, (2,), 0.5, 10))
    found.define(0, "reals", real=True)
    found.value(0, (0,), real=False)
    assert operators(found) == ["QuantizeLinear"]


def test_layout_and_format_may_change_at_once():
    found = entered(Operand(Q8, SHAPE, 0.5, 10))
    x = np.arange(24, dtype=np.uint8).reshape(SHAPE)
    result = computed(found, found.value(0, TO_NCHW, real=True), x, TensorProto.FLOAT)
    np.testing.assert_array_equal(result, (x.transpose(TO_NCHW) - np.float32(10)) / 2)


@pytest.mark.parametrize("code", [F32, F16, I32, Q8, Q8S], ids=str)
def test_an_input_leaves_as_it_entered(code):
    found = entered(Operand(code, (3,), 0.5 if code in (Q8, Q8S) else 0.0))
    x = np.array([1, 2, 100], code.numpy)
    output = found.leave(0)
    declared = found.declare(0, output).type.tensor_type
    result = computed(found, output, x, declared.elem_type)
    np.testing.assert_array_equal(result, x, strict=True)


def test_constants_are_constants_of_the_graph():
    """Each layout is a constant of its own: nothing is transposed in a run."""
    weights = np.arange(24, dtype=np.float32).reshape(SHAPE)
    found = scope(Operand(F32, SHAPE, value=Data.of(weights)))
    assert found.constant(0)
    name = found.value(0, TO_NCHW, real=True)
    assert operators(found) == []
    (tensor,), _ = found.graph.constants.build({name})
    assert (tensor.name, list(tensor.dims)) == (name, list(permuted(SHAPE, TO_NCHW)))


def test_shapes_must_be_known_and_have_elements():
    found = scope(Operand(F32, (2, 0)))
    for asked in (found.shape, found.rank):
        with pytest.raises(Inexpressible, match="operand 0 has no elements"):
            asked(0)
    unknown = Scope(OnnxGraph(), found.model, {})
    for asked in (unknown.shape, unknown.rank):
        with pytest.raises(Inexpressible, match="the shape of operand 0 is unknown"):
            asked(0)


def test_a_size_may_be_unknown_where_the_rank_is_enough():
    model = Model((Operand(F32, (2, 0)),), (), (0,), ())
    found = Scope(OnnxGraph(), model, {0: (2, None)})
    assert found.rank(0) == 2
    with pytest.raises(Inexpressible, match="the shape of operand 0 is unknown"):
        found.shape(0)
    sizes = found.declare(0, "x").type.tensor_type.shape.dim
    assert [size.HasField("dim_value") for size in sizes] == [True, False]


def test_values_that_nothing_computes_are_refused():
    with pytest.raises(Inexpressible, match="operand 0 is not computed"):
        scope(Operand(OperandCode.TENSOR_FLOAT32, (2,))).value(0, real=True)
