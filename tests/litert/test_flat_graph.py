"""Flatbuffers: what is written is what LiteRT's own schema reads."""

import numpy as np
import pytest

from ep_nnapi.litert.flat_graph import FlatGraph
from ep_nnapi.litert.flat_operator import FlatTensor, Parameters
from ep_nnapi.litert.library import load
from ep_nnapi.litert.package import schema
from ep_nnapi.ort_devices.graph import Inexpressible
from tests.litert.needs import LITERT

F = np.dtype(np.float32)


def relu_of_sum() -> tuple[FlatGraph, dict[str, int], dict[str, int]]:
    """Adds one to an input x [2], y is the larger of that and 0."""
    graph = FlatGraph()
    x, y = graph.tensor(FlatTensor(F, (2,)), "x"), graph.tensor(FlatTensor(F, (2,)), "y")
    one = graph.array(np.array([1], np.float32))
    graph.operator("ADD", [x, one], [y], {"fusedActivationFunction": 1})
    return graph, {"x": x}, {"y": y}


@LITERT
def test_a_model_runs() -> None:
    graph, inputs, outputs = relu_of_sum()
    found = load(graph.build(inputs, outputs)).run({"x": np.array([-3, 2], np.float32)})
    assert found["y"].tolist() == [0.0, 3.0]


@LITERT
def test_the_schema_reads_what_was_written() -> None:
    graph = FlatGraph()
    x = graph.tensor(FlatTensor(np.dtype(np.int8), (1, 2), Parameters((0.5, 0.25), 0, 1)), "x")
    y = graph.tensor(FlatTensor(F, (1, 2)), "y")
    graph.operator("DEQUANTIZE", [x], [y])
    made = schema().ModelT.InitFromPackedBuf(graph.build({"x": x}, {"y": y}), 0)
    assert (made.version, made.operatorCodes[0].version) == (3, 5)
    tensor = made.subgraphs[0].tensors[0]
    assert (tensor.name, tensor.shape.tolist()) == (b"x", [1, 2])
    assert tensor.quantization.scale.tolist() == [0.5, 0.25]
    assert tensor.quantization.quantizedDimension == 1


def test_equal_constants_are_one_tensor() -> None:
    graph = FlatGraph()
    assert graph.ints([1, 2]) == graph.ints((1, 2))
    assert graph.ints([1, 2]) != graph.ints([2, 1])


def test_types_that_litert_does_not_compute_are_refused() -> None:
    with pytest.raises(Inexpressible, match="LiteRT has no kernels for complex64"):
        FlatGraph().tensor(FlatTensor(np.dtype(np.complex64), (1,)))


@LITERT
def test_a_misspelt_option_is_a_defect() -> None:
    graph = FlatGraph()
    x = graph.tensor(FlatTensor(F, (1,)))
    graph.operator("ADD", [x, x], [graph.tensor(FlatTensor(F, (1,)))], {"activation": 1})
    with pytest.raises(ValueError, match="AddOptionsT has no field activation"):
        graph.build({"x": x}, {"y": 1})
