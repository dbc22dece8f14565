"""Models converted to ONNX: layouts, weights and number formats."""

from collections import Counter

import numpy as np
import onnx
import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.host.kernel import named_operations
from ep_nnapi.nnapi.host.reference import ReferenceDevice
from ep_nnapi.nnapi.model import Data, Model, Operand
from ep_nnapi.nnapi.spec import BOOL8, F32, I32, Q8, Q8S
from ep_nnapi.ort_devices.device import CpuDevice
from ep_nnapi.ort_devices.opened import Latest
from ep_nnapi.ort_devices.operation import Kernels
from ep_nnapi.ort_devices.to_onnx import (
    FEATURE_LEVEL,
    WholeModel,
    convert,
    folded,
    obstacles,
)
from tests.nnapi.build import constant, one, relu
from tests.ort_devices.networks import Index, Network, chain, computed


def operators(model: Model) -> Counter[str]:
    return Counter(node.op_type for node in convert(model).proto.graph.node)


def test_float_convolutions_in_nhwc_are_transposed_at_the_ends_only():
    """NHWC to NCHW before the first, back after the last; ADD takes the layout it is given."""
    assert operators(chain())["Transpose"] == 2


def test_weights_in_the_order_of_onnx_are_not_copied() -> None:
    """Those of MatMul [size, units] enter FULLY_CONNECTED transposed, where they are."""
    given = np.arange(6000, dtype=np.float32).reshape(20, 300) % 7
    weights, bias = Operand(F32, (300, 20), value=Data(given.T)), np.arange(300.0) % 5
    ins = Operand(F32, (2, 20)), weights, bias, 0
    model = one(spec.FULLY_CONNECTED, ins, [Operand(F32, (2, 300))])
    assert any(np.shares_memory(held, given) for held in convert(model).weights.values())
    ours, theirs = (computed(model, device()) for device in (CpuDevice, ReferenceDevice))
    np.testing.assert_allclose(ours, theirs, 0, 1e-3)  # sums of 20 products in another order


@pytest.mark.parametrize("int8", [False, True])
def test_quantized_weights_in_the_order_of_onnx_are_not_transposed(int8: bool) -> None:
    """Those of MatMul again: QGemm takes them as they are."""
    given = (np.arange(600 * 120) * 7 % 251).astype(np.uint8).reshape(120, 600)

    def network(weights: Data) -> Model:
        x, w = Operand(Q8, (2, 120), 0.1, 120), Operand(Q8, (600, 120), 0.02, 130, value=weights)
        ins = x, w, constant(np.arange(600), 0.1 * 0.02), 0
        return one(spec.FULLY_CONNECTED, ins, [Operand(Q8, (2, 600), 2.0, 128)])

    model, copied = network(Data(given.T)), network(Data.of(given.T))
    made = convert(model, Kernels(int8_weights=int8))
    (product,) = (n for n in made.proto.graph.node if n.op_type == "QGemm")
    assert [a.i for a in product.attribute if a.name == "transB"] == [0]
    held = made.weights[product.input[3]]
    assert held.shape == given.shape
    assert int8 or np.shares_memory(held, given)
    ours, theirs = (computed(each, CpuDevice(int8_weights=int8)) for each in (model, copied))
    np.testing.assert_array_equal(ours, theirs)


def test_a_question_between_does_not_change_the_conversion():
    """What a device keeps of the model asked about last is for that model and type of weights."""
    (model, other), latest = (chain(Q8), chain()), Latest[WholeModel]()
    ours, saturating = Kernels(int8_weights=True), Kernels(int8_weights=False)
    alone = convert(model, ours).proto
    for asked in (model, model, other, model):
        assert not any(obstacles(asked, ours, latest))
    assert latest.of(model) is not None
    assert convert(model, saturating, latest).proto != alone
    assert latest.of(model) is None
    assert not any(obstacles(model, ours, latest))
    assert convert(other, ours, latest).proto == convert(other, ours).proto
    assert not any(obstacles(model, ours, latest))
    assert convert(model, ours, latest).proto == alone


def test_each_device_keeps_its_own():
    one, two, model = CpuDevice(), CpuDevice(), chain()
    assert all(one.supported(model))
    assert one._latest.of(model) is not None
    assert two._latest.of(model) is None
    assert one == two


def test_float_convolutions_in_nchw_are_not_transposed():
    assert operators(chain(nchw=True))["Transpose"] == 0


@pytest.mark.parametrize("code", [Q8, Q8S], ids=str)
def test_quantized_convolutions_in_nhwc_are_not_transposed(code):
    found = operators(chain(code))
    assert found["QLinearConv"] == 3
    assert found["QLinearAdd"] == 1
    assert found["Transpose"] == 0


def test_a_transpose_operation_undoes_the_layout_of_a_convolution():
    """NHWC -> CONV_2D -> TRANSPOSE to NCHW: one transpose, before the convolution."""
    net = Network()
    x = net.add(Operand(F32, (1, 8, 6, 4)))
    y = net.conv(x, 4, Operand(F32, (1, 8, 6, 4)))
    perm = np.array([0, 3, 1, 2])
    model = net.model(net.operation(spec.TRANSPOSE, [y, perm], Operand(F32, (1, 4, 8, 6))))
    assert operators(model)["Transpose"] == 1
    (ours,), (theirs,) = (computed(model, d) for d in (CpuDevice(), ReferenceDevice()))
    np.testing.assert_allclose(ours, theirs, 0, 1e-5)  # sums of 36 products in another order


def test_weights_are_transposed_once_and_given_to_the_session_by_name():
    """A filter that two convolutions read is stored once, outside the model's own bytes."""
    net = Network()
    x = net.add(Operand(F32, (1, 8, 6, 16)))
    y = net.conv(x, 16, Operand(F32, (1, 8, 6, 16)))
    weights = [Index(i) for i in net.operations[0].inputs[1:]]
    z = net.operation(spec.CONV_2D, [y, *weights], Operand(F32, (1, 8, 6, 16)))
    filter_ = net.operands[weights[0]].array
    found = convert(net.model(z))
    (weights,) = found.weights.values()
    np.testing.assert_array_equal(weights, filter_.transpose(0, 3, 1, 2))
    assert len(found.proto.SerializeToString()) < weights.nbytes


@pytest.mark.parametrize("per_channel", [False, True], ids=["per tensor", "per channel"])
@pytest.mark.parametrize("code", [Q8, Q8S], ids=str)
@pytest.mark.parametrize("int8", [False, True], ids=["uint8 weights", "int8 weights"])
def test_both_types_of_weights_give_the_references_results(code, int8, per_channel):
    """Within one quantum; weights of 6 bits do not saturate on any processor."""
    model = chain(code, per_channel=per_channel, magnitude=31)
    (ours,) = computed(model, CpuDevice(int8_weights=int8))
    (theirs,) = computed(model, ReferenceDevice())
    assert np.abs(ours.astype(int) - theirs).max() <= 1


@pytest.mark.parametrize("code", [Q8, Q8S], ids=str)
def test_weights_of_8_bits_do_not_saturate_on_this_processor(code):
    model = chain(code, magnitude=127)
    (ours,), (theirs,) = (computed(model, d) for d in (CpuDevice(), ReferenceDevice()))
    assert np.abs(ours.astype(int) - theirs).max() <= 1


def test_signed_models_compute_on_uint8():
    """Their sessions have uint8 kernels only; the ends are converted."""
    graph = onnx.shape_inference.infer_shapes(convert(chain(Q8S)).proto).graph
    types = {v.name: v.type.tensor_type.elem_type for v in (*graph.input, *graph.output)}
    assert set(types.values()) == {onnx.TensorProto.INT8}
    assert operators(chain(Q8S))["BitwiseXor"] == 2


def test_every_operation_of_a_supported_model_has_no_obstacle():
    assert obstacles(chain()) == ("", "", "", "")


def test_unknown_input_shapes_are_an_obstacle():
    assert obstacles(relu(Operand(F32, (2, 3)))) == ("",)
    assert obstacles(relu(Operand(F32, (2, 0)))) == ("the shape of operand 0 is unknown",)


@pytest.mark.parametrize("divisor", [0, -1])
def test_integer_division_that_traps_is_an_obstacle(divisor):
    """x / 0 and -2**31 / -1 end the process on x86-64."""

    x = Operand(I32, (2,))
    models = (one(spec.DIV, [x, np.array([number]), 0], [x]) for number in (2, divisor))
    assert [obstacles(m) for m in models] == [("",), ("a divisor is 0 or -1",)]


def test_operations_without_a_lowering_are_named():
    given = Operand(F32, (1, 3)), 2, np.array([1, 2])
    (obstacle,) = obstacles(one(spec.RANDOM_MULTINOMIAL, given, [Operand(I32, (1, 2))]))
    assert obstacle == f"RANDOM_MULTINOMIAL of {OperandCode.TENSOR_FLOAT32.name}"


SCORES = np.array([[0.9, 0.1], [0.3, 0.8], [0.2, 0.7]])
"""Of three regions, in a background and a class."""


def fold(model: Model) -> Model:
    return folded(model, named_operations(model, FEATURE_LEVEL))


def suppressed(net: Network, threshold: float, scores: object = SCORES) -> list[Index]:
    """The outputs of BOX_WITH_NMS_LIMIT of three regions of one image."""
    regions = np.array([[0, 0, 4, 4] * 2, [8, 8, 12, 12] * 2, [8, 8, 12, 13] * 2], float)
    inputs = [scores, regions, np.zeros(3, int), threshold, -1, 0, 0.4, 1.0, 0.3]
    kept = (Operand(F32, (0,)), Operand(F32, (0, 4)), Operand(I32, (0,)), Operand(I32, (0,)))
    return net.apply(spec.BOX_WITH_NMS_LIMIT, inputs, *kept)


def pooled(threshold: float) -> Model:
    """The rows of an image for the classes of the regions above a threshold, then convolved."""
    net = Network()
    image = net.add(Operand(F32, (2, 4, 4, 2)))
    scores, _, classes, _ = suppressed(net, threshold)
    taken = net.operation(spec.GATHER, [image, 0, classes], Operand(F32, (0, 4, 4, 2)))
    return net.model(scores, net.conv(taken, 3, Operand(F32, (0, 4, 4, 3))), classes)


@pytest.mark.parametrize(("threshold", "left"), [(0.5, 2), (0.95, 0)])
def test_regions_that_constants_decide(threshold: float, left: int) -> None:
    """One of the regions is suppressed by a better one; of none there is nothing to compute."""
    model = pooled(threshold)
    assert len(fold(model).operations) == left
    cpu = CpuDevice(threads=1)
    assert all(cpu.supported(model))
    image = np.random.default_rng(1).normal(size=(2, 4, 4, 2)).astype(np.float32)
    ours, expected = (computed(model, d, [image]) for d in (cpu, ReferenceDevice()))
    assert [r.shape for r in ours] == [(left // 2,), (left // 2, 4, 4, 3), (left // 2,)]
    for got, wanted in zip(ours, expected, strict=True):
        np.testing.assert_allclose(got, wanted, 1e-6, 1e-5)


def test_nothing_is_computed_that_depends_on_inputs() -> None:
    net = Network()
    scores = net.add(Operand(F32, (3, 2)))
    model = net.model(suppressed(net, 0.5, scores)[0])
    assert fold(model) is model
    assert CpuDevice().supported(model) == (False,)


def test_operations_with_a_form_in_onnx_are_left_to_it() -> None:
    model = one(spec.LOGICAL_NOT, [np.array([True, False])], [Operand(BOOL8, (2,))])
    assert fold(model) is model
    assert "Not" in {node.op_type for node in convert(model).proto.graph.node}


def test_large_constants_are_not_read() -> None:
    inputs = np.array([3]), np.arange(20_000), np.zeros((20_000, 1))
    outputs = Operand(F32, (1, 1)), Operand(spec.Q8, (1,), scale=1.0)
    model = one(spec.HASHTABLE_LOOKUP, inputs, outputs)
    assert fold(model) is model
