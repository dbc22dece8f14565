"""INT64 values as INT32, with ranges that the user states."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from ep_nnapi.nnapi.errors import OptionError
from ep_nnapi.rewriting import int64
from tests import onnx_graph
from tests.rewriting.equality import same, types

INT64, FLOAT, BOOL = TensorProto.INT64, TensorProto.FLOAT, TensorProto.BOOL
IDS = np.array([[3, -1, 0], [2**31 - 1, -(2**31), 7]])


def model_of(
    text: str,
    inputs: Mapping[str, int],
    outputs: Mapping[str, int],
    **constants: np.ndarray,
) -> onnx.ModelProto:
    """A model whose inputs are [2, 3]; nodes have the names of their outputs."""
    nodes = onnx_graph.nodes_of(text)
    for node in nodes:
        node.name = node.output[0]
    of = onnx_graph.typed
    ends = {n: of(t, (2, 3)) for n, t in inputs.items()}, {n: of(t) for n, t in outputs.items()}
    made = onnx_graph.model_of(nodes, *ends, constants, 21, domains={"my.domain": 21})
    return onnx.shape_inference.infer_shapes(made)


MASK = "u = Unsqueeze (m, axis) s = Sub (one, u) y = Cast <to = 1> (s)"
AXIS, ONE = np.array([1]), np.array(1)


def test_a_mask_is_int32_from_its_input_on():
    """What reads a converted node's result is converted with it."""
    model = model_of(MASK, {"m": INT64}, {"y": FLOAT}, axis=AXIS, one=ONE)
    found = int64.int64_as_int32(model, {"u"}, {"m", "u", "s", "one"})
    assert types(found) == ["Cast", "Unsqueeze", "Sub", "Cast"]
    assert [n.input[0] for n in found.graph.node] == ["m", "m/int32", "one/int32", "s/int32"]
    same(model, found, {"m": IDS // 2})


def test_conversion_ends_where_numbers_may_not_fit():
    model = model_of(MASK, {"m": INT64}, {"y": FLOAT}, axis=AXIS, one=ONE)
    found = int64.int64_as_int32(model, {"u"}, {"m", "u", "one"})
    assert types(found) == ["Cast", "Unsqueeze", "Cast", "Sub", "Cast"]
    same(model, found, {"m": IDS})
    assert int64.int64_as_int32(model, {"u"}, {"u", "s", "one"}) is None  # the input may not fit


def test_only_named_nodes_begin():
    model = model_of(MASK, {"m": INT64}, {"y": FLOAT}, axis=AXIS, one=ONE)
    assert int64.int64_as_int32(model, {"elsewhere"}, {"m", "u", "s", "one"}) is None


def test_outputs_of_the_model_stay_int64():
    model = model_of("y = Add (m, m)", {"m": INT64}, {"y": INT64})
    found = int64.int64_as_int32(model, {"y"}, {"m", "y"})
    assert types(found) == ["Cast", "Add", "Cast"]
    same(model, found, {"m": IDS // 2})


def test_an_index_always_fits():
    table = np.arange(10, dtype=np.float32)
    model = model_of("y = Gather (t, m)", {"m": INT64}, {"y": FLOAT}, t=table)
    found = int64.int64_as_int32(model, {"y"}, set())
    assert types(found) == ["Cast", "Gather"]
    same(model, found, {"m": np.array([[0, 9, -10], [-1, 5, 2]])})


def test_data_of_a_gather_is_converted_apart_from_its_indexes():
    model = model_of("y = Gather (t, m)", {"m": INT64}, {"y": INT64}, t=np.array([1, 2**40]))
    found = int64.int64_as_int32(model, {"y"}, {"m"})
    assert found.graph.node[-1].input[:] == ["t", "m/int32"]
    same(model, found, {"m": IDS * 0})


@pytest.mark.parametrize("op_type", ["Reshape", "Expand"])
def test_shapes_have_to_be_int64(op_type: str):
    text = f"row = Gather (m, zero) shape = Abs (row) y = {op_type} (x, shape)"
    model = model_of(text, {"m": INT64, "x": FLOAT}, {"y": FLOAT}, zero=np.array(0))
    found = int64.int64_as_int32(model, {"row"}, {"m", "row", "shape"})
    assert [n.input[1] for n in found.graph.node if n.op_type == op_type] == ["shape"]
    x = np.ones((2, 3), np.float32)
    same(model, found, {"m": np.array([[1, 2, 3], [0, 0, 0]]), "x": x})


def test_a_cast_to_int64_becomes_one_to_int32():
    model = model_of(
        "wide = Cast <to = 7> (b) y = Mul (wide, one)", {"b": BOOL}, {"y": INT64}, one=ONE
    )
    found = int64.int64_as_int32(model, {"wide"}, {"wide", "y", "one"})
    assert types(found) == ["Cast", "Mul", "Cast"]
    same(model, found, {"b": np.array([[True, False, True]] * 2)})


def test_operators_that_nobody_defines_stay():
    model = model_of("y = my.domain.Own (m)", {"m": INT64}, {"y": INT64})
    assert int64.int64_as_int32(model, {"y"}, {"m", "y"}) is None


INPUTS = {"m": INT64, "x": FLOAT, "n": TensorProto.INT32}
MODEL = model_of(MASK, INPUTS, {"y": FLOAT}, axis=AXIS, one=ONE)
RUNS = [{"m": np.array([3, 5]), "x": np.array([9.0])}, {"m": np.array([-1])}]


def test_inputs_that_callers_give_as_int64():
    assert int64.int64_inputs(MODEL) == ["m"]
    MODEL.graph.input.append(helper.make_tensor_value_info("one", INT64, []))
    assert int64.int64_inputs(MODEL) == ["m"]  # an old file lists its constants as inputs too


@pytest.mark.parametrize("limits", [(0, 0), (-(2**31), 2**31 - 1)])
def test_ranges_within_int32(limits: tuple[int, int]):
    int64.check_ranges(MODEL, {"m": limits})


@pytest.mark.parametrize("limits", [(1, 0), (-(2**31) - 1, 0), (0, 2**31)])
def test_ranges_that_are_none(limits: tuple[int, int]):
    with pytest.raises(OptionError, match=f"range of m is {limits[0]}:{limits[1]}; it must be LOW"):
        int64.check_ranges(MODEL, {"m": limits})


@pytest.mark.parametrize("name", ["x", "n", "none"])
def test_ranges_of_other_inputs(name: str):
    with pytest.raises(OptionError, match=f"no INT64 input '{name}'; it has m"):
        int64.check_ranges(MODEL, {name: (0, 1)})


def test_ranges_of_given_inputs():
    assert int64.observed_ranges(RUNS) == {"m": (-1, 5)}
    assert int64.observed_ranges([{"m": np.zeros(0, np.int64)}]) == {}


def test_given_inputs_are_taken_if_they_are_inside(tmp_path: Path):
    files = ("m.npy",)
    assert int64.inputs_in_range(RUNS, files, {"m": (-1, 5)}, tmp_path) == files
    for outside in ((0, 5), (-1, 4)):
        with pytest.raises(OptionError, match=r"the given m has elements from -1 to 5, outside"):
            int64.inputs_in_range(RUNS, files, {"m": outside}, tmp_path)


def test_random_inputs_are_drawn_from_the_whole_range(tmp_path: Path):
    runs = [{"m": np.zeros((40, 5), np.int64), "x": np.ones(2, np.float32)}]
    (path,) = int64.inputs_in_range(runs, (), {"m": (-2, 2)}, tmp_path)
    with np.load(path) as drawn:
        assert set(drawn["m"].ravel()) == {-2, -1, 0, 1, 2}
        assert drawn["m"].shape == (40, 5)
        np.testing.assert_array_equal(drawn["x"], runs[0]["x"])
