"""Copies of nodes: their constants are copied too."""

import numpy as np

from ep_nnapi.graph.graph import copy_constants
from ep_nnapi.graph.value import Constant
from tests.onnx_graph import graph_of
from tests.provider.test_dynamic_cluster import SUM


def test_copied_constants_outlive_their_source():
    (add, _) = graph_of(SUM).nodes
    weights = np.ones(3, np.float32)
    inputs = [v for v in add.inputs if v is not None and v.constant is not None]
    assert len(inputs) == 1
    (copied, again) = copy_constants([add, add])
    constants = [
        v.constant for n in (copied, again) for v in n.inputs if v is not None and v.constant
    ]
    assert all(isinstance(c, Constant) for c in constants)
    assert constants[0] is constants[1]  # copied once
    np.testing.assert_array_equal(constants[0].array, weights)
    assert not np.shares_memory(constants[0].array, inputs[0].constant.array)
    (once_more,) = copy_constants([copied])
    assert constants[0] in [v.constant for v in once_more.inputs if v is not None]
    assert all(v is w for v, w in zip(once_more.inputs, copied.inputs, strict=True))
