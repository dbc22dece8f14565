"""Costs of nodes, and the default model of a phone."""

from dataclasses import replace

from ep_nnapi.costs.cost_model import PHONE, Rates
from ep_nnapi.costs.work import CostClass
from tests.onnx_graph import graph_of
from tests.oracle import f32, node


def test_time_is_the_sum_of_what_is_counted():
    rates = Rates(1.0, 0.5, {**dict.fromkeys(CostClass, 9.0), CostClass.OTHER: 0.25})
    add = graph_of(node("Add", f32(2, 3), f32(2, 3)).model).nodes[0]
    assert rates.time(add) == 1 + 0.5 * 3 * 6 * 4 + 0.25 * 6


def test_a_phone_takes_a_lone_convolution_from_12_million_multiply_accumulates_on():
    """As the description of the default model says; its tensors have less than 0.2 MB."""

    def saved(channels: int) -> float:
        conv = node("Conv", f32(1, channels, 26, 26), f32(channels, channels, 3, 3))
        found = graph_of(conv.model).nodes[0]
        costs = replace(PHONE, per_byte=0.0).costs([found])
        return costs.here[found.id] - costs.there[found.id] - costs.per_cluster

    assert saved(48) < 0 < saved(50)  # 11.9 and 13.0 million
