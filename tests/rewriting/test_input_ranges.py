"""Ranges of inputs: at INT32's limits, just past them, and inputs that keep them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from ep_nnapi.nnapi.errors import OptionError
from ep_nnapi.rewriting.input_ranges import (
    check_ranges,
    inputs_in_range,
    int64_inputs,
    observed_ranges,
)
from tests.rewriting.test_int64 import FLOAT, INT64, MASK, model_of

MODEL = model_of(
    MASK, {"m": INT64, "x": FLOAT, "n": TensorProto.INT32}, {"y": FLOAT}, axis=np.array([1]),
    one=np.array(1),
)  # fmt: skip
RUNS = [{"m": np.array([3, 5]), "x": np.array([9.0])}, {"m": np.array([-1])}]


def test_inputs_that_callers_give_as_int64():
    assert int64_inputs(MODEL) == ["m"]
    MODEL.graph.input.append(helper.make_tensor_value_info("one", INT64, []))
    assert int64_inputs(MODEL) == ["m"]  # an old file lists its constants as inputs too


@pytest.mark.parametrize("limits", [(0, 0), (-(2**31), 2**31 - 1)])
def test_ranges_within_int32(limits: tuple[int, int]):
    check_ranges(MODEL, {"m": limits})


@pytest.mark.parametrize("limits", [(1, 0), (-(2**31) - 1, 0), (0, 2**31)])
def test_ranges_that_are_none(limits: tuple[int, int]):
    with pytest.raises(OptionError, match=f"range of m is {limits[0]}:{limits[1]}; it must be LOW"):
        check_ranges(MODEL, {"m": limits})


@pytest.mark.parametrize("name", ["x", "n", "none"])
def test_ranges_of_other_inputs(name: str):
    with pytest.raises(OptionError, match=f"no INT64 input '{name}'; it has m"):
        check_ranges(MODEL, {name: (0, 1)})


def test_ranges_of_given_inputs():
    assert observed_ranges(RUNS) == {"m": (-1, 5)}
    assert observed_ranges([{"m": np.zeros(0, np.int64)}]) == {}


def test_given_inputs_are_taken_if_they_are_inside(tmp_path: Path):
    files = ("m.npy",)
    assert inputs_in_range(RUNS, files, {"m": (-1, 5)}, tmp_path) == files
    for outside in ((0, 5), (-1, 4)):
        with pytest.raises(OptionError, match=r"the given m has elements from -1 to 5, outside"):
            inputs_in_range(RUNS, files, {"m": outside}, tmp_path)


def test_random_inputs_are_drawn_from_the_whole_range(tmp_path: Path):
    runs = [{"m": np.zeros((40, 5), np.int64), "x": np.ones(2, np.float32)}]
    (path,) = inputs_in_range(runs, (), {"m": (-2, 2)}, tmp_path)
    with np.load(path) as drawn:
        assert set(drawn["m"].ravel()) == {-2, -1, 0, 1, 2}
        assert drawn["m"].shape == (40, 5)
        np.testing.assert_array_equal(drawn["x"], runs[0]["x"])
