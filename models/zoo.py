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
from collections.abc import Callable
from math import prod
from pathlib import Path

import onnx
from onnx import TensorProto

from models import audio, classic, dense_vision, detection, mobile, text
from models.samples import sample_inputs
from models.sizes import ANY, Recipe

__all__ = ["MODELS", "parameters", "sample_inputs", "write"]

BATCH = frozenset({"batch"})


def multiples(step: int) -> range:
    """All sizes that divide by `step`."""
    return ANY[step - 1 :: step]


MODELS: dict[str, Callable[..., onnx.ModelProto]] = {
    "mobilenet_v1": Recipe(mobile.mobilenet_v1, 224),
    "mobilenet_v2": Recipe(mobile.mobilenet_v2, 224),
    "mobilenet_v3_large": Recipe(mobile.mobilenet_v3_large, 224),
    "efficientnet_lite0": Recipe(mobile.efficientnet_lite0, 224),
    "resnet18": Recipe(classic.resnet18, 224),
    "resnet50": Recipe(classic.resnet50, 224),
    "squeezenet1_1": Recipe(classic.squeezenet1_1, 224, sizes=ANY[16:]),
    "vgg_small": Recipe(classic.vgg_small, 64, BATCH, multiples(8)),
    "mlp": Recipe(classic.mlp, 784, BATCH),
    "espcn": Recipe(dense_vision.espcn, 224),
    "segmentation": Recipe(dense_vision.segmentation, 256, sizes=multiples(16)),
    "detector": Recipe(detection.detector, 320, BATCH, multiples(32)),
    "detector_roialign": Recipe(
        detection.detector_roialign, 320, frozenset(), multiples(16), range(1, 2)
    ),
    "kws_dscnn": Recipe(audio.kws_dscnn, 49, BATCH),
    "denoiser": Recipe(audio.denoiser, 16),
    "denoiser_lstm": Recipe(audio.denoiser_lstm, 16),
    "transformer_encoder": Recipe(
        text.transformer_encoder, 128, sizes=range(1, text.POSITIONS + 1)
    ),
}


def parameters(model: onnx.ModelProto) -> int:
    """How many numbers training would change: float initializers, without batch norm's statistics.

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
    if not arguments:
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
