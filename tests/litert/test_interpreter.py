"""Flatbuffers in LiteRT's interpreter: errors are one sentence, results are copies."""

import numpy as np
import pytest

from ep_nnapi.litert.interpreter import load
from ep_nnapi.nnapi.errors import ModelError
from tests.litert.needs import LITERT
from tests.litert.test_flat_graph import relu_of_sum

pytestmark = LITERT


def test_from_bytes_and_files(tmp_path) -> None:
    graph, inputs, outputs = relu_of_sum()
    made = graph.build(inputs, outputs)
    path = tmp_path / "m.tflite"
    path.write_bytes(made)
    for given in (made, bytes(made), path):
        found = load(given)
        assert found.inputs == ("x",)
        assert found.run({"x": np.array([0, 1], np.float32)})["y"].tolist() == [1.0, 2.0]


def test_results_survive_the_next_run() -> None:
    found = load(relu_of_sum()[0].build(*relu_of_sum()[1:]))
    first = found.run({"x": np.array([0, 1], np.float32)})["y"]
    found.run({"x": np.array([5, 5], np.float32)})
    assert first.tolist() == [1.0, 2.0]


def test_what_is_no_flatbuffer_is_refused() -> None:
    with pytest.raises(ModelError, match="LiteRT does not load it"):
        load(b"no flatbuffer")


def test_inputs_of_another_type_are_refused() -> None:
    found = load(relu_of_sum()[0].build(*relu_of_sum()[1:]))
    with pytest.raises(ModelError, match="LiteRT cannot run it"):
        found.run({"x": np.array([0, 1], np.int32)})
