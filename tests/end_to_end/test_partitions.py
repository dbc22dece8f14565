"""The zoo's partitions: legal whatever a device declines, right, and worth it where that is asked.

Declined are every 2nd, 5th, 10th or 20th of the nodes that would be taken (QDQ groups as one).
"""

from functools import cache

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import ep_nnapi
from ep_nnapi.quantization.propagate import propagate_quantization
from ep_nnapi.sessions.cpu import session_of
from models import zoo
from models.quantized import SCHEMES
from partitioner import violations, worth_it
from tests.end_to_end import quantized as q
from tests.end_to_end import test_quantized, test_zoo
from tests.end_to_end.quantized import Qdq, stored
from tests.end_to_end.sessions import nnapi_session
from tests.end_to_end.test_zoo import CLOSE
from tests.faulty import FaultyDevice, installed
from tests.onnx_graph import graph_of, model_of, nodes_of, serialized
from tests.partitions import Partition, declining, partitions_of

EVERY = [2, 20, *(pytest.param(n, marks=pytest.mark.long) for n in (5, 10))]
QUANTIZED = [*test_zoo.SMALL, "vgg_small", "kws_dscnn", "mlp"]
# Of the largest value: networks add up what each layer rounds otherwise. ResNet-50, the deepest, is
# three quanta of 109 apart with nothing declined (0.028), and four with every 5th group (0.037).
DRIFT = 0.06


def models(names: list[str], short: list[str]) -> list[object]:
    return [pytest.param(n, marks=[] if n in short else pytest.mark.long) for n in names]


FLOAT = models(list(zoo.MODELS), ["squeezenet1_1", "transformer_encoder", "mlp"])
IN_8_BITS = models(QUANTIZED, ["kws_dscnn", "mlp"])


def built(name: str, scheme: str | None) -> onnx.ModelProto:
    if scheme is None:
        return test_zoo.built(name, published=False)
    return test_quantized.built(name, scheme)


def assert_legal(found: list[Partition]) -> None:
    """By the definition, each round of each graph."""
    for partition in found:
        clusters = partition.choice.clusters
        assert violations(partition.dag, partition.capable, clusters) == []


def assert_never_worse(found: Partition) -> None:
    """The selection "worth_it" is estimated to take no longer than all nodes, or none."""
    best = worth_it(found.dag, found.capable, found.costs)
    assert violations(found.dag, found.capable, best.clusters, taken=taken(best.clusters)) == []
    assert best.cost <= min(best.of_all, best.of_none)
    times = [found.estimate(c) for c in (best.clusters, found.choice.clusters, [])]
    assert times[0] <= min(times[1:]) * (1 + 1e-9)  # sums in another order
    for piece in best.given_up:
        assert piece.loss > 0, piece.nodes


def taken(clusters: list[tuple[object, ...]]) -> set[object]:
    return {node for cluster in clusters for node in cluster}


def declined(proto: onnx.ModelProto, every: int) -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
    """Answers where every k-th node is declined, the partitions checked, and what was asked."""
    data, feeds = proto.SerializeToString(), zoo.sample_inputs(proto)
    device = declining(data, every)
    found = partitions_of(data, device)
    assert_legal(found)
    assert_never_worse(found[0])
    with installed(device):
        return q.on_nnapi(proto, feeds), feeds


@pytest.mark.parametrize("every", EVERY)
@pytest.mark.parametrize("name", FLOAT)
def test_every_kth_node_declined(name: str, every: int) -> None:
    proto = built(name, None)
    got, feeds = declined(proto, every)
    data = proto.SerializeToString()
    want = session_of(data).run(None, feeds)
    for a, b in zip(got, want, strict=True):
        assert np.abs(a.astype(np.float64) - b).max(initial=0) <= CLOSE * np.abs(b).max(initial=0)


@pytest.mark.parametrize("every", EVERY)
@pytest.mark.parametrize("name", IN_8_BITS)
def test_every_kth_group_declined(name: str, every: int) -> None:
    proto = built(name, "u8s8")
    got, feeds = declined(proto, every)
    for a, b in zip(got, q.on_cpu(proto, feeds), strict=True):
        assert np.abs(a.astype(np.float64) - b).max(initial=0) <= DRIFT * np.abs(b).max(initial=0)


@pytest.mark.long
@pytest.mark.parametrize("level", range(1, 9))
@pytest.mark.parametrize("name", zoo.MODELS)
def test_every_feature_level(name: str, level: int) -> None:
    """test_zoo compares the outputs at each."""
    found = partitions_of(built(name, None).SerializeToString(), feature_level=level)
    assert_legal(found)
    assert_never_worse(found[0])


@pytest.mark.long
@pytest.mark.parametrize("level", range(1, 9))
@pytest.mark.parametrize("name", QUANTIZED)
def test_every_feature_level_in_8_bits(name: str, level: int) -> None:
    found = partitions_of(built(name, "u8s8").SerializeToString(), feature_level=level)
    assert_legal(found)
    assert_never_worse(found[0])


@pytest.mark.parametrize("level", [1, 3])
def test_levels_and_declined_nodes_together(level: int) -> None:
    data = built("squeezenet1_1", None).SerializeToString()
    device = declining(data, 5, feature_level=level)
    assert_legal(partitions_of(data, device, feature_level=level))


def test_worth_it_takes_what_pays_and_leaves_the_rest() -> None:
    """SqueezeNet in pieces, of which those at the ends are small."""
    data = built("squeezenet1_1", None).SerializeToString()
    device = declining(data, 10)
    everything = partitions_of(data, device)[0]
    chosen = partitions_of(data, device, partitioning="worth_it")[0]
    left = {i for ids, _ in chosen.choice.left_to_cpu for i in ids}
    assert taken(chosen.choice.clusters) == set(everything.capable) - left
    assert left
    assert chosen.choice.clusters
    assert all("estimated" in detail for _, detail in chosen.choice.left_to_cpu)
    times = [p.estimate(p.choice.clusters) for p in (chosen, everything)]
    assert times[0] < times[1]


def test_a_tiny_island_is_left_with_the_estimate() -> None:
    """A convolution of 115 million multiply-accumulates, and one Relu beyond what is left out.

    A cluster takes 500 us and 803 for its border, and computes the Relu 8 us faster.
    """
    weights = np.full((64, 64, 3, 3), 0.01, np.float32)
    text = """(float[1,64,56,56] x) => (float[1,64,56,56] y) {
        [Conv] a = Conv <pads = [1, 1, 1, 1]> (x, w) [Tanh] b = Tanh (a) [Relu] y = Relu (b) }"""
    data = serialized(text, w=weights)
    assert len(ep_nnapi.check(data, exclude="Tanh").clusters) == 2
    report = ep_nnapi.check(data, exclude="Tanh", partitioning="worth_it")
    assert [c.nodes for c in report.clusters] == [("Conv",)]
    (left,) = [r for r in report.rejections if r.node == "Relu"]
    saved = 200_704 * (5e-5 - 1e-5)
    slower = 500 + 2 * 4 * 200_704 * 5e-4 - saved
    assert (left.reason, left.detail) == (
        ep_nnapi.Reason.NOT_WORTH_IT,
        f"worth_it: taking this node by itself is estimated {slower:,.0f} us slower than the CPU "
        "provider; partitioning=maximal takes it",
    )


CPU = "CPUExecutionProvider"
X = np.array([[-1, 2, -3], [4, -5, 6]], np.float32)


def same(data: bytes, feeds: dict[str, np.ndarray], **options: object) -> None:
    """A session on NNAPI computes what one on the CPU provider does, to the bit."""
    got = nnapi_session(data, severity=4, **options).run(None, feeds)
    want = session_of(data).run(None, feeds)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a, b)


def together(report: ep_nnapi.Report, *names: str) -> bool:
    """True if nodes are in one cluster."""
    return any(set(names) <= set(c.nodes) for c in report.clusters)


# QDQ groups ----------------------------------------------------------------------------------


@cache
def digits(scheme: str) -> onnx.ModelProto:
    """The quantized digits as ONNX Runtime shows them: saved after basic optimization."""
    return zoo.quantized("digits", scheme)


@pytest.mark.parametrize("every", [0, 2, 3, 5])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_group_is_taken_or_left_as_a_whole(scheme: str, every: int) -> None:
    """Whatever the device declines; a group's members are those of the graph it is judged by."""
    proto = digits(scheme)
    with installed(FaultyDevice(every=every)):
        report = ep_nnapi.check(proto.SerializeToString())
    groups = [{p.name for p in n.originals} for n in propagate_quantization(graph_of(proto)).nodes]
    large = [g for g in groups if len(g) > 1]
    assert large
    left = {r.node for r in report.rejections}
    for group in large:
        inside = [c for c in report.clusters if group & set(c.nodes)]
        assert len(inside) <= 1
        assert all(group <= set(c.nodes) for c in inside) or group <= left
    assert sum(len(c.nodes) for c in report.clusters) + len(left) == report.nodes


@pytest.mark.parametrize("options", [{"exclude": "Relu"}, {"partitioning_stop_ops": "Relu"}])
def test_a_group_that_is_left_is_left_as_a_whole(options: dict[str, object]) -> None:
    """Two groups in a row, the second with an activation that is named."""
    q = Qdq()
    x = q.input((1, 4), (0.1, 100))
    first = q.group("Add", [x, x], (0.2, 100))
    last = q.group("Mul", [first, first], (0.3, 100), activation=("Relu", ()))
    proto = q.model(last)
    report = ep_nnapi.check(proto.SerializeToString(), **options)
    taken = [set(c.nodes) for c in report.clusters]
    sizes = sorted(len(n.originals) for n in propagate_quantization(graph_of(proto)).nodes)
    assert sizes == [4, 5]
    assert [len(c) for c in taken] == [4]
    same(proto.SerializeToString(), stored(proto), **options)


# constants -----------------------------------------------------------------------------------


def test_a_constant_is_part_of_each_cluster_that_reads_it() -> None:
    """Both read w, and nothing flows between them: no border, and no reason to be one cluster."""
    w = np.full((2, 3), 3, np.float32)
    text = """(float[2,3] x, float[2,3] z) => (float[2,3] y, float[2,3] v) {
        [Add] y = Add (x, w) [Mul] v = Mul (z, w) }"""
    data = serialized(text, w=w)
    report = ep_nnapi.check(data)
    assert [(c.nodes, c.inputs, c.boundary_bytes) for c in report.clusters] == [
        (("Add",), ("x",), 48),
        (("Mul",), ("z",), 48),
    ]
    same(data, {"x": X, "z": X})


@pytest.mark.parametrize("left", ["MatMul", "Tanh"])
def test_what_is_dequantized_from_constants_goes_with_its_reader(left: str) -> None:
    """A chain of no input of its own does not drift into another cluster, nor makes one."""
    q = Qdq()
    weights = q.weights(np.arange(6, dtype=np.uint8).reshape(3, 2), 0.1)
    first, last = nodes_of(f"[Tanh] t = Tanh (x) [MatMul] y = MatMul (t, {weights})")
    constants = {t.name: numpy_helper.to_array(t) for t in q.tensors}
    made = model_of([first, *q.nodes, last], {"x": (2, 3)}, {"y": (2, 2)}, constants)
    data = made.SerializeToString()
    report = ep_nnapi.check(data, exclude=left)
    (dequantize,) = (n.name for n in q.nodes)
    assert together(report, dequantize, "MatMul") == (left != "MatMul")
    assert len(report.clusters) == 1
    assert all(weights not in (*c.inputs, *c.outputs) for c in report.clusters)


# control flow --------------------------------------------------------------------------------


def around(inner: str, ends: str = "float[2,3] x, bool c") -> bytes:
    """x -Abs-> a -Neg-> b -Add-> y, and Add reads i that a node computes from around it."""
    text = f"""({ends}) => (float[2,3] y) <float[2,3] i> {{ [Abs] a = Abs (x) [Neg] b = Neg (a)
        {inner} [Add] y = Add (b, i) }}"""
    return serialized(text)


def either(then: str, other: str, name: str = "If", to: str = "i") -> str:
    """An If whose branches compute `r` by these nodes."""
    branch = "() => (float[2,3] r)"
    return f"""[{name}] {to} = If (c) <then_branch = {name}_t {branch} {{ {then} }},
        else_branch = {name}_e {branch} {{ {other} }}>"""


def conditional(reads: str) -> bytes:
    return around(either(f"r = Relu ({reads})", f"r = Abs ({reads})"))


def test_what_a_branch_reads_from_around_it_comes_before_it() -> None:
    """As one cluster Abs, Neg and Add would wait for the If, which waits for Abs."""
    report = ep_nnapi.check(conditional("a"))
    assert not together(report, "Abs", "Add")
    assert {n for c in report.clusters for n in c.nodes} >= {"Abs", "Neg", "Add"}
    (first,) = [c for c in report.clusters if "Abs" in c.nodes]
    assert "a" in first.outputs  # the branches read it, and nothing else outside
    for condition in (True, False):
        same(conditional("a"), {"x": X, "c": np.array(condition)})


def test_a_branch_that_reads_nothing_of_them_keeps_nothing_apart() -> None:
    report = ep_nnapi.check(conditional("x"))
    assert together(report, "Abs", "Neg", "Add")
    for condition in (True, False):
        same(conditional("x"), {"x": X, "c": np.array(condition)})


def looped(reads: str) -> bytes:
    """The same around a Loop, which adds `reads` to its variable each time."""
    body = f"""body (int64 n0, bool go, float[2,3] v) => (bool go2, float[2,3] v2) {{
        v2 = Add (v, {reads}) go2 = Identity (go) }}"""
    return around(f"[Loop] i = Loop (n, , x) <body = {body}>", "int64 n, float[2,3] x")


@pytest.mark.parametrize(("reads", "apart"), [("a", True), ("x", False)])
def test_what_a_loop_reads_from_around_it_comes_before_it(reads: str, apart: bool) -> None:
    report = ep_nnapi.check(looped(reads))
    assert together(report, "Abs", "Add") != apart
    same(looped(reads), {"x": X, "n": np.array(3)})


def test_what_a_branch_in_a_branch_reads_comes_before_the_outer_one() -> None:
    """Only the inner If reads a."""
    inner = either("r = Relu (a)", "r = Abs (x)", "Inner", to="r")
    data = around(either(inner, "r = Abs (x)"))
    assert not together(ep_nnapi.check(data), "Abs", "Add")
    same(data, {"x": X, "c": np.array(True)})
