"""Limits of a cluster's size: the options at and past each limit, and devices that lack memory."""

import networkx as nx
import numpy as np
import pytest
from onnx import helper, numpy_helper

import ep_nnapi
from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.provider.cluster_size import limits_below
from partitioner import Budget
from tests.end_to_end.sessions import nnapi_session
from tests.faulty import FaultyDevice
from tests.onnx_graph import parsed
from tests.provider.test_cluster_selection import detail
from tests.provider.test_planner import CHAIN, SHAPE, clusters, model, plan, refusals

SUMS = model("Add x w1 -> a", "Add a w2 -> b", "Add b w1 -> c", "Add c w1 -> y", constants="w1 w2")
TENSOR = 2 * 3 * 4
"""Bytes of each tensor and of each constant."""


def sizes(**options: object) -> list[int]:
    return [len(names) for names in clusters(plan(SUMS, **options))]


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
    found = plan(SUMS, max_cluster_nodes=3, min_cluster_nodes=2)
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
    found = plan(PRODUCTS, device)
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
    found = plan(wide, FaultyDevice(refuses_above=24 * 3))
    assert refusals(found) == {"Concat_b": Reason.DRIVER}
    (refused,) = found.report.rejections
    assert "RESOURCE_EXHAUSTED_PERSISTENT" in refused.detail
    assert sum(map(len, clusters(found))) == 3


def test_other_failures_are_bisected_not_split():
    device = FaultyDevice(fails_on=frozenset({"TANH"}))
    found = plan(CHAIN, device)
    assert clusters(found) == [("Abs_a", "Neg_b", "Exp_c")]
    assert refusals(found) == {"Tanh_y": Reason.DRIVER}


def test_splits_for_the_device_keep_to_the_options():
    """Pieces of three; of at most one cluster, the first is taken."""
    device = FaultyDevice(refuses_above=24 * 7)
    assert [len(c) for c in clusters(plan(PRODUCTS, device, max_cluster_nodes=2))] == [2, 2, 2]
    assert [len(c) for c in clusters(plan(PRODUCTS, device, max_clusters=1))] == [3]


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
