"""Random float32 networks in which an error of any node shows in the outputs."""

from __future__ import annotations

import random

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SHAPE = (1, 4, 6, 6)
UNARY = ("Tanh", "Sigmoid", "Abs", "LeakyRelu", "Elu", "HardSwish", "Softmax", "Relu")
BINARY = ("Add", "Mul")  # no differences: one that is zero throughout hides all errors before it
WINDOWED = ("Conv", "AveragePool")


def network(seed: int) -> onnx.ModelProto:
    """Nodes n0, n1 ... of x; each reads the last value, or the last and an earlier one.

    Values that no node reads are outputs.
    """
    draw, rng = random.Random(seed), np.random.default_rng(seed)
    nodes: list[onnx.NodeProto] = []
    tensors: list[onnx.TensorProto] = []
    values = ["x"]
    for i in range(draw.randint(2, 9)):
        op_type = draw.choice((*UNARY, *BINARY, *WINDOWED))
        inputs = [values[-1]]
        if op_type in BINARY:
            inputs.append(draw.choice(values))
        if op_type == "Conv":
            inputs.append(f"w{i}")
            weights = rng.standard_normal((4, 4, 3, 3)).astype(np.float32) / 6
            tensors.append(numpy_helper.from_array(weights, f"w{i}"))
        window = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]} if op_type in WINDOWED else {}
        nodes.append(helper.make_node(op_type, inputs, [f"v{i}"], f"n{i}", **window))
        values.append(f"v{i}")
    read = {name for node in nodes for name in node.input}
    ends = [v for v in values[1:] if v not in read]
    graph = helper.make_graph(
        nodes,
        "random",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info(v, TensorProto.FLOAT, SHAPE) for v in ends],
        tensors,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
