"""Shapes and constants inferred from the sizes of the inputs."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import ep_nnapi
from ep_nnapi.graph.graph import Graph
from ep_nnapi.graph.value import Value
from ep_nnapi.sessions.cpu import session_of
from ep_nnapi.sizes import inference
from ep_nnapi.sizes.bind import bind_shapes
from tests.end_to_end.sessions import nnapi_session
from tests.onnx_graph import graph_of, model_of, nodes_of, parsed

CLOSE = 1e-6  # both multiply and add the same few float32 numbers


def model(text: str, rank: int = 3, **constants: object) -> bytes:
    """x [batch, length, 6] -> nodes -> y of that rank."""
    ends = {"x": ("batch", "length", 6)}, {"y": [None] * rank}
    return model_of(text, *ends, constants).SerializeToString()


def halves() -> bytes:
    """x [batch, length, 6] -> Relu -> the first half of each sentence -> Transpose.

    Where Slice ends is computed from the sizes of x, as exporters write it.
    """
    text = """[sizes] sizes = Shape (x) [length] length = Gather <axis = 0> (sizes, one)
        [half] half = Div (length, two) [end] end = Unsqueeze (half, front) [between] r = Relu (x)
        [cut] h = Slice (r, front, end, along) [transpose] y = Transpose <perm = [1, 0, 2]> (h)"""
    return model(text, one=1, two=2, front=[0], along=[1])


def positions() -> bytes:
    """x plus its place in the sentence, masked where that is odd: Range, Mod, Equal and Where."""
    text = """sizes = Shape <start = 1, end = 2> (x) length = Squeeze (sizes)
        places = Range (zero, length, one) odd = Mod (places, two) masked = Equal (odd, one)
        mask = Unsqueeze (masked, last) reals = Cast <to = 1> (places)
        column = Unsqueeze (reals, last) moved = Add (x, column) y = Where (mask, low, moved)"""
    return model(text, zero=0, one=1, two=2, low=np.float32(-10), last=[1])


RELU = model("y = Relu (x)")


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
    text = "sizes = Shape (x) larger = Add (sizes, more) y = Expand (x, larger)"
    made = graph(model(text, more=[1, 1, 0]))
    assert outputs(bind_shapes(made, {"x": (1, 1, 6)}))["y"].shape == (2, 2, 6)
    assert outputs(bind_shapes(made, {"x": (1, 2, 6)}))["y"].dims == ("unk__0", "unk__1", 6)


def test_the_results_of_inner_graphs_stay_as_they_are() -> None:
    """An If has branches that its node in `graph` does not show."""
    made = graph(RELU)
    node = replace(made.nodes[0], op_type="If", since=16)
    values = outputs(bind_shapes(replace(made, nodes=(node,)), {"x": (2, 5, 6)}))
    assert values["y"].shape == (2, 5, 6)


@pytest.mark.parametrize(
    ("shapes", "dims"),
    [({"x": (2, 5, 6)}, None), ({"x": (2, 5, 6), "shape": (3,)}, (None, None, None))],
)
def test_a_rank_is_known_when_it_can_be_inferred_and_else_not_taken_for_0(shapes, dims):
    made = onnx.load_from_string(model("y = Reshape (x, shape)"))
    made.graph.input.append(helper.make_tensor_value_info("shape", TensorProto.INT64, [None]))
    made.graph.output[0].type.tensor_type.ClearField("shape")
    assert outputs(bind_shapes(graph_of(made), shapes))["y"].dims == dims


def test_what_the_author_declares_of_an_output_may_be_wrong() -> None:
    made = graph(RELU)
    wrong = replace(made.outputs[0], dims=())
    node = replace(made.nodes[0], outputs=(wrong,))
    declared = replace(made, nodes=(node,), outputs=(wrong,))
    assert outputs(bind_shapes(declared, {"x": (2, 5, 6)}))["y"].shape == (2, 5, 6)


LAYERS = {
    "mean": ((9, 13), "m = MeanVarianceNormalization <axes = [0, 2]> (r)"),
    "groups": ((18, 21), "m = GroupNormalization <num_groups = 2> (r, s, b)"),
    "most": ((12, 16), "m = LessOrEqual (r, one)"),
    "least": ((12, 16), "m = GreaterOrEqual (one, r)"),
}
"""By name: opsets in which ONNX infers no sizes of the layer, and the layer; r is [2, 4, 6]."""


def layered(name: str, opset: int) -> onnx.ModelProto:
    """x [2, 4, 6] -> Relu -> r -> that layer -> m -> Cast, Sigmoid -> y, of no stated size."""
    nodes = nodes_of(f"r = Relu (x) {LAYERS[name][1]} f = Cast <to = 1> (m) y = Sigmoid (f)")
    per = 2 if opset < 21 else 4  # a scale for each group, later for each channel
    constants = {"s": np.arange(1, per + 1), "b": np.ones(per), "one": np.ones((1, 1))}
    read = {n: a.astype(np.float32) for n, a in constants.items() if n in nodes[1].input}
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
    text = """r = Relu (x) sizes = Shape (r) [empty] none = Slice (sizes, front, front)
        [concat] shape = Concat <axis = 0> (none, flat) y = Reshape (r, shape)"""
    return model(text, 2, front=[0], flat=[-1, 6])


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


@pytest.mark.parametrize(("left", "taken"), [("", 4), ("concat", 2), ("empty", 3)])
def test_a_part_without_elements_is_left_out(left: str, taken: int) -> None:
    """As behind a rotary embedding of all channels; the CPU provider may make or read the part."""
    text = """r = Relu (x) [empty] none = Slice (r, front, most, last)
        [concat] whole = Concat <axis = 2> (r, none) y = Neg (whole)"""
    made = model(text, front=[6], most=[9], last=[2])
    assert ep_nnapi.check(made, exclude=left).taken == taken
    compare(made, exclude=left)


def embedding() -> bytes:
    """x plus the entry of each place in a quantized table, which is as long as the sentence."""
    text = """sizes = Shape <start = 1, end = 2> (x) length = Squeeze (sizes)
        places = Range (zero, length, one) entries = Gather (table, places)
        reals = DequantizeLinear (entries, scale, middle) y = Add (x, reals)"""
    table = np.arange(200 * 6).astype(np.uint8).reshape(200, 6)
    numbers = {"zero": 0, "one": 1, "scale": np.float32(0.05), "middle": np.uint8(117)}
    return model(text, table=table, **numbers)


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
