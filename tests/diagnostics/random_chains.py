"""Random float32 networks in which an error of any node shows in the outputs."""

import random

import numpy as np
import onnx
from onnx import helper

from tests.onnx_graph import model_of

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
    weights: dict[str, np.ndarray] = {}
    values = ["x"]
    for i in range(draw.randint(2, 9)):
        op_type = draw.choice((*UNARY, *BINARY, *WINDOWED))
        inputs = [values[-1]]
        if op_type in BINARY:
            inputs.append(draw.choice(values))
        if op_type == "Conv":
            inputs.append(f"w{i}")
            weights[f"w{i}"] = rng.standard_normal((4, 4, 3, 3)).astype(np.float32) / 6
        window = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]} if op_type in WINDOWED else {}
        nodes.append(helper.make_node(op_type, inputs, [f"v{i}"], f"n{i}", **window))
        values.append(f"v{i}")
    read = {name for node in nodes for name in node.input}
    ends = [v for v in values[1:] if v not in read]
    return model_of(nodes, {"x": SHAPE}, dict.fromkeys(ends, SHAPE), weights, opset=18)
