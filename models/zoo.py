"""The zoo: whole networks at their published shapes, with seeded weights.

    python -m models.zoo DIRECTORY [NAME ...]

writes them as files. The weights are random, so the answers mean nothing; shapes, operators,
numbers of parameters and the range of the activations are those of the real networks.

>>> model = MODELS["mobilenet_v2"](size=96, dynamic=["batch"])
>>> sample_inputs(model, batch=2)["image"].shape
(2, 3, 96, 96)
"""

import sys
import tempfile
from math import prod
from pathlib import Path

import onnx
from onnx import TensorProto

from models.quantized import quantized
from models.recipes import MODELS
from models.samples import sample_inputs

__all__ = ["MODELS", "parameters", "quantized", "sample_inputs", "write"]


def parameters(model: onnx.ModelProto) -> int:
    """Number of trainable parameters: float initializers, without batch norm's statistics.

    Float initializers of rank 0 are constants, not parameters.
    """
    norms = (node for node in model.graph.node if node.op_type == "BatchNormalization")
    statistics = {name for node in norms for name in node.input[3:]}
    return sum(
        prod(weight.dims)
        for weight in model.graph.initializer
        if weight.data_type == TensorProto.FLOAT and weight.dims and weight.name not in statistics
    )


def write(directory: Path, names: list[str]) -> None:
    """Writes the named models to `directory`, all of them or, should one fail, none."""
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory, prefix=".zoo-") as unfinished:
        for name in names:
            model = MODELS[name]()
            path = Path(unfinished, f"{name}.onnx")
            onnx.save(model, path)
            size = path.stat().st_size / 1e6
            nodes, weights = len(model.graph.node), parameters(model)
            print(f"{name:20} {nodes:4} nodes {weights:11,} parameters {size:6.1f} MB")
        for name in names:
            Path(unfinished, f"{name}.onnx").replace(directory / f"{name}.onnx")


def main(arguments: list[str]) -> int:
    """The command line: 0 when the files are there, 2 for arguments that cannot be."""
    if not arguments or arguments[0].startswith("-"):
        print("usage: python -m models.zoo DIRECTORY [NAME ...]", file=sys.stderr)
        return 2
    directory, *names = arguments
    if unknown := [name for name in names if name not in MODELS]:
        print(f"no model is called {unknown[0]!r}; there are {', '.join(MODELS)}", file=sys.stderr)
        return 2
    try:
        write(Path(directory), names or list(MODELS))
    except OSError as error:
        print(f"cannot write to {directory}: {error.strerror}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
