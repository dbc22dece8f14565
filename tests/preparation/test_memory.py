"""Memory that preparing a model takes: at most twice its weights, in every format."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from tests.onnx_graph import model_of
from tests.programs import python

LAYERS = 8
PROGRAM = """
import resource, sys, ep_nnapi
done = ep_nnapi.prepare(sys.argv[1], sys.argv[2], format=sys.argv[3])
assert not done.models[0].error, done.models[0].error
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def products(path: Path, side: int) -> Path:
    """A model of several products of matrices, whose weights are in a file beside it."""
    rng = np.random.default_rng(0)
    weights = {f"w{i}": np.empty((side, side), np.float32) for i in range(LAYERS)}
    nodes = []
    for i, array in enumerate(weights.values()):
        array[:] = rng.uniform(-1, 1, side)[:, None] / side
        nodes += [
            helper.make_node("MatMul", [f"r{i}" if i else "x", f"w{i}"], [f"m{i}"]),
            helper.make_node("Relu", [f"m{i}"], [f"r{i + 1}"]),
        ]
    ends = {"x": (np.float32, (1, side))}, {f"r{LAYERS}": None}
    model = model_of(nodes, *ends, weights, 17, ir_version=9)
    onnx.save_model(model, path, save_as_external_data=True, location=f"{path.stem}.data")
    return path


def peak(model: Path, form: str) -> int:
    """Bytes of the largest process that preparing takes."""
    return int(python(PROGRAM, model, model.parent / form, form).stdout) * 1024


@pytest.mark.long
@pytest.mark.skipif(
    tuple(map(int, onnxruntime.__version__.split(".")[:2])) < (1, 26),
    reason="ONNX Runtime copies the weights of .ort files",
)
@pytest.mark.parametrize("form", ["ort", "onnx", "context", "tflite"])
def test_memory_is_twice_that_of_the_weights(form: str, tmp_path: Path) -> None:
    """One copy is ONNX Runtime's or a file that is mapped, one is the device's or is written."""
    if form == "tflite":
        pytest.importorskip("ai_edge_litert")
    side, weight = 2048, 2048 * 2048 * 4
    for folder in ("small", "large"):
        (tmp_path / folder).mkdir()
    small = peak(products(tmp_path / "small" / "a.onnx", 64), form)
    large = peak(products(tmp_path / "large" / "a.onnx", side), form)
    spare = 2 * weight  # a matrix while it is copied, and memory that allocators keep
    assert large - small <= 2 * LAYERS * weight + spare, (large, small)
