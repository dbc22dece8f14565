"""Choosing among capable nodes: what is worth it, within limits, and what is said of the rest.

In MODEL a node takes 10 us on the CPU provider and 1 us on NNAPI, a cluster 15 us more, a byte over
the border 0.25 us: a tensor of SHAPE, six floats, 6 us.
"""

from dataclasses import replace
from pathlib import Path

import networkx as nx
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import ep_nnapi
from ep_nnapi.costs import CostClass, CostModel, Rates
from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.options.table import parse
from ep_nnapi.provider.cluster_selection import limits_below
from ep_nnapi.provider.planner import PartitionedGraph, Planner
from partitioner import Budget
from tests.end_to_end.sessions import nnapi_session
from tests.faulty import FaultyDevice, compiler_of
from tests.onnx_graph import graph_of, parsed
from tests.oracle import f32, graph
from tests.provider.test_planner import CHAIN, SHAPE, clusters, model, refusals
from tests.provider.test_planner import plan as planned

NOTHING = dict.fromkeys(CostClass, 0.0)
MODEL = CostModel(Rates(10, 0, NOTHING), Rates(1, 0, NOTHING), per_byte=0.25, per_cluster=15)

# RandomNormalLike has no lowering: three nodes before it, one after.
SPLIT = model(
    "Abs x -> a", "Neg a -> b", "Exp b -> c", "RandomNormalLike c -> d", "Tanh d -> y", outputs="y"
)


def plan(
    proto: object, costs: CostModel = MODEL, device: object = None, **options: object
) -> PartitionedGraph:
    compiler = compiler_of(device)
    given = parse({"partitioning": "worth_it", **options})
    return Planner(compiler, given, costs).plan(graph_of(proto))


def detail(found: PartitionedGraph, node: str) -> str:
    return next(r.detail for r in found.report.rejections if r.node == node)


def test_what_costs_more_than_it_saves_is_left_with_the_estimate():
    """Three nodes save 27 us and cost 15 and two tensors, 12: nothing, and on a tie all is taken.

    One saves 9 us and costs as much.
    """
    found = plan(SPLIT)
    assert clusters(found) == [("Abs_a", "Neg_b", "Exp_c")]
    assert refusals(found) == {"RandomNormalLike_d": Reason.OP, "Tanh_y": Reason.NOT_WORTH_IT}
    assert detail(found, "Tanh_y") == (
        "worth_it: taking this node by itself is estimated 18 us slower than the CPU provider; "
        "partitioning=maximal takes it"
    )
    assert found.report.capable == 4


def test_just_past_the_tie_it_is_left():
    found = plan(SPLIT, replace(MODEL, per_cluster=15.5))
    assert clusters(found) == []
    assert detail(found, "Abs_a") == (
        "worth_it: taking these 3 nodes by themselves is estimated 0.5 us slower than the CPU "
        "provider; partitioning=maximal takes them"
    )


# Only Identity_e moves nothing but bytes and is a whole cluster: Identity_b is in one of three.
MOVING = model(
    *("Abs x -> a", "Identity a -> b", "Neg b -> c", "RandomNormalLike c -> d", "Identity d -> e"),
    "RandomNormalLike e -> y",
)
WHOLE = ("Abs_a", "Identity_b", "Neg_c")


@pytest.mark.fast_devices
def test_sessions_on_the_host_leave_whole_clusters_that_only_move_bytes():
    """The rest stays as it is, and proven minimal; pieces that a limit has split are not whole."""
    assert parse({}).partitioning == "auto"
    found = plan(MOVING, partitioning="auto")
    assert clusters(found) == [WHOLE]
    assert (found.report.lower_bound, found.report.capable) == (1, 4)
    assert refusals(found)["Identity_e"] is Reason.NOT_WORTH_IT
    assert detail(found, "Identity_e") == (
        "its cluster is this node alone, which only moves bytes: partitioning=maximal takes it"
    )
    assert len(clusters(plan(MOVING, partitioning="auto", max_cluster_nodes=1))) == 4


@pytest.mark.fast_devices
@pytest.mark.parametrize("partitioning", ["auto", "maximal"])
def test_a_node_of_constants_alone_has_the_same_reason_in_every_partitioning(partitioning: str):
    """`check` partitions maximally, a session does not: their reasons are the same."""
    text = ("Identity w -> a", "RandomNormalLike a -> b", "Add x b -> c", "RandomNormalLike c -> y")
    found = plan(model(*text, constants="w"), partitioning=partitioning)
    assert refusals(found)["Identity_a"] is Reason.CONSTANT_NODE


@pytest.mark.fast_devices
@pytest.mark.parametrize(
    ("options", "noted"),
    [
        ({"partitioning": "maximal"}, ["Identity_e"]),
        ({"partitioning": "auto", "target": "builtin-nnapi"}, []),
        ({"partitioning": "auto", "runtime": "system"}, []),
        ({"partitioning": "auto", "device_profile": "phone.json"}, []),
    ],
    ids=str,
)
def test_maximal_and_phones_take_them(options: dict[str, object], noted: list[str]):
    found = plan(MOVING, **options)
    assert clusters(found) == [WHOLE, ("Identity_e",)]
    assert [n.node for n in found.report.notes] == noted
    assert all("sessions on the host leave it to the CPU" in n.detail for n in found.report.notes)


@pytest.mark.fast_devices
def test_sessions_on_the_host_leave_whole_clusters_that_are_measured_slower():
    """On a tie they take them; without a measurement they suppose nothing."""
    kept, left = ("Abs_a", "Neg_b", "Exp_c"), ("Tanh_y",)
    found = plan(SPLIT, partitioning="auto", calibration="host.json")
    assert clusters(found) == [kept]
    assert refusals(found)["Tanh_y"] is Reason.NOT_WORTH_IT
    why = "its cluster is measured, by the calibration, 18 us slower than the CPU provider: "
    assert detail(found, "Tanh_y") == f"{why}partitioning=maximal takes it"
    assert clusters(plan(SPLIT, partitioning="auto")) == [kept, left]
    whole = plan(SPLIT, partitioning="maximal", calibration="host.json")
    assert clusters(whole) == [kept, left]
    assert [(n.node, n.detail.startswith(why)) for n in whole.report.notes] == [("Tanh_y", True)]


# ONNX Runtime drops an Identity before it asks.
FLATTENED = parsed(
    """(float[2,3,4] x) => (float[2,12] y) { [random] a = RandomNormalLike (x)
    [flat] b = Flatten (a) [again] c = RandomNormalLike (b) [neg] y = Neg (c) }""",
    21,
)


@pytest.mark.fast_devices
def test_check_and_prepare_show_the_maximal_partition_and_a_session_leaves_of_it(tmp_path: Path):
    onnx.save(FLATTENED, tmp_path / "m.onnx")
    path = str(tmp_path / "m.onnx")
    maximal = [("flat",), ("neg",)]
    assert [c.nodes for c in ep_nnapi.check(path).clusters] == maximal
    done = ep_nnapi.prepare(path, tmp_path / "out", verify=False)
    assert [tuple(c["nodes"]) for c in done.models[0].report["clusters"]] == maximal
    for found in (ep_nnapi.run(path).report, ep_nnapi.compare(path).report):
        assert [c.nodes for c in found.clusters] == maximal[1:]
    assert [c.nodes for c in ep_nnapi.run(path, partitioning="maximal").report.clusters] == maximal


def test_maximal_takes_them_all():
    found = plan(SPLIT, partitioning="maximal")
    assert clusters(found) == [("Abs_a", "Neg_b", "Exp_c"), ("Tanh_y",)]


def test_an_end_that_is_dear_on_the_device_is_left():
    """The last node is a function of 6 numbers, here 20 us each on NNAPI."""
    slow = replace(MODEL.nnapi, per_mac={**NOTHING, CostClass.FUNCTION: 20.0})
    found = plan(
        model("Abs x -> a", "Neg a -> b", "Abs b -> c", "Neg c -> d", "Tanh d -> y"),
        replace(MODEL, nnapi=slow),
    )
    assert clusters(found) == [("Abs_a", "Neg_b", "Abs_c", "Neg_d")]
    assert "estimated 126 us slower" in detail(found, "Tanh_y")  # 15 + 1 + 6 * 20 - 10


def test_clusters_that_are_worth_it_only_together_are_given_up_together():
    """Without Neg the two sides of it save 9 us each; with it, 27 of which 15 + 12 are spent."""
    proto = model("Abs x -> a", "Neg a -> b", "Exp b -> y")
    assert clusters(plan(proto)) == [("Abs_a", "Neg_b", "Exp_y")]
    assert clusters(plan(proto, exclude="Neg")) == []


def test_what_a_device_declines_changes_what_is_worth_it():
    found = plan(SPLIT, device=FaultyDevice(declines=frozenset({"NEG"})))
    assert clusters(found) == []
    assert refusals(found)["Neg_b"] is Reason.DRIVER
    assert refusals(found)["Abs_a"] is Reason.NOT_WORTH_IT


def test_nothing_is_compiled_that_is_not_taken():
    device = FaultyDevice()
    plan(SPLIT, device=device)
    assert [len(m.operations) for m in device.compiled] == [3]


# together with the other options ------------------------------------------------------------

# Two clusters that are worth it, of four nodes and of three, and one of one node that is not.
THREE = model(
    *("Abs x -> a", "Neg a -> b", "Exp b -> c", "Tanh c -> d"),
    *("RandomNormalLike d -> e", "Abs e -> f", "Neg f -> g", "Exp g -> h"),
    *("RandomNormalLike h -> i", "Tanh i -> y"),
)


def test_with_min_cluster_nodes():
    assert list(map(len, clusters(plan(THREE)))) == [4, 3]
    found = plan(THREE, min_cluster_nodes=4)
    assert list(map(len, clusters(found))) == [4]
    assert "has 3 nodes, fewer than min_cluster_nodes = 4" in detail(found, "Abs_f")
    assert "worth_it" in detail(found, "Tanh_y")


def test_with_max_clusters():
    """The kept one saves 36 us and costs 15 and 12."""
    found = plan(THREE, max_clusters=1)
    assert list(map(len, clusters(found))) == [4]
    assert detail(found, "Neg_g") == (
        "its cluster, estimated 0 us slower than the CPU provider, is not among the "
        "max_clusters = 1 that save most"
    )


def test_max_clusters_keeps_what_saves_most_not_what_is_largest():
    """The lone Tanh is a function, which takes the CPU 100 us for each of its 6 numbers."""
    slow = replace(MODEL.cpu, per_mac={**NOTHING, CostClass.FUNCTION: 100.0})
    proto = model("Abs x -> a", "Neg a -> b", "RandomNormalLike b -> c", "Tanh c -> y")
    for partitioning in ("maximal", "worth_it"):
        found = plan(proto, replace(MODEL, cpu=slow), max_clusters=1, partitioning=partitioning)
        assert clusters(found) == [("Tanh_y",)]


@pytest.mark.parametrize("least", [1, 2])
def test_min_and_max_together(least: int):
    found = plan(THREE, partitioning="maximal", min_cluster_nodes=least, max_clusters=2)
    assert list(map(len, clusters(found))) == [4, 3]


def test_with_partitioning_stop_ops():
    found = plan(THREE, partitioning_stop_ops="Exp")
    assert clusters(found) == []  # Abs and Neg alone save 18 us
    assert "partitioning_stop_ops" in detail(found, "Exp_c")
    assert "these 2 nodes by themselves is estimated 9 us slower" in detail(found, "Abs_a")


def test_sizes_that_are_fixed_count_and_symbolic_ones_count_as_1():
    """Two inputs [n, 6]: with n = 1 the border costs 3 tensors of 6 us, with n = 100, 1800 us."""
    proto = graph(
        [helper.make_node("Add", ["x0", "x1"], ["a"]), helper.make_node("Neg", ["a"], ["y0"])],
        {"x0": f32("n", 6), "x1": f32("n", 6)},
    ).model
    cheap = replace(MODEL, per_cluster=0)
    assert clusters(plan(proto, cheap, fix={"x0": (1, 6)})) == [("a", "y0")]
    assert clusters(plan(proto, cheap, fix={"x0": (100, 6)})) == []
    assert clusters(plan(proto, cheap)) == [("a", "y0")]


def test_the_same_graph_is_chosen_from_the_same():
    assert plan(THREE, max_clusters=1).report == plan(THREE, max_clusters=1).report


SUMS = model("Add x w1 -> a", "Add a w2 -> b", "Add b w1 -> c", "Add c w1 -> y", constants="w1 w2")
TENSOR = 2 * 3 * 4
"""Bytes of each tensor and of each constant."""


def sizes(**options: object) -> list[int]:
    return [len(names) for names in clusters(planned(SUMS, **options))]


@pytest.mark.parametrize(
    ("option", "limit", "expected"),
    [
        ("max_cluster_nodes", 4, [4]),
        ("max_cluster_nodes", 3, [3, 1]),
        ("max_cluster_nodes", 1, [1, 1, 1, 1]),
        ("max_cluster_weight_bytes", 2 * TENSOR, [4]),  # w1, which three nodes read, counts once
        ("max_cluster_weight_bytes", 2 * TENSOR - 1, [1, 1, 2]),
        ("max_cluster_weight_bytes", 1, [1, 1, 1, 1]),  # a node by itself is never too large
        ("max_cluster_activation_bytes", 5 * TENSOR, [4]),
        ("max_cluster_activation_bytes", 5 * TENSOR - 1, [3, 1]),
        ("max_cluster_activation_bytes", 2 * TENSOR, [1, 1, 1, 1]),
    ],
)
def test_clusters_are_split_at_a_size(option: str, limit: int, expected: list[int]):
    """At the limit, and just past it; nothing is left to the CPU for its size."""
    assert sizes(**{option: limit}) == expected


def test_a_split_cluster_counts_for_the_other_limits():
    """Both pieces of 2 nodes are taken; of pieces of 3 and 1, the small one is left."""
    assert sizes(max_cluster_nodes=2, min_cluster_nodes=2) == [2, 2]
    found = planned(SUMS, max_cluster_nodes=3, min_cluster_nodes=2)
    assert [len(names) for names in clusters(found)] == [3]
    assert "fewer than min_cluster_nodes = 2" in detail(found, "Add_y")


def test_a_qdq_group_is_one_node_of_a_cluster():
    """DequantizeLinear, Sigmoid and QuantizeLinear stay together in clusters of one node."""
    sizes = ",".join(map(str, SHAPE))
    text = f"""(uint8[{sizes}] x) => (uint8[{sizes}] y) {{
        [dequantize] a = DequantizeLinear (x, scale, zero) [sigmoid] b = Sigmoid (a)
        [quantize] y = QuantizeLinear (b, of_y, zero) }}"""
    group = parsed(text, 21, scale=np.float32(0.1), of_y=np.float32(1 / 256), zero=np.uint8(0))
    for option in ("max_cluster_nodes", "max_cluster_weight_bytes"):
        report = ep_nnapi.check(group, **{option: 1})
        assert [c.nodes for c in report.clusters] == [("dequantize", "sigmoid", "quantize")]


def test_a_session_takes_the_limits():
    """As provider options, which are strings, of a stock session."""
    for option in ("max_cluster_nodes", "max_cluster_weight_bytes", "max_cluster_activation_bytes"):
        report = ep_nnapi.check(SUMS.SerializeToString(), **{option: "1"})
        assert [len(c.nodes) for c in report.clusters] == [1, 1, 1, 1]
        session = nnapi_session(SUMS, **{option: 1})
        x = np.ones(SHAPE, np.float32)
        assert np.array_equal(session.run(None, {"x": x})[0], 5 * x)


# models that are too large for the device ------------------------------------------------------

# Six multiplications by constants of their own: every tensor has 24 bytes, so that a model of n of
# them has 24 (2 n + 1) bytes.
PRODUCTS = model(
    *(
        f"Mul {'x' if i == 0 else f'a{i - 1}'} w{i} -> {'y' if i == 5 else f'a{i}'}"
        for i in range(6)
    ),
    constants=" ".join(f"w{i}" for i in range(6)),
)
for factor, weights in enumerate(PRODUCTS.graph.initializer, start=1):  # equal ones would be shared
    weights.CopyFrom(numpy_helper.from_array(np.full(SHAPE, factor, np.float32), weights.name))


@pytest.mark.parametrize(
    ("nodes", "expected"), [(6, [6]), (5, [3, 3]), (3, [3, 3]), (2, [2, 2, 2]), (1, [1] * 6)]
)
@pytest.mark.parametrize(
    "code", ["OUT_OF_MEMORY", "RESOURCE_EXHAUSTED_TRANSIENT", "RESOURCE_EXHAUSTED_PERSISTENT"]
)
def test_clusters_are_split_for_a_device_without_memory(nodes: int, expected: list[int], code: str):
    device = FaultyDevice(refuses_above=24 * (2 * nodes + 1), code=code)
    found = planned(PRODUCTS, device)
    assert [len(names) for names in clusters(found)] == expected
    assert refusals(found) == {}
    assert len(device.compiled) == len(expected)


def test_a_node_that_is_too_large_by_itself_is_left_to_the_cpu():
    """The nodes before and after it still compile."""
    lines = ("Relu x -> a", "Concat a a a a -> b", "Relu x -> c", "Exp c -> y")
    wide = model(*lines, outputs="b y")
    for made in wide.graph.node:
        if made.op_type == "Concat":
            made.attribute.append(helper.make_attribute("axis", 0))
    wide.graph.output[0].type.tensor_type.shape.dim[0].dim_value = 4 * SHAPE[0]
    found = planned(wide, FaultyDevice(refuses_above=24 * 3))
    assert refusals(found) == {"Concat_b": Reason.DRIVER}
    (refused,) = found.report.rejections
    assert "RESOURCE_EXHAUSTED_PERSISTENT" in refused.detail
    assert sum(map(len, clusters(found))) == 3


def test_other_failures_are_bisected_not_split():
    device = FaultyDevice(fails_on=frozenset({"TANH"}))
    found = planned(CHAIN, device)
    assert clusters(found) == [("Abs_a", "Neg_b", "Exp_c")]
    assert refusals(found) == {"Tanh_y": Reason.DRIVER}


def test_splits_for_the_device_keep_to_the_options():
    """Pieces of three; of at most one cluster, the first is taken."""
    device = FaultyDevice(refuses_above=24 * 7)
    assert [len(c) for c in clusters(planned(PRODUCTS, device, max_cluster_nodes=2))] == [2, 2, 2]
    assert [len(c) for c in clusters(planned(PRODUCTS, device, max_clusters=1))] == [3]


# the limits themselves -------------------------------------------------------------------------


def test_limits_cut_a_chain_in_two():
    """Five nodes with weights of 10 bytes and tensors of 1 byte."""
    dag = nx.DiGraph([("a", "b"), ("b", "c"), ("c", "d"), ("d", "e")])
    nx.set_node_attributes(dag, {n: {n: 10} for n in dag}, "weights")
    assert limits_below(dag, "abcde") == Budget(weights=30, activations=3)
    assert limits_below(dag, "ab") == Budget(weights=10, activations=2)
    assert limits_below(dag, "a") is None


def test_the_device_can_compile_as_much_as_it_has():
    dag = nx.path_graph(9, nx.DiGraph)
    nx.set_node_attributes(dag, {n: {n: 10} for n in dag}, "weights")
    assert limits_below(dag, range(1, 5), [range(5, 8)]) == Budget(weights=30, activations=4)
