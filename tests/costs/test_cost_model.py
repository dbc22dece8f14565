"""The work of nodes and its cost."""

from dataclasses import replace

import numpy as np
import pytest

from ep_nnapi.costs.cost_model import (
    FUNCTIONS,
    MACS,
    PHONE,
    CostClass,
    Rates,
    Work,
    cost_class,
    work,
)
from ep_nnapi.operators import OPS
from ep_nnapi.quantization.propagate import propagate_quantization
from tests.end_to_end.quantized import Qdq
from tests.onnx_graph import graph_of
from tests.operators.test_packed import product
from tests.oracle import Case, f32, node

# 3 x 3 filters on 6 x 6 pictures make 4 x 4.
CASES = {
    "convolution": (
        node("Conv", f32(1, 8, 6, 6), f32(16, 8, 3, 3)),
        16 * 4 * 4 * 8 * 9,
        CostClass.CONVOLUTION,
    ),
    "in groups": (
        node("Conv", f32(1, 8, 6, 6), f32(8, 4, 3, 3), group=2),
        8 * 4 * 4 * 4 * 9,
        CostClass.CONVOLUTION,
    ),
    "depthwise": (
        node("Conv", f32(1, 8, 6, 6), f32(8, 1, 3, 3), group=8),
        8 * 4 * 4 * 9,
        CostClass.DEPTHWISE,
    ),
    "one channel": (
        node("Conv", f32(1, 1, 6, 6), f32(8, 1, 3, 3)),
        8 * 4 * 4 * 9,
        CostClass.CONVOLUTION,
    ),
    "transposed": (
        node("ConvTranspose", f32(1, 8, 4, 4), f32(8, 16, 3, 3)),
        8 * 4 * 4 * 16 * 9,
        CostClass.CONVOLUTION,
    ),
    "matrices": (node("MatMul", f32(2, 3, 4), f32(2, 4, 5)), 2 * 3 * 5 * 4, CostClass.PRODUCT),
    "packed weights": (product(64, 6), 2 * 3 * 6 * 64, CostClass.PRODUCT),
    "recurrent": (
        node("GRU", f32(7, 1, 4), f32(1, 15, 4), f32(1, 15, 5), hidden_size=5),
        7 * (15 * 4 + 15 * 5),
        CostClass.RECURRENT,
    ),
    "function": (node("Sigmoid", f32(2, 3)), 6, CostClass.FUNCTION),
    "arithmetic": (node("Add", f32(2, 3), f32(2, 3)), 6, CostClass.OTHER),
    "movement": (node("Transpose", f32(2, 3), perm=[1, 0]), 6, CostClass.OTHER),
    "unknown size": (node("Neg", f32("n", 3)), 3, CostClass.OTHER),
}


@pytest.mark.parametrize(("case", "macs", "family"), CASES.values(), ids=CASES)
def test_multiply_accumulates_and_family(case: Case, macs: int, family: CostClass):
    found = graph_of(case.model).nodes[0]
    assert (work(found).macs, cost_class(found)) == (macs, family)


def test_a_qdq_group_is_one_node_of_its_operator_in_8_bits():
    """4 x 8 by 8 x 5: a byte for each number, and what the constants of the scales take."""
    q = Qdq()
    x = q.input((4, 8), (0.1, 100))
    out = q.group("MatMul", [x, q.weights(np.ones((8, 5), np.uint8), 0.1)], (0.2, 90))
    (found,) = propagate_quantization(graph_of(q.model(out))).nodes
    assert (len(found.originals), cost_class(found)) == (4, CostClass.QUANTIZED)
    assert work(found) == Work(4 * 5 * 8, 4 * 8 + 8 * 5 + 4 * 5)


def test_bytes_of_tensors_and_weights():
    add = graph_of(node("Add", f32(2, 3), np.ones((1, 3), np.float32)).model).nodes[0]
    assert work(add) == Work(6, (6 + 6 + 3) * 4)


def test_every_operator_with_a_rate_of_its_own_can_be_taken():
    assert FUNCTIONS | set(MACS) <= {o.op_type for o in OPS}


# Costs of nodes, and the default model of a phone


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
