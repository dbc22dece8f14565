"""The networks of the zoo by name, each with its published size and the sizes it can have."""

from collections.abc import Callable

import onnx

from models import audio, classic, dense_vision, detection, mobile, text
from models.sizes import ANY, Recipe

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
