"""Seeded inputs for any model of the zoo."""

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto

Array = npt.NDArray[np.generic]


def sample_inputs(model: onnx.ModelProto, seed: int = 0, **dims: int) -> dict[str, Array]:
    """Seeded inputs for `model`; `dims` are its symbolic dimensions (batch 1, others 64 if absent).

    Floats of rank 4 are like images, other floats are normally distributed; integers that index a
    table of the model are below its length, others 0 or 1.
    """
    rng = np.random.default_rng(seed)
    defaults = {"batch": 1} | dims
    below = table_lengths(model)
    samples: dict[str, Array] = {}
    for value in model.graph.input:
        tensor = value.type.tensor_type
        shape = [dim.dim_value or defaults.get(dim.dim_param, 64) for dim in tensor.shape.dim]
        if tensor.elem_type == TensorProto.INT64:
            samples[value.name] = rng.integers(0, below.get(value.name, 2), shape)
        elif len(shape) == 4:
            samples[value.name] = picture(rng, shape)
        else:
            samples[value.name] = rng.standard_normal(shape, np.float32)
    return samples


def table_lengths(model: onnx.ModelProto) -> dict[str, int]:
    """Number of rows of the table that each value indexes, by the name of the value."""
    rows = {weight.name: weight.dims[0] for weight in model.graph.initializer if weight.dims}
    gathers = (node for node in model.graph.node if node.op_type == "Gather")
    return {node.input[1]: rows[node.input[0]] for node in gathers if node.input[0] in rows}


def picture(rng: np.random.Generator, shape: list[int]) -> npt.NDArray[np.float32]:
    """Patches of all scales [N, C, H, W], as many of each, as pictures have; variance about 1."""
    n, c, h, w = shape
    image = rng.standard_normal((n, c, h, w), np.float32) * np.float32(0.1)
    for cells in (1, 2, 4, 8):
        patches = rng.standard_normal((n, c, cells, cells), np.float32) * np.float32(0.5)
        rows, columns = (np.arange(side) * cells // side for side in (h, w))
        image += patches[:, :, rows[:, None], columns]
    return image
