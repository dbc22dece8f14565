"""Batch norm's running statistics, as training would leave them: those of the data at hand."""

from itertools import chain

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from onnx import NodeProto, helper

from models.samples import sample_inputs

Statistics = dict[str, npt.NDArray[np.float32]]


def measured(model: onnx.ModelProto) -> Statistics:
    """Mean and variance of what reaches each BatchNormalization of `model`, by initializer.

    They are measured on sample inputs, each layer after all before it are normalised.
    """
    nodes = list(model.graph.node)
    norms = [index for index, node in enumerate(nodes) if node.op_type == "BatchNormalization"]
    if not norms:
        return {}
    statistics = [name for index in norms for name in nodes[index].input[3:5]]
    prefix = onnx.ModelProto()
    prefix.CopyFrom(model)
    graph = prefix.graph
    del graph.node[:], graph.output[:]
    graph.node.extend(chain.from_iterable(measuring(node) for node in nodes[: norms[-1] + 1]))
    weights = [weight for weight in graph.initializer if weight.name not in statistics]
    del graph.initializer[:]
    graph.initializer.extend(weights)
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in statistics)
    return dict(zip(statistics, run(prefix, statistics), strict=True))


def measuring(node: NodeProto) -> list[NodeProto]:
    """`node`, and before a BatchNormalization those that compute its mean and variance."""
    if node.op_type != "BatchNormalization":
        return [node]
    x, (mean, variance) = node.input[0], node.input[3:5]
    square, of_squares, of_mean = (f"{node.name}_{part}" for part in ("square", "power", "offset"))
    return [
        helper.make_node("ReduceMean", [x], [mean], axes=(0, 2, 3), keepdims=0),
        helper.make_node("Mul", [x, x], [square]),
        helper.make_node("ReduceMean", [square], [of_squares], axes=(0, 2, 3), keepdims=0),
        helper.make_node("Mul", [mean, mean], [of_mean]),
        helper.make_node("Sub", [of_squares, of_mean], [variance]),
        node,
    ]


def run(model: onnx.ModelProto, outputs: list[str]) -> list[npt.NDArray[np.float32]]:
    """Outputs of ONNX Runtime for sample inputs; one thread, so that sums keep their order."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # no warnings that weights behind the last norm are unused
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    results: list[npt.NDArray[np.float32]] = session.run(outputs, sample_inputs(model))
    return results
