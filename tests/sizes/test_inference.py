"""Shapes and constants inferred from the sizes of the inputs."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import ep_nnapi
from ep_nnapi.graph.graph import Graph
from ep_nnapi.graph.value import Value
from ep_nnapi.sessions.cpu import session_of
from ep_nnapi.sizes import inference
from ep_nnapi.sizes.bind import bind_shapes
from tests.end_to_end.sessions import nnapi_session
from tests.onnx_graph import graph_of, model_of, nodes_of, parsed

CLOSE = 1e-6  # both multiply and add the same few float32 numbers


def int64(name: str, *numbers: int) -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(numbers, np.int64), name)


def model(nodes: list[onnx.NodeProto], constants: list[onnx.TensorProto], y: int) -> bytes:
    """x [batch, length, 6] -> nodes -> y of that rank."""
    made = model_of(nodes, {"x": ("batch", "length", 6)}, {"y": [None] * y})
    made.graph.initializer.extend(constants)
    return made.SerializeToString()


def halves() -> bytes:
    """x [batch, length, 6] -> Relu -> the first half of each sentence -> Transpose.

    Where Slice ends is computed from the sizes of x, as exporters write it.
    """
    nodes = [
        helper.make_node("Shape", ["x"], ["sizes"], "sizes"),
        helper.make_node("Gather", ["sizes", "one"], ["length"], "length", axis=0),
        helper.make_node("Div", ["length", "two"], ["half"], "half"),
        helper.make_node("Unsqueeze", ["half", "front"], ["end"], "end"),
        helper.make_node("Relu", ["x"], ["r"], "between"),
        helper.make_node("Slice", ["r", "front", "end", "along"], ["h"], "cut"),
        helper.make_node("Transpose", ["h"], ["y"], "transpose", perm=[1, 0, 2]),
    ]
    scalars = [
        numpy_helper.from_array(np.array(number, np.int64), name)
        for number, name in ((1, "one"), (2, "two"))
    ]
    return model(nodes, [*scalars, int64("front", 0), int64("along", 1)], 3)


def positions() -> bytes:
    """x plus its place in the sentence, masked where that is odd: Range, Mod, Equal and Where."""
    nodes = [
        helper.make_node("Shape", ["x"], ["sizes"], start=1, end=2),
        helper.make_node("Squeeze", ["sizes"], ["length"]),
        helper.make_node("Range", ["zero", "length", "one"], ["places"]),
        helper.make_node("Mod", ["places", "two"], ["odd"]),
        helper.make_node("Equal", ["odd", "one"], ["masked"]),
        helper.make_node("Unsqueeze", ["masked", "last"], ["mask"]),
        helper.make_node("Cast", ["places"], ["reals"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["reals", "last"], ["column"]),
        helper.make_node("Add", ["x", "column"], ["moved"]),
        helper.make_node("Where", ["mask", "low", "moved"], ["y"]),
    ]
    scalars = [
        numpy_helper.from_array(np.array(number, np.int64), name)
        for number, name in ((0, "zero"), (1, "one"), (2, "two"))
    ]
    low = numpy_helper.from_array(np.array(-10, np.float32), "low")
    return model(nodes, [*scalars, low, int64("last", 1)], 3)


def graph(made: bytes) -> Graph:
    return graph_of(onnx.load_from_string(made))


def outputs(seen: Graph) -> dict[str, Value]:
    return {v.name: v for n in seen.nodes for v in n.outputs if v is not None}


def test_numbers_and_sizes_follow() -> None:
    values = outputs(bind_shapes(graph(halves()), {"x": (5, 7, 6)}))
    assert values["end"].constant is not None
    assert values["end"].constant.array == [3]
    assert values["y"].shape == (3, 5, 6)
    assert not values["r"].folded


def test_numbers_past_the_limit_are_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inference, "_MAX_FOLDED", 7)
    assert outputs(bind_shapes(graph(positions()), {"x": (1, 7, 6)}))["masked"].folded
    values = outputs(bind_shapes(graph(positions()), {"x": (1, 8, 6)}))
    assert values["length"].folded
    assert not values["places"].folded


@pytest.mark.parametrize(
    ("index", "folded"), [(-3, True), (2, True), (3, False), (-(2**63), False)]
)
def test_elements_out_of_range_are_not_gathered(index: int, folded: bool) -> None:
    """The reference evaluation would take as many steps as the index is away from the data."""
    text = "() => (int64[1] y) { y = GatherElements (data, at) }"
    made = graph_of(parsed(text, data=[5, 6, 7], at=[index]))
    assert outputs(bind_shapes(made, {}))["y"].folded == folded


def test_sizes_that_contradict_each_other_stay_unknown() -> None:
    """x cannot expand to sizes that are one larger, unless its own are 1."""
    nodes = [
        helper.make_node("Shape", ["x"], ["sizes"]),
        helper.make_node("Add", ["sizes", "more"], ["larger"]),
        helper.make_node("Expand", ["x", "larger"], ["y"]),
    ]
    made = graph(model(nodes, [int64("more", 1, 1, 0)], 3))
    assert outputs(bind_shapes(made, {"x": (1, 1, 6)}))["y"].shape == (2, 2, 6)
    assert outputs(bind_shapes(made, {"x": (1, 2, 6)}))["y"].dims == ("unk__0", "unk__1", 6)


def test_the_results_of_inner_graphs_stay_as_they_are() -> None:
    """An If has branches that its node in `graph` does not show."""
    made = graph(model([helper.make_node("Relu", ["x"], ["y"])], [], 3))
    node = replace(made.nodes[0], op_type="If", since=16)
    values = outputs(bind_shapes(replace(made, nodes=(node,)), {"x": (2, 5, 6)}))
    assert values["y"].shape == (2, 5, 6)


@pytest.mark.parametrize(
    ("shapes", "dims"),
    [({"x": (2, 5, 6)}, None), ({"x": (2, 5, 6), "shape": (3,)}, (None, None, None))],
)
def test_a_rank_is_known_when_it_can_be_inferred_and_else_not_taken_for_0(
    shapes: dict[str, tuple[int, ...]], dims: tuple[None, ...] | None
) -> None:
    nodes = [helper.make_node("Reshape", ["x", "shape"], ["y"])]
    made = onnx.load_from_string(model(nodes, [], 3))
    made.graph.input.append(helper.make_tensor_value_info("shape", TensorProto.INT64, [None]))
    made.graph.output[0].type.tensor_type.ClearField("shape")
    assert outputs(bind_shapes(graph_of(made), shapes))["y"].dims == dims


def test_what_the_author_declares_of_an_output_may_be_wrong() -> None:
    made = graph(model([helper.make_node("Relu", ["x"], ["y"])], [], 3))
    wrong = replace(made.outputs[0], dims=())
    node = replace(made.nodes[0], outputs=(wrong,))
    declared = replace(made, nodes=(node,), outputs=(wrong,))
    assert outputs(bind_shapes(declared, {"x": (2, 5, 6)}))["y"].shape == (2, 5, 6)


LAYERS = {
    "mean": ((9, 13), helper.make_node("MeanVarianceNormalization", ["r"], ["m"], axes=[0, 2])),
    "groups": ((18, 21), helper.make_node("GroupNormalization", ["r", *"sb"], ["m"], num_groups=2)),
    "most": ((12, 16), helper.make_node("LessOrEqual", ["r", "one"], ["m"])),
    "least": ((12, 16), helper.make_node("GreaterOrEqual", ["one", "r"], ["m"])),
}
"""By name: opsets in which ONNX infers no sizes of the layer, and the layer; r is [2, 4, 6]."""


def layered(name: str, opset: int) -> onnx.ModelProto:
    """x [2, 4, 6] -> Relu -> r -> that layer -> m -> Cast, Sigmoid -> y, of no stated size."""
    layer = LAYERS[name][1]
    first, *last = nodes_of("r = Relu (x) f = Cast <to = 1> (m) y = Sigmoid (f)")
    nodes = [first, layer, *last]
    per = 2 if opset < 21 else 4  # a scale for each group, later for each channel
    constants = {"s": np.arange(1, per + 1), "b": np.ones(per), "one": np.ones((1, 1))}
    read = {n: a.astype(np.float32) for n, a in constants.items() if n in layer.input}
    return model_of(nodes, {"x": (2, 4, 6)}, {"y": None}, read, opset)


@pytest.mark.parametrize(("name", "opset"), [(n, o) for n, (os, _) in LAYERS.items() for o in os])
def test_sizes_after_a_layer_that_onnx_does_not_infer(name: str, opset: int) -> None:
    made = layered(name, opset).SerializeToString()
    report = ep_nnapi.check(made)
    (cluster,) = report.clusters
    assert (report.taken, cluster.boundary_bytes) == (report.nodes, 2 * 4 * 48)
    compare(made, sizes=[(2, 4, 6)])


@pytest.mark.parametrize("made", [halves(), positions()], ids=["halves", "positions"])
def test_one_cluster_at_every_size(made: bytes) -> None:
    report = ep_nnapi.check(made)
    assert (len(report.clusters), report.taken) == (1, report.nodes)
    compare(made)


def nothing() -> bytes:
    """x [batch, length, 6] -> Relu -> Reshape, by no size before and one after: [:0] + [-1, 6]."""
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Shape", ["r"], ["sizes"]),
        helper.make_node("Slice", ["sizes", "front", "front"], ["none"], "empty"),
        helper.make_node("Concat", ["none", "flat"], ["shape"], "concat", axis=0),
        helper.make_node("Reshape", ["r", "shape"], ["y"]),
    ]
    return model(nodes, [int64("front", 0), int64("flat", -1, 6)], 2)


def test_numbers_of_which_there_are_none_stay_inside() -> None:
    report = ep_nnapi.check(nothing())
    assert (len(report.clusters), report.taken) == (1, 5)
    compare(nothing())


def test_numbers_of_which_there_are_none_do_not_leave() -> None:
    report = ep_nnapi.check(nothing(), exclude="concat")
    refused = {r.node: r for r in report.rejections}
    assert refused["empty"].reason is ep_nnapi.Reason.SHAPE
    assert "none has no elements and leaves its cluster" in refused["empty"].detail
    compare(nothing(), exclude="concat")


def embedding() -> bytes:
    """x plus the entry of each place in a quantized table, which is as long as the sentence."""
    nodes = [
        helper.make_node("Shape", ["x"], ["sizes"], start=1, end=2),
        helper.make_node("Squeeze", ["sizes"], ["length"]),
        helper.make_node("Range", ["zero", "length", "one"], ["places"]),
        helper.make_node("Gather", ["table", "places"], ["entries"]),
        helper.make_node("DequantizeLinear", ["entries", "scale", "middle"], ["reals"]),
        helper.make_node("Add", ["x", "reals"], ["y"]),
    ]
    constants = {
        "zero": np.int64(0),
        "one": np.int64(1),
        "table": np.arange(200 * 6).astype(np.uint8).reshape(200, 6),
        "scale": np.float32(0.05),
        "middle": np.uint8(117),
    }
    tensors = [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()]
    return model(nodes, tensors, 3)


def test_a_part_of_a_quantized_table_follows_from_sizes() -> None:
    report = ep_nnapi.check(embedding())
    assert (len(report.clusters), report.taken) == (1, report.nodes)
    compare(embedding())


def test_a_number_that_comes_from_another_cluster(caplog: pytest.LogCaptureFixture) -> None:
    """The CPU computes what is between: the numbers enter the cluster that cuts there."""
    exclude = "between,Shape,Gather,Div,Unsqueeze"
    report = ep_nnapi.check(halves(), exclude=exclude)
    (cluster,) = report.clusters
    assert cluster.nodes == ("cut", "transpose")
    assert set(cluster.inputs) == {"r", "end"}
    compare(halves(), exclude=exclude)
    assert not caplog.records


SIZES = [(1, 4, 6), (2, 4, 6), (3, 9, 6), (1, 2, 6)]


def compare(made: bytes, sizes: Sequence[tuple[int, ...]] = SIZES, **given: str) -> None:
    ours = nnapi_session(made, **given)
    cpu = session_of(made)
    for shape in sizes:
        x = np.random.default_rng(3).standard_normal(shape).astype(np.float32)
        want, got = cpu.run(None, {"x": x})[0], ours.run(None, {"x": x})[0]
        assert got.shape == want.shape
        assert np.abs(got - want).max() <= CLOSE * max(1, np.abs(want).max())
