"""Models of ONNX Runtime's quantizer in all its formats: taken whole, or refused in one line."""

from pathlib import Path

import numpy as np
import onnx
import pytest

import ep_nnapi
from models import zoo
from models.quantized import Feeds, optimized, with_flat_biases
from tests.end_to_end import quantized as q
from tests.end_to_end.test_zoo import SMALL

quantizer = pytest.importorskip("onnxruntime.quantization", exc_type=ImportError)
pytest.importorskip("onnxruntime.quantization.quantize", exc_type=ImportError)

U8, S8, U16 = (getattr(quantizer.QuantType, f"Q{name}") for name in ("UInt8", "Int8", "UInt16"))
PAIRS = {"ActivationSymmetric": True, "AddQDQPairToWeight": True, "DedicatedQDQPair": True}
STATIC: dict[str, dict[str, object]] = {
    "operators u8s8": {"activation_type": U8, "weight_type": S8},
    "operators s8s8": {"activation_type": S8, "weight_type": S8, "per_channel": True},
    "pairs everywhere": {
        "activation_type": S8,
        "weight_type": S8,
        "extra_options": {**PAIRS, "QuantizeBias": False},
    },
    "pairs of com.microsoft": {
        "activation_type": U8,
        "weight_type": U8,
        "extra_options": {"UseQDQContribOps": True, "WeightSymmetric": False},
    },
}
SIXTEEN = {"activation_type": U16, "weight_type": S8, "extra_options": {"UseQDQContribOps": True}}
DYNAMIC: dict[str, dict[str, object]] = {
    "at run time": {},
    "at run time s8": {"weight_type": S8, "per_channel": True},
}
NETWORKS = [
    "mlp",
    *(pytest.param(n, marks=pytest.mark.long) for n in ("squeezenet1_1", "segmentation", "espcn")),
]
APART = 0.05
"""Of the largest result: what layers round otherwise, added up; no layer by more than a quantum."""


def written(name: str, folder: Path, static: bool, **options: object) -> onnx.ModelProto:
    """The network as the quantizer writes it, calibrated with what it is run on."""
    model = zoo.MODELS[name](size=SMALL.get(name))
    before, after = folder / "before.onnx", folder / "after.onnx"
    onnx.save(with_flat_biases(optimized(model, before)), before)
    if static:
        samples = Feeds(zoo.sample_inputs(model, seed) for seed in range(3))
        operators = "extra_options" not in options
        form = quantizer.QuantFormat.QOperator if operators else quantizer.QuantFormat.QDQ
        quantizer.quantize_static(before, after, samples, quant_format=form, **options)
    else:
        quantizer.quantize_dynamic(before, after, **options)
    return onnx.load(after)


def assert_taken(model: onnx.ModelProto) -> None:
    """All of it, in one cluster, with results as close as many layers' rounding lets them be."""
    report = ep_nnapi.check(model.SerializeToString())
    assert not report.rejections
    assert len(report.clusters) == 1
    feeds = zoo.sample_inputs(model)
    for got, want in zip(q.on_nnapi(model, feeds), q.on_cpu(model, feeds), strict=True):
        assert np.abs(got - want).max() <= APART * np.abs(want).max()


@pytest.mark.parametrize("form", STATIC)
@pytest.mark.parametrize("name", NETWORKS)
def test_static_formats_are_taken_whole(name: str, form: str, tmp_path: Path) -> None:
    assert_taken(written(name, tmp_path, static=True, **STATIC[form]))


@pytest.mark.parametrize("form", DYNAMIC)
@pytest.mark.parametrize("name", NETWORKS)
def test_dynamic_formats_are_taken_whole(name: str, form: str, tmp_path: Path) -> None:
    assert_taken(written(name, tmp_path, static=False, **DYNAMIC[form]))


@pytest.mark.parametrize("name", NETWORKS)
def test_16_bits_are_taken_whole(name: str, tmp_path: Path) -> None:
    assert_taken(written(name, tmp_path, static=True, **SIXTEEN))
