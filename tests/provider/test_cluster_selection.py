"""Choosing among capable nodes: what is worth it, within limits, and what is said of the rest.

In MODEL a node takes 10 us on the CPU provider and 1 us on NNAPI, a cluster 15 us more, a byte over
the border 0.25 us: a tensor of SHAPE, six floats, 6 us.
"""

from dataclasses import replace
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

import ep_nnapi
from ep_nnapi.costs.cost_model import CostClass, CostModel, Rates
from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.nnapi.host import HostRuntime
from ep_nnapi.nnapi.host.reference import ReferenceDevice
from ep_nnapi.options.table import parse
from ep_nnapi.options.target import Target
from ep_nnapi.provider.compiler import Compiler
from ep_nnapi.provider.planner import PartitionedGraph, Planner
from tests.faulty import FaultyDevice
from tests.onnx_graph import graph_of
from tests.oracle import f32, graph
from tests.provider.test_planner import clusters, model, refusals

NOTHING = dict.fromkeys(CostClass, 0.0)
MODEL = CostModel(Rates(10, 0, NOTHING), Rates(1, 0, NOTHING), per_byte=0.25, per_cluster=15)

# RandomNormalLike has no lowering: three nodes before it, one after.
SPLIT = model(
    "Abs x -> a", "Neg a -> b", "Exp b -> c", "RandomNormalLike c -> d", "Tanh d -> y", outputs="y"
)


def plan(
    proto: object, costs: CostModel = MODEL, device: object = None, **options: object
) -> PartitionedGraph:
    runtime = HostRuntime([device or ReferenceDevice()])
    compiler = Compiler(Target(8), runtime, runtime.devices()[0])
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
_NODES = (
    helper.make_node("RandomNormalLike", ["x"], ["a"], "random"),
    helper.make_node("Flatten", ["a"], ["b"], "flat"),
    helper.make_node("RandomNormalLike", ["b"], ["c"], "again"),
    helper.make_node("Neg", ["c"], ["y"], "neg"),
)
FLATTENED = helper.make_model(
    helper.make_graph(
        _NODES,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (2, 3, 4))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (2, 12))],
    ),
    opset_imports=[helper.make_opsetid("", 21)],
    ir_version=8,
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
