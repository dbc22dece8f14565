"""Devices that decline: permutes move to the border, and what is taken computes the same."""

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

import ep_nnapi
from ep_nnapi.sessions.cpu import session_of
from tests.faulty import FaultyDevice, installed

CLOSE = 1e-5  # both sum the same float32 products in another order
NO_TRANSPOSE = frozenset({"TRANSPOSE"})


def model(*lines: str, shape: tuple[int, ...] = (1, 4, 6, 6), **arrays: object) -> bytes:
    """Nodes as "Relu x -> a" or "Transpose x -> a perm=[0, 2, 3, 1]"; x comes in, y goes out."""
    nodes = []
    for line in lines:
        head, _, tail = line.partition(" -> ")
        op_type, *inputs = head.split()
        output, _, given = tail.partition(" ")
        attributes = eval(f"dict({given})")
        nodes.append(
            helper.make_node(op_type, inputs, [output], f"{op_type}_{output}", **attributes)
        )
    tensors = [numpy_helper.from_array(np.asarray(a), n) for n, a in arrays.items()]
    ends = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    outs = [onnx.ValueInfoProto(name="y", type=onnx.TypeProto(tensor_type={"elem_type": 1}))]
    graph = helper.make_graph(nodes, "declined", ends, outs, tensors)
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


def taken(data: bytes, device: FaultyDevice, **options: object) -> list[tuple[str, ...]]:
    """The clusters on `device`, after a run that computes what the CPU provider does."""
    shape = session_of(data).get_inputs()[0].shape
    feeds = {"x": np.random.default_rng(3).standard_normal(shape).astype(np.float32)}
    with installed(device):
        report = ep_nnapi.check(data, **options)
        chosen = ort.SessionOptions()
        chosen.log_severity_level = 4
        ep_nnapi.append_execution_provider(chosen, **options)
        (got,) = ort.InferenceSession(data, chosen).run(None, feeds)
    (want,) = session_of(data).run(None, feeds)
    np.testing.assert_allclose(got, want, CLOSE, CLOSE * np.abs(want).max())
    return [c.nodes for c in report.clusters]


FILTERS = np.random.default_rng(1).standard_normal((4, 4, 3, 3)).astype(np.float32)
CONV = "kernel_shape=[3, 3], pads=[1, 1, 1, 1]"
NHWC = "perm=[0, 2, 3, 1]"


def constants(lines: tuple[str, ...]) -> dict[str, object]:
    return {"w": FILTERS} if any("Conv" in line for line in lines) else {}


# What a device without TRANSPOSE takes all the same: the border permutes.
AT_THE_BORDER: dict[str, tuple[str, ...]] = {
    "comes in": (f"Transpose x -> a {NHWC}", "Tanh a -> y"),
    "goes out": ("Tanh x -> a", f"Transpose a -> y {NHWC}"),
    "comes in and goes out": (
        f"Transpose x -> a {NHWC}",
        "Tanh a -> b",
        "Transpose b -> y perm=[3, 0, 2, 1]",
    ),
    "twice in a row": (
        "Tanh x -> a",
        "Transpose a -> b perm=[1, 0, 3, 2]",
        f"Transpose b -> y {NHWC}",
    ),
    "comes in twice": (
        f"Transpose x -> a {NHWC}",
        "Tanh a -> b",
        f"Transpose x -> c {NHWC}",
        "Neg c -> d",
        "Add b d -> y",
    ),
    "around a convolution": (f"Conv x w -> a {CONV}", f"Transpose a -> y {NHWC}"),
}


@pytest.mark.parametrize("lines", AT_THE_BORDER.values(), ids=AT_THE_BORDER)
def test_a_declined_permute_at_the_edge_moves_to_the_border(lines: tuple[str, ...]) -> None:
    data = model(*lines, **constants(lines))
    (cluster,) = taken(data, FaultyDevice(declines=NO_TRANSPOSE))
    # what ONNX Runtime makes of the transposes comes first: two in a row are one
    assert [cluster] == taken(data, FaultyDevice())
    assert any("Transpose" in name for name in cluster)


SHAPE = np.array([1, 24, 6], np.int64)
IMAGE = np.array([1, 4, 6, 6], np.int64)


def test_a_permute_inside_parts_the_cluster_at_the_cheaper_node() -> None:
    """NHWC pictures are flattened in ONNX's order, which a convolution cannot do itself."""
    data = model(f"Conv x w -> a {CONV}", "Reshape a s -> b", "Tanh b -> y", w=FILTERS, s=SHAPE)
    assert taken(data, FaultyDevice()) == [("Conv_a", "Reshape_b", "Tanh_y")]
    device = FaultyDevice(declines=NO_TRANSPOSE)
    assert taken(data, device) == [("Conv_a",), ("Tanh_y",)]
    with installed(device):
        (refusal,) = ep_nnapi.check(data).rejections
    assert (refusal.node, refusal.reason) == ("Reshape_b", ep_nnapi.Reason.DRIVER)
    assert refusal.detail == "permute inside: the device declines TRANSPOSE"


def test_the_cheaper_node_may_be_the_one_before_the_permute() -> None:
    data = model(
        *("Tanh x -> a", "Reshape a s -> b", f"Conv b w -> y {CONV}"),
        **{"shape": (1, 24, 6), "w": FILTERS, "s": IMAGE},
    )
    assert taken(data, FaultyDevice()) == [("Tanh_a", "Reshape_b", "Conv_y")]
    assert taken(data, FaultyDevice(declines=NO_TRANSPOSE)) == [("Tanh_a",), ("Conv_y",)]


def test_a_permute_and_another_operation_declined() -> None:
    data = model(f"Transpose x -> a {NHWC}", "Tanh a -> b", "Neg b -> y")
    device = FaultyDevice(declines=NO_TRANSPOSE | {"TANH"})
    assert taken(data, device) == [("Transpose_a",), ("Neg_y",)]


def test_a_reshape_that_permutes_is_a_permute_too() -> None:
    """One row is all there is to permute: NHWC is a matter of sizes, and the border's as well."""
    data = model(f"Transpose x -> a {NHWC}", "Tanh a -> y", shape=(1, 1, 6, 6))
    assert taken(data, FaultyDevice(declines=frozenset({"RESHAPE"}))) == [("Transpose_a", "Tanh_y")]


@pytest.mark.parametrize("every", [1, 2, 3, 4])
@pytest.mark.parametrize("lines", AT_THE_BORDER.values(), ids=AT_THE_BORDER)
def test_every_kth_operation_declined(lines: tuple[str, ...], every: int) -> None:
    data = model(*lines, **constants(lines))
    assert sum(map(len, taken(data, FaultyDevice(every=every)))) <= len(lines)


def test_symbolic_sizes() -> None:
    """The device is asked again for the sizes of a run."""
    lines = (f"Transpose x -> a {NHWC}", "Tanh a -> y")
    data = onnx.ModelProto.FromString(model(*lines))
    data.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    with installed(FaultyDevice(declines=NO_TRANSPOSE)):
        assert ep_nnapi.check(data.SerializeToString()).taken == 2


# ONNX Runtime asks again ---------------------------------------------------------------------

HARD_SWISH = ("Conv x w -> a", "HardSwish a -> b", "Conv b w -> y")


def test_what_was_taken_before_functions_are_inlined_stays_in_the_report() -> None:
    """A declined HardSwish becomes HardSigmoid and Mul, when the convolutions are fused already."""
    data = model(*HARD_SWISH, w=FILTERS)
    assert taken(data, FaultyDevice()) == [("Conv_a", "HardSwish_b", "Conv_y")]
    device = FaultyDevice(declines=frozenset({"HARD_SWISH"}))
    first, last, *inlined = taken(data, device)
    assert (first, last) == (("Conv_a",), ("Conv_y",))
    with installed(device):
        report = ep_nnapi.check(data)
    assert report.nodes == report.capable == report.taken + len(report.rejections)
    assert report.taken == 2 + sum(map(len, inlined))
    assert "NnapiPlugin" not in str(report)


def test_what_was_left_before_functions_are_inlined_keeps_its_reason() -> None:
    device = FaultyDevice(declines=frozenset({"CONV_2D", "HARD_SWISH"}))
    with installed(device):
        report = ep_nnapi.check(model(*HARD_SWISH, w=FILTERS))
    reasons = {r.node: (r.reason, r.detail) for r in report.rejections}
    assert reasons["Conv_a"] == (ep_nnapi.Reason.DRIVER, "faulty declines CONV_2D, HARD_SWISH")
    assert reasons["Conv_y"] == reasons["Conv_a"]
    assert report.nodes == report.capable == report.taken + len(report.rejections)
