"""Networks of the zoo by name: `mlp` in float, `mlp:u8s8` quantized, `mlp:dynamic`."""

import os
from collections.abc import Sequence

import onnx

from models.quantized import DYNAMIC, SCHEMES
from models.zoo import MODELS

_FORMS = (*SCHEMES, DYNAMIC)
ALL = (*MODELS, *(f"{name}:{form}" for form in _FORMS for name in ("digits", *MODELS)))


def network(name: str) -> onnx.ModelProto:
    """The model of that name; skips where ONNX Runtime's quantizer cannot be imported."""
    base, _, scheme = name.partition(":")
    if not scheme:
        return MODELS[base]()
    from tests.end_to_end.test_quantized import built

    return built(base, scheme)


def chosen(few: Sequence[str]) -> Sequence[str]:
    """These, or with EP_NNAPI_NETWORKS=all in the environment all of them."""
    return ALL if os.environ.get("EP_NNAPI_NETWORKS") == "all" else few
