"""The view of an operation: forms of quantized operands, layouts of images."""

from __future__ import annotations

from ep_nnapi.litert.flat_graph import FlatGraph
from ep_nnapi.litert.operation import FlatOp
from ep_nnapi.litert.scope import TensorScope
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.host.named_operation import named_operations
from ep_nnapi.nnapi.model import Operand
from ep_nnapi.nnapi.spec import Q8
from ep_nnapi.ort_devices.convert import FEATURE_LEVEL
from tests.ort_devices.networks import Network

IMAGE = Operand(Q8, (1, 3, 4, 2), 0.5, 128)


def depth_to_space(*, nchw: bool) -> FlatOp:
    net = Network()
    source = Operand(Q8, (1, 4, 3, 2) if nchw else (1, 3, 2, 4), 0.5, 128)
    result = Operand(Q8, (1, 1, 6, 4) if nchw else (1, 6, 4, 1), 0.5, 128)
    x = net.add(source)
    y = net.operation(spec.DEPTH_TO_SPACE, [x, net.scalar(2), net.scalar(nchw)], result)
    model = net.model([x], [y])
    dims = {x: source.dimensions, y: result.dimensions}
    scope = TensorScope(FlatGraph(), model, dims)
    return FlatOp(scope, named_operations(model, FEATURE_LEVEL)[0])


def enter(op: FlatOp, *, signed: bool) -> None:
    index = op.index("input")
    tensor = op.scope.described(index, signed=signed)
    op.scope.define(index, op.graph.tensor(tensor), signed=signed)


def test_the_form_that_there_is_needs_no_conversion() -> None:
    op = depth_to_space(nchw=False)
    enter(op, signed=False)
    assert not op.signed("input")
    enter(op, signed=True)
    assert op.signed("input")


def test_images_are_nhwc() -> None:
    for nchw in (False, True):
        op = depth_to_space(nchw=nchw)
        enter(op, signed=False)
        assert op.graph.tensors[op.image("input", signed=False)].shape == (1, 3, 2, 4)
        assert op.image_output(signed=False).shape == (1, 6, 4, 1)
        op.finish_image("DEPTH_TO_SPACE", [0], "DepthToSpace", signed=False, blockSize=2)
        assert op.graph.tensors[op.scope.value(op.index("output"))].shape == op.shape("output")
