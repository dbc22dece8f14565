"""The cases of ONNX Runtime's own NNAPI tests (nnapi_basic_test.cc), built afresh.

Each says what ONNX Runtime's provider is assigned (ALL nodes, SOME or NONE); here it is the same or
more, and where it is more the test says so. Numbers are held against the CPU provider to its 1e-5,
unless the case has a tolerance of its own.
"""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnx import helper

import ep_nnapi
from ep_nnapi.options.table import parse
from ep_nnapi.options.target import NnapiFlag
from ep_nnapi.sessions.cpu import session_of
from tests.end_to_end.sessions import DIGITS, MNIST, quiet, without_mnist
from tests.end_to_end.small_models import Taken, close, drawn, model_of, node, taken


def test_reshape_and_flatten():
    """There SOME, of a model with Reshapes that it drops; here ALL."""
    nodes = [
        node("Flatten", "X", "x"),
        node("MatMul", "x w", "m"),
        node("Reshape", "m long", "a"),
        node("Reshape", "Y tall", "y"),
        node("Gemm", "y v c", "g"),
        node("Flatten", "g", "b", axis=0),
        node("Add", "a b", "Z"),
    ]
    constants = {
        "w": drawn(2, 3),
        "v": drawn(2, 1),
        "c": drawn(1),
        "long": np.array([1, 6]),
        "tall": np.array([6, 2]),
    }
    model = model_of(nodes, {"X": (2, 1, 2), "Y": (3, 2, 2)}, {"Z": (1, 6)}, constants)
    assert taken(model) is Taken.ALL
    close(model, {"X": drawn(2, 1, 2), "Y": drawn(3, 2, 2)})


def test_sigmoid_of_rank_5():
    """There NONE (5 dimensions are beyond NNAPI's 4); here ALL: they are folded, which is exact."""
    model = model_of([node("Sigmoid", "X", "Y")], {"X": (2, 1, 2, 1, 2)}, {"Y": (2, 1, 2, 1, 2)})
    assert taken(model) is Taken.ALL
    close(model, {"X": drawn(2, 1, 2, 1, 2)})


def dynamic() -> bytes:
    nodes = [
        node("Resize", "X  sizes", "r", mode="nearest", nearest_mode="floor"),
        node("Add", "r k", "Y"),
    ]
    nodes[0].input[:] = ["X", "", "", "sizes"]
    nodes[0].attribute.append(helper.make_attribute("coordinate_transformation_mode", "asymmetric"))
    constants = {"sizes": np.array([1, 1, 4, 4]), "k": drawn(1, 1, 4, 4)}
    return model_of(nodes, {"X": (1, 1, "N", "N")}, {"Y": (1, 1, 4, 4)}, constants)


def test_dynamic_input_off():
    """Exactly the Add, whose sizes are fixed, as there."""
    report = ep_nnapi.check(dynamic(), dynamic_shapes="off")
    assert [c.nodes for c in report.clusters] == [("Y",)]
    close(dynamic(), {"X": drawn(1, 1, 2, 2)}, dynamic_shapes="off")


def test_dynamic_input():
    """There one node; here the Resize is taken too, compiled for the sizes that come."""
    assert taken(dynamic()) is Taken.ALL
    for size in (2, 8):
        close(dynamic(), {"X": drawn(1, 1, size, size)})


def test_two_additions():
    """FunctionTest: ALL."""
    nodes = [node("Add", "X Y", "s"), node("Add", "s Z", "M")]
    shape = (1, 1, 3, 2)
    model = model_of(nodes, dict.fromkeys("XYZ", shape), {"M": shape})
    assert taken(model) is Taken.ALL
    close(model, {n: drawn(*shape) for n in "XYZ"})


def test_inputs_without_shape():
    """NONE, as there: nothing says how many dimensions there are."""
    model = model_of([node("Add", "X X", "Y")], {"X": None}, {"Y": None})
    assert taken(model) is Taken.NONE
    close(model, {"X": drawn(2, 3)})


def test_cast_like_of_a_constant():
    """There NONE; here CastLike is a cast, and what depends on constants alone is computed once."""
    nodes = [node("CastLike", "X like", "c"), node("CastLike", "c X", "Y")]
    model = model_of(nodes, {"X": (2, 3)}, {"Y": (2, 3)}, {"like": np.array([1], np.int32)})
    assert taken(model) is Taken.ALL
    close(model, {"X": drawn(2, 3, low=-9, high=9)})


@pytest.mark.parametrize("index", [np.array(1), np.array([1])], ids=["scalar", "one element"])
def test_gather(index: np.ndarray):
    """ALL: int64 indexes that are constant, as a scalar and as one element."""
    shape = (10, *index.shape, 5)
    model = model_of(
        [node("Gather", "X i", "Y", axis=1)], {"X": (10, 5, 5)}, {"Y": shape}, {"i": index}
    )
    assert taken(model) is Taken.ALL
    close(model, {"X": drawn(10, 5, 5)}, atol=0)


def test_flags():
    """NNAPIFlagsTest: USE_FP16 set is set, USE_NCHW is not."""
    flags = parse({"flags": "USE_FP16"}).lowering_target(8).flags
    assert NnapiFlag.USE_FP16 in flags
    assert NnapiFlag.USE_NCHW not in flags


@pytest.mark.parametrize("example", [DIGITS, pytest.param(MNIST, marks=without_mnist)])
def test_ort_format(example, tmp_path: Path):
    """There SOME of mnist.basic.ort; here ALL, of it and of the project's own model."""
    options, path = quiet(), tmp_path / "basic.ort"
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(path)
    options.add_session_config_entry("session.save_model_format", "ORT")
    session_of(str(example.path), options)
    assert taken(path.read_bytes()) is Taken.ALL
    # sums of float32 products in another order, of numbers up to the digits' brightness
    close(path.read_bytes(), {example.input: example.random(1)[0]}, atol=1e-5 * example.scale * 10)


@pytest.mark.parametrize("option", ["exclude", "partitioning_stop_ops"])
def test_activation_outside_of_the_cluster(option: str):
    """Exactly one node, as there: the Add does not swallow a Relu that is left to the CPU."""
    nodes = [node("Add", "X Y", "s"), node("Relu", "s", "Z")]
    shape = (1, 1, 3, 2)
    model = model_of(nodes, dict.fromkeys("XY", shape), {"Z": shape})
    report = ep_nnapi.check(model, **{option: "Relu"})
    assert [c.nodes for c in report.clusters] == [("s",)]
    close(model, {n: drawn(*shape) for n in "XY"}, **{option: "Relu"})
