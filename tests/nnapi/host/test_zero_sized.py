"""Tensors without elements: detections that find nothing, and what the rest of a network does then.

Source: NDK, "zero batches is supported", "may be zero-sized", of the operations below.
"""

from dataclasses import replace

import numpy as np
import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.model import Data, Operand
from tests.nnapi.build import constant
from tests.nnapi.host.boxed import Kind, indexes, refuses
from tests.nnapi.host.oracle import (
    DATA,
    F32,
    FLOATS,
    I32,
    Q8,
    Q8S,
    REFERENCE,
    RUNTIME,
    integers,
    run,
    store,
)
from tests.ort_devices.networks import Network

WINDOW = {"padding": 1, "stride_width": 2, "stride_height": 1, "activation": 0}
POOL = WINDOW | {"filter_width": 2, "filter_height": 2}
SIZE = {"output_width": 4, "output_height": 5}
NONE = (0, 3, 6, 2)
IMAGE = np.zeros(NONE)
CHANNELS_FIRST = np.zeros((0, 2, 3, 6))
FULL = {"input": IMAGE, "weights": np.ones((2, 36)), "bias": np.zeros(2), "activation": 0}


def like(*operands):
    return {name: np.zeros(NONE) for name in operands}


def conv(*filter_, x=IMAGE, **more):
    bias = np.zeros(filter_[3] if filter_[0] == 1 else filter_[0])
    return {"input": x, "filter": np.ones(filter_), "bias": bias} | WINDOW | more


# operation, operands, expected shape, types of data
CASES = [
    (spec.ADD, like("input1", "input2") | {"activation": 1}, NONE, DATA),
    (spec.SUB, like("input1") | {"input2": np.ones((1, 1, 1, 2)), "activation": 0}, NONE, DATA),
    (spec.MUL, like("input1") | {"input2": np.ones(2), "activation": 3}, NONE, DATA),
    (spec.DIV, like("input1", "input2") | {"activation": 0}, NONE, FLOATS),
    (spec.MAXIMUM, like("input1", "input2"), NONE, DATA),
    (spec.PRELU, {"input": IMAGE, "alpha": np.ones(2)}, NONE, DATA),
    (spec.LOGISTIC, {"input": IMAGE}, NONE, DATA),
    (spec.TANH, {"input": IMAGE}, NONE, DATA),
    (spec.RELU, {"input": IMAGE}, NONE, DATA),
    (spec.RELU6, {"input": IMAGE}, NONE, DATA),
    (spec.HARD_SWISH, {"input": IMAGE}, NONE, DATA),
    (spec.SOFTMAX, {"input": IMAGE, "beta": 1.0}, NONE, DATA),
    (spec.AVERAGE_POOL_2D, {"input": IMAGE} | POOL, (0, 3, 3, 2), DATA),
    (spec.MAX_POOL_2D, {"input": IMAGE} | POOL, (0, 3, 3, 2), DATA),
    (spec.L2_POOL_2D, {"input": IMAGE} | POOL, (0, 3, 3, 2), FLOATS),
    (spec.MAX_POOL_2D, {"input": CHANNELS_FIRST} | POOL | {"layout": True}, (0, 2, 3, 3), DATA),
    (spec.CONV_2D, conv(5, 2, 2, 2), (0, 3, 3, 5), FLOATS),
    (spec.CONV_2D, conv(2, 1, 1, 2, x=CHANNELS_FIRST, layout=True), (0, 2, 3, 3), FLOATS),
    (spec.DEPTHWISE_CONV_2D, conv(1, 2, 2, 2, depth_multiplier=1), (0, 3, 3, 2), FLOATS),
    (spec.GROUPED_CONV_2D, conv(2, 2, 2, 1, num_groups=2, layout=False), (0, 3, 3, 2), FLOATS),
    (spec.FULLY_CONNECTED, FULL, (0, 2), FLOATS),
    (spec.RESIZE_BILINEAR, {"input": IMAGE} | SIZE, (0, 5, 4, 2), DATA),
    (spec.RESIZE_NEAREST_NEIGHBOR, {"input": IMAGE} | SIZE | {"layout": False}, (0, 5, 4, 2), DATA),
    (spec.CONCATENATION, {"inputs": [IMAGE, IMAGE], "axis": 3}, (0, 3, 6, 4), DATA),
    (spec.CONCATENATION, {"inputs": [IMAGE, np.ones((2, 3, 6, 2))], "axis": 0}, (2, 3, 6, 2), DATA),
    (spec.TRANSPOSE, {"input": IMAGE, "perm": integers(3, 0, 2, 1)}, (2, 0, 6, 3), DATA),
    (spec.RESHAPE, {"input": IMAGE, "shape": integers(0, 36)}, (0, 36), DATA),
    (
        spec.SLICE,
        {"input": IMAGE, "begin": integers(0, 1, 0, 0), "size": integers(-1, 2, -1, -1)},
        (0, 2, 6, 2),
        DATA,
    ),
    (spec.SPACE_TO_DEPTH, {"input": np.zeros((0, 4, 6, 2)), "block_size": 2}, (0, 2, 3, 8), DATA),
    (spec.DEPTH_TO_SPACE, {"input": np.zeros((0, 2, 3, 8)), "block_size": 2}, (0, 4, 6, 2), DATA),
    (
        spec.SPACE_TO_BATCH_ND,
        {"input": IMAGE, "block_sizes": integers(2, 2), "paddings": store([[1, 0], [0, 0]], I32)},
        (0, 2, 3, 2),
        DATA,
    ),
    (spec.BATCH_TO_SPACE_ND, {"input": IMAGE, "block_sizes": integers(2, 3)}, (0, 6, 18, 2), DATA),
    (spec.CHANNEL_SHUFFLE, {"input": IMAGE, "num_groups": 3, "axis": 2}, NONE, DATA),
    (spec.GATHER, {"input": np.zeros((4, 3)), "axis": 0, "indices": indexes([])}, (0, 3), DATA),
    (spec.EMBEDDING_LOOKUP, {"lookups": indexes([]), "values": np.zeros((4, 3))}, (0, 3), DATA),
]


@pytest.mark.parametrize(
    ("row", "operands", "shape", "types"), CASES, ids=[f"{n} {c[0]}" for n, c in enumerate(CASES)]
)
def test_no_elements(row, operands, shape, types):
    for code in types:
        output = Operand(code, (), 0.5 if code.quantized else 0.0)
        of_data = {
            name: store(value, code, output) if isinstance(value, np.ndarray) else value
            for name, value in operands.items()
        }
        if "inputs" in operands:
            of_data["inputs"] = [store(each, code, output) for each in operands["inputs"]]
        (got,) = run(row, of_data, output)
        assert got.shape == shape


@pytest.mark.parametrize("row", [spec.ARGMAX, spec.ARGMIN], ids=str)
def test_nothing_has_no_greatest_element(row):
    given = {"input": store(np.zeros((2, 0)), F32)}
    refuses("axis 1 has no elements", row, given | {"axis": 1}, Operand(I32))
    assert run(row, given | {"axis": 0}, Operand(I32))[0].shape == (0,)


KINDS = [
    Kind(F32, F32, F32),
    Kind(Q8, OperandCode.TENSOR_QUANT16_ASYMM, F32, 0.5, 3),
    Kind(Q8S, OperandCode.TENSOR_QUANT16_ASYMM, F32, 0.5, 3),
]


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize(("threshold", "count"), [(0.5, 1), (1.0, 0)])
def test_a_network_goes_on_with_what_is_found(kind, threshold, count):
    """Boxes of a score above the threshold; regions of an image; convolution; pool."""
    given = kind.of_data([[0, 1]]), kind.of_boxes([[0, 0, 1, 1, 0, 0, 8, 8]]), indexes([0])
    given = *given, kind.of_data(np.ones((1, 4, 4, 2)))
    net = Network(*(each.operand for each in given))
    *found, image = net.inputs
    scores, boxes, _, batches = net.apply(
        spec.BOX_WITH_NMS_LIMIT,
        (*found, threshold, -1, 0, 0.5, 1.0, 0.0),
        *(kind.data, kind.boxes, Operand(I32), Operand(I32)),
    )
    size = 2, 2, 2.0, 2.0, 1, 1, False
    regions = net.operation(spec.ROI_ALIGN, [image, boxes, batches, *size], kind.data)
    weights = kind.of_data(np.ones((3, 1, 1, 2)))
    weights = replace(weights.operand, value=Data.of(weights.array))
    bias = constant(np.zeros(3, int), kind.scale**2) if kind.code.quantized else np.zeros(3)
    sums = net.operation(spec.CONV_2D, [regions, weights, bias, 1, 1, 1, 0], kind.data)
    means = net.operation(spec.AVERAGE_POOL_2D, [sums, 2, 2, 2, 2, 2, 0], kind.data)
    arrays = [each.array for each in given]
    found, pooled = RUNTIME.compile(net.model(scores, means), REFERENCE).run(arrays)
    assert found.shape == (count,)
    assert np.array_equal(pooled, kind.of_data(np.full((count, 1, 1, 3), 2.0)).array)
