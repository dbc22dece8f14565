"""Models of ONNX Runtime's quantizer in all its formats: taken whole, or refused in one line."""

from pathlib import Path

import numpy as np
import onnx
import pytest

import ep_nnapi
from ep_nnapi.sessions.cpu import session_of
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


READER = """<ir_version: 8, opset_import: ["" : 14]>
reader (float[1,1,16,width] x) => (float[steps,1,24] y)
<float[8,1,3,3] a, float[8,8,3,3] b, float[8,8,3,3] c, float[1,32,16] w, float[1,32,8] r,
 float[8,24] d, int64[3] sizes = {1,-1,16}, int64[1] one = {1}> {
    p = Conv <pads=[1,1,1,1], strides=[2,2]> (x, a)  ps = Sigmoid (p)  q = Mul (p, ps)
    s = Conv <pads=[1,1,1,1], strides=[2,2]> (q, b)  ss = Sigmoid (s)  t = Mul (s, ss)
    u = Conv <pads=[1,1,1,1], strides=[2,1]> (t, c)  us = Sigmoid (u)  v = Mul (u, us)
    columns = Transpose <perm=[0,3,1,2]> (v)  rows = Reshape (columns, sizes)
    steps = Transpose <perm=[1,0,2]> (rows)  all, h = LSTM <hidden_size=8> (steps, w, r)
    states = Squeeze (all, one)  y = MatMul (states, d)
}"""
"""A reader of text of any width, of the kind of ddddocr's: convolutions, SiLU, LSTM, product."""


@pytest.mark.fast_devices
def test_a_quantized_reader_computes_the_cpus_quanta(tmp_path: Path) -> None:
    """Another rounding before one of its quantizers would move the quanta of all that follow."""
    model, rng = onnx.parser.parse_model(READER), np.random.default_rng(0)
    for declared in model.graph.value_info:
        dims = [d.dim_value for d in declared.type.tensor_type.shape.dim]
        weights = rng.normal(0, 0.4, dims).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(weights, declared.name))
    del model.graph.value_info[:]
    before, after = tmp_path / "before.onnx", tmp_path / "after.onnx"
    onnx.save(model, before)
    reduced = {"weight_type": U8, "reduce_range": True}  # the LSTM's int8 does not saturate
    quantizer.quantize_dynamic(before, after, **reduced)
    quantized = onnx.load(after)
    found = {n.op_type for n in quantized.graph.node}
    assert found >= {"ConvInteger", "DynamicQuantizeLSTM", "MatMulInteger"}
    assert len(ep_nnapi.check(quantized.SerializeToString()).clusters) == 1
    for width in (24, 40):
        feeds = {"x": rng.normal(0, 1, (1, 1, 16, width)).astype(np.float32)}
        (got,) = q.on_nnapi(quantized, feeds)
        (want,) = session_of(quantized.SerializeToString(), q.plain_cpu()).run(None, feeds)
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * np.abs(want).max())


@pytest.mark.fast_devices
@pytest.mark.parametrize("sizes", [(20,), (9, 10)], ids=["1-d", "2-d"])
def test_convolutions_of_integers_of_every_rank_run_on_the_device(sizes: tuple[int, ...]) -> None:
    """With a zero point of the weights, which has their rank."""
    shape, taps = ",".join(map(str, (1, 16, *sizes))), (16, 16, *[3] * len(sizes))
    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 13]> g (float[{shape}] x) => (float[n] y)
        <uint8 wz = {{7}}> {{
            q, s, z = DynamicQuantizeLinear (x)  i = ConvInteger (q, w, z, wz)
            f = Cast <to=1> (i)  y = Mul (f, s)
        }}"""
    )
    model.graph.output[0].type.tensor_type.ClearField("shape")
    rng = np.random.default_rng(0)
    weights = rng.integers(0, 255, taps, np.uint8)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    feeds = {"x": rng.normal(0, 1, (1, 16, *sizes)).astype(np.float32)}
    (got,) = q.on_nnapi(model, feeds, fallback="none")
    (want,) = session_of(model.SerializeToString(), q.plain_cpu()).run(None, feeds)
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6 * np.abs(want).max())
