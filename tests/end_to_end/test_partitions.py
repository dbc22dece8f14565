"""The zoo's partitions: legal whatever a device declines, right, and worth it where that is asked.

Declined are every 2nd, 5th, 10th or 20th of the nodes that would be taken (QDQ groups as one).
"""

import numpy as np
import onnx
import pytest

import ep_nnapi
from ep_nnapi.sessions.cpu import session_of
from models import zoo
from partitioner import violations, worth_it
from tests.end_to_end import quantized as q
from tests.end_to_end import test_quantized, test_zoo
from tests.end_to_end.test_zoo import CLOSE
from tests.faulty import installed
from tests.ort.models import model, node, tensor
from tests.partitions import Partition, declining, partitions_of

EVERY = [2, 5, 10, 20]
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
    nodes = [
        node("Conv", "x w", "a", name="Conv", pads=[1, 1, 1, 1]),
        node("Tanh", "a", "b", name="Tanh"),
        node("Relu", "b", "y", name="Relu"),
    ]
    shape = (1, 64, 56, 56)
    data = model(nodes, [tensor("x", shape)], [tensor("y", shape)], {"w": weights})
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
