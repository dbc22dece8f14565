"""Quantized models, as ONNX Runtime's own tools make them.

Static ones are in QDQ form, calibrated on samples. In dynamic ones products are of integers, with
scales that a run finds.
"""

import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

from models.recipes import MODELS
from models.samples import Array, sample_inputs

DIRECTORY = Path(__file__).parent
SCHEMES = ("u8u8", "u8s8", "s8s8")  # static: activations, then weights
DYNAMIC = "dynamic"  # weights are int8
SEEDS = range(1000, 1008)  # of the calibration samples
Feed = dict[str, Array]


class Feeds:
    """Hands samples to ONNX Runtime's calibration, one by one: its CalibrationDataReader."""

    def __init__(self, feeds: Iterable[Feed]) -> None:
        self._feeds = iter(feeds)

    def get_next(self) -> Feed | None:
        """The next sample; None at the end."""
        return next(self._feeds, None)


def quantized(
    name: str, scheme: str, *, batch: int = 1, size: int | None = None, seed: int = 0
) -> onnx.ModelProto:
    """The zoo's model `name`, or "digits" as it is, quantized.

    `scheme` names the types of activations and weights in QDQ form: "u8u8" is per tensor
    throughout, "u8s8" and "s8s8" have weights per channel; or it is "dynamic". Batch norm is folded
    first, as ONNX Runtime advises. Raises ValueError for a name or scheme that does not exist.
    """
    if scheme not in (*SCHEMES, DYNAMIC):
        names = ", ".join((*SCHEMES, DYNAMIC))
        raise ValueError(f"no scheme is called {scheme!r}; there are {names}")
    if name == "digits":
        return quantize(onnx.load(DIRECTORY / "digits.onnx"), scheme, digit_feeds())
    if name not in MODELS:
        raise ValueError(f"no model is called {name!r}; there are digits, {', '.join(MODELS)}")
    model = MODELS[name](batch=batch, size=size, seed=seed)
    return quantize(model, scheme, (sample_inputs(model, each) for each in SEEDS))


def digit_feeds() -> list[Feed]:
    """The handwritten digits that ship for calibration."""
    with np.load(DIRECTORY / "digits" / "calibration.npz") as samples:
        return [{"image": image[None]} for image in samples["images"]]


def quantize(model: onnx.ModelProto, scheme: str, feeds: Iterable[Feed]) -> onnx.ModelProto:
    """`model` quantized; static ranges are the least and largest values seen with `feeds`.

    ONNX Runtime's quantizer is imported only here: with an old onnx or onnxruntime it needs
    ml_dtypes or sympy, which nothing else here does.
    """
    from onnxruntime.quantization import QuantType, quantize_dynamic, quantize_static

    types = {"u8": QuantType.QUInt8, "s8": QuantType.QInt8}
    with tempfile.TemporaryDirectory() as directory:
        folded, finished = Path(directory, "folded.onnx"), Path(directory, "quantized.onnx")
        onnx.save(with_flat_biases(optimized(model, folded)), folded)
        if scheme == DYNAMIC:
            quantize_dynamic(folded, finished, weight_type=QuantType.QInt8)
        else:
            quantize_static(
                folded,
                finished,
                Feeds(feeds),
                per_channel=scheme != "u8u8",
                activation_type=types[scheme[:2]],
                weight_type=types[scheme[2:]],
            )
        return with_used_opsets(onnx.load(finished))


def optimized(model: onnx.ModelProto, path: Path) -> onnx.ModelProto:
    """`model` after ONNX Runtime's basic optimization, which folds batch norm; written to `path`.

    Its quantizer's own pre-processing does the same, but in 1.25 it drops the folded model.
    """
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(path)
    onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    folded = onnx.load(path)
    folded.metadata_props.add(key="onnx.quant.pre_process", value="onnxruntime.quant")
    return folded


def with_flat_biases(model: onnx.ModelProto) -> onnx.ModelProto:
    """`model` with each Gemm's bias [1, N] as [N], all that per-channel quantization can read."""
    gemms = (node for node in model.graph.node if node.op_type == "Gemm")
    biases = {name for node in gemms for name in node.input[2:]}
    for weight in model.graph.initializer:
        if weight.name in biases and len(weight.dims) == 2 and weight.dims[0] == 1:
            del weight.dims[0]
    return model


def with_used_opsets(model: onnx.ModelProto) -> onnx.ModelProto:
    """`model` without the opsets that ONNX Runtime's optimizer lists but no node uses."""
    used = {node.domain for node in model.graph.node}
    opsets = [opset for opset in model.opset_import if opset.domain in used]
    del model.opset_import[:]
    model.opset_import.extend(opsets)
    return model
