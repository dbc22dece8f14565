"""Sessions on a profile, and on a device that computes as Android's CPU implementation does."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import numpy as np
import onnx
import pytest

import ep_nnapi
from ep_nnapi import ModelError, OptionError
from ep_nnapi.nnapi.host import HostRuntime
from ep_nnapi.nnapi.host.reference import ReferenceDevice
from ep_nnapi.nnapi.model import Data
from ep_nnapi.nnapi.profile.file import write
from ep_nnapi.nnapi.profile.form import OperationUse
from ep_nnapi.nnapi.profile.record import record_all
from ep_nnapi.nnapi.profile.seeds import seeds_of
from ep_nnapi.nnapi.spec import BY_NAME
from ep_nnapi.operators.lib.node import MAX_FILL_CONSTANT
from ep_nnapi.options.table import HOST
from ep_nnapi.options.target import MAX_FEATURE_LEVEL, Target
from ep_nnapi.provider import devices as runtimes
from ep_nnapi.sessions.cpu import session_of
from models import zoo
from models.zoo import MODELS
from tests import calls, oracle
from tests.android_device import ANDROID, AndroidDevice, installed
from tests.end_to_end.quantized import Qdq
from tests.end_to_end.sessions import nnapi_session
from tests.end_to_end.test_zoo import assert_close, built
from tests.nnapi.profile.examples import RULES, SampleDevice, everything, path_of
from tests.oracle import Case, boolean, f32, i32, ints, node
from tests.random_graphs.trial import draw

DIGITS = "models/digits.onnx"


def constant_weights(use: OperationUse) -> bool:
    """Supports weights that are constants."""
    weights = (o for p, o in use.named_inputs if p.name in ("filter", "weights", "bias", "alpha"))
    return all(isinstance(o.value, Data) for o in weights)


def matrices(use: OperationUse) -> bool:
    """Supports operations on up to two dimensions."""
    return all(len(o.dimensions) <= 2 for o in (*use.inputs, *use.outputs))


def nchw(use: OperationUse) -> bool:
    """Supports convolutions and pools in NCHW only."""
    layouts = [o for p, o in use.named_inputs if p.name == "layout"]
    return all(bool(o.array) for o in layouts)


def no_fusion(use: OperationUse) -> bool:
    """Supports operations without a fused activation, not relaxed."""
    activations = [o for p, o in use.named_inputs if p.name == "activation"]
    return not use.relaxed and all(int(o.array) == 0 for o in activations)


OWN_RULES = {
    "constant-weights": constant_weights,
    "matrices": matrices,
    "nchw": nchw,
    "no-fusion": no_fusion,
}


def device_of(name: str) -> SampleDevice:
    if name.startswith("level-"):
        return SampleDevice(name, everything, feature_level=int(name[-1]))
    return SampleDevice(name, (RULES | OWN_RULES)[name])


@contextmanager
def on_device(name: str) -> Iterator[None]:
    """Sessions on the device itself, beside nnapi-reference."""
    device = device_of(name)
    runtime = HostRuntime([device, ReferenceDevice()], device.feature_level)
    with patch.dict(runtimes.RUNTIMES, {HOST: lambda: runtime}):
        yield


def compare(name: str, profile: Path, content: str | bytes, **options: object) -> int:
    """Requires equal clusters on the device and with its profile; returns the nodes taken.

    A profile speaks for its device; the level alone stands for Android's own kernels, for which
    lowerings have other forms.
    """
    newest = patch.object(Target, "kernel_level", MAX_FEATURE_LEVEL)
    try:
        with on_device(name), newest:
            there = ep_nnapi.check(content, **options).to_json()
    except OptionError:  # a level that the device does not have
        with pytest.raises(OptionError):
            ep_nnapi.check(content, device_profile=profile, **options)
        return 0
    here = ep_nnapi.check(content, device_profile=profile, **options).to_json()
    for rejection in here["rejections"]:
        assert "not in its profile" not in rejection["detail"], rejection
        rejection["detail"] = rejection["detail"].removesuffix(" (profile)")
    assert here == there
    return int(here["taken"])


NAMES = [*(f"level-{n}" for n in (1, 2, 3, 8)), *RULES]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("model", ["kws_dscnn", "espcn"])
def test_zoo_models_on_example_devices(name: str, model: str):
    compare(name, path_of(name), MODELS[model]().SerializeToString())


def test_refusals_name_the_device_and_the_profile():
    report = ep_nnapi.check(DIGITS, device_profile=path_of("sample-minimal"))
    details = {r.detail for r in report.rejections}
    assert details == {"sample-minimal declines FULLY_CONNECTED, MAX_POOL_2D, RESHAPE (profile)"}
    assert {c.device for c in report.clusters} == {"sample-minimal"}


def test_a_session_computes_on_the_host():
    given = {"image": np.load("models/digits/samples.npz")["images"][:1]}
    session = nnapi_session(DIGITS, severity=4, device_profile=path_of("sample-minimal"))
    (got,) = session.run(None, given)
    (want,) = session_of(DIGITS).run(None, given)
    # sums of up to 400 float32 products in another order
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": "gpu-7"}, "device 'gpu-7' is unknown; there are level-3, nnapi-reference"),
        ({"feature_level": 4}, "feature_level is 4, but the runtime offers 3"),
        (
            {"runtime": DIGITS},
            r"says nothing that .*digits.onnx does not say itself; write one with ep-nnapi doctor",
        ),
    ],
)
def test_options_that_do_not_fit_the_profile(options: dict[str, object], message: str):
    with pytest.raises(OptionError, match=message):
        ep_nnapi.check(DIGITS, device_profile=path_of("level-3"), **options)


def test_a_runtime_of_the_caller_may_be_named_too():
    report = ep_nnapi.check(DIGITS, device_profile=path_of("level-3"), runtime="host")
    assert report.feature_level == 3
    chosen = {"device": "nnapi-reference", "device_profile": path_of("sample-minimal")}
    assert ep_nnapi.check(DIGITS, **chosen).taken == 8


SEED = int(os.environ.get("EP_NNAPI_SEED", "500000"))


@pytest.fixture(scope="module")
def profiles(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The example profiles, and those of the devices of this file."""
    folder = tmp_path_factory.mktemp("profiles")
    found = {n: HostRuntime([SampleDevice(n, rule)]) for n, rule in OWN_RULES.items()}
    for profile in record_all([(r, r.devices()[0]) for r in found.values()]):
        write(profile, folder / f"{profile.device.name}.json")
    examples = {n: path_of(n) for n in (*(f"level-{i}" for i in range(1, 9)), *RULES)}
    return examples | {n: folder / f"{n}.json" for n in OWN_RULES}


@pytest.mark.long
@pytest.mark.parametrize("model", sorted(MODELS))
def test_the_zoo_on_every_device(model: str, profiles: dict[str, Path]):
    content = MODELS[model]().SerializeToString()
    for name, path in profiles.items():
        compare(name, path, content)


@pytest.mark.long
def test_500_graphs_on_every_device(profiles: dict[str, Path]):
    print("seed", SEED)  # noqa: T201 (to repeat a failure)
    names, taken = list(profiles), 0
    for seed in range(SEED, SEED + 500):
        subject = draw(seed)
        if not subject.model.graph.output:
            continue
        for name in (names[seed % len(names)], names[(seed * 7 + 3) % len(names)]):
            content = subject.model.SerializeToString()
            try:
                taken += compare(name, profiles[name], content, **subject.options)
            except ModelError:  # not for ONNX Runtime
                break
    assert taken > 500


def test_drawn_graphs_on_example_devices():
    for seed in range(SEED, SEED + 12):
        subject = draw(seed)
        options = {k: v for k, v in subject.options.items() if k != "feature_level"}
        if subject.model.graph.output:
            for name in ("level-8", "sample-float-engine"):
                compare(name, path_of(name), subject.model.SerializeToString(), **options)


@pytest.mark.parametrize("name", ["sample-minimal"])
def test_the_operations_of_a_model_are_recorded_exactly(name: str, tmp_path: Path):
    """Without any sample, the recorded operations of the model decide."""
    path = tmp_path / "device.json"
    few = patch("ep_nnapi.nnapi.profile.record.seeds", lambda: seeds_of(BY_NAME["RANK"]))
    with on_device(name), few:
        profile = ep_nnapi.record_profile(path, [DIGITS])
    assert set(profile.exact.values()) == {True, False}
    assert compare(name, path, DIGITS) > 0
    assert compare(name, path, DIGITS, flags="USE_FP16") > 0


LEVELS = range(1, 9)
INFINITY, LOWEST = np.array(np.inf, np.float32), np.array(-np.inf, np.float32)


def assert_right(model: onnx.ModelProto, level: int, runs: int = 1) -> None:
    """The device computes what the CPU provider does, and nothing fails or does not end there."""
    with installed(level) as device:
        assert_close(model, device=ANDROID, feature_level=level)
    assert device.ended == []
    assert len(device.executed) >= runs


@pytest.mark.parametrize("level", [1, 3, 4, 8])
@pytest.mark.parametrize("name", ["efficientnet_lite0", "kws_dscnn", "denoiser_lstm"])
def test_networks_end_right(name: str, level: int) -> None:
    assert_right(built(name, published=False), level)


@pytest.mark.long
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", zoo.MODELS)
def test_every_network_ends_right(name: str, level: int) -> None:
    assert_right(built(name, published=True), level)


@pytest.mark.long
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("scheme", ["u8u8", "s8s8"])
@pytest.mark.parametrize("name", ["mobilenet_v2", "efficientnet_lite0", "transformer_encoder"])
def test_quantized_networks_run_without_a_failure(name: str, scheme: str, level: int) -> None:
    pytest.importorskip("onnxruntime.quantization.quantize", exc_type=ImportError)
    model = zoo.quantized(name, scheme)
    with installed(level) as device:
        run(model, zoo.sample_inputs(model), feature_level=level)
    assert device.ended == []
    assert device.executed


def run(model: onnx.ModelProto, feeds: dict[str, np.ndarray], **options: object) -> np.ndarray:
    return nnapi_session(model, severity=3, device=ANDROID, **options).run(None, feeds)[0]


@pytest.mark.parametrize("level", [3, 4, 8])
@pytest.mark.parametrize("kind", ["u8", "s8"])
def test_quantized_division_is_computed_in_floats(kind: str, level: int) -> None:
    """Android validates DIV of signed 8-bit numbers, and fails at the first run."""
    qdq = Qdq(kind)
    a, b = qdq.input((2, 8), (0.5, 3)), qdq.input((2, 8), (0.25, 0))
    model = qdq.model(qdq.group("Div", [a, b], (0.125, 1)))
    rng = np.random.default_rng(0)
    code = np.uint8 if kind == "u8" else np.int8
    feeds = {a: rng.integers(0, 100, (2, 8)).astype(code), b: rng.integers(1, 9, (2, 8), code)}
    with installed(level) as device:
        got = run(model, feeds, feature_level=level)
    assert device.ended == []
    assert device.executed == [("DEQUANTIZE", "DEQUANTIZE", "DIV", "QUANTIZE")]
    np.testing.assert_array_equal(got, session_of(model.SerializeToString()).run(None, feeds)[0])


@pytest.mark.parametrize(
    ("channels", "size", "expected"),
    [
        (15, 2, ["DEPTHWISE_CONV_2D"]),
        (16, 2, ["SLICE", "DEPTHWISE_CONV_2D"] * 2 + ["CONCATENATION"]),
        (300, 2, ["DEQUANTIZE", "DEPTHWISE_CONV_2D", "QUANTIZE"]),
        (2048, 3, ["DEPTHWISE_CONV_2D"]),
        (2049, 3, ["SLICE", "DEPTHWISE_CONV_2D"] * 2 + ["CONCATENATION"]),
    ],
)
def test_8_bit_depthwise_convolutions_end_and_keep_to_their_output(channels, size, expected):
    qdq, rng = Qdq(), np.random.default_rng(0)
    x = qdq.input((1, channels, size, size), (0.5, 3))
    weights = qdq.weights(rng.integers(0, 255, (channels, 1, 3, 3), np.uint8), 0.01, 128)
    window = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}
    model = qdq.model(qdq.group("Conv", [x, weights], (0.25, 7), group=channels, **window))
    feeds = {x: rng.integers(0, 100, (1, channels, size, size), np.uint8)}
    with installed(3) as device:
        got = run(model, feeds, feature_level=3)
    assert device.ended == []
    assert device.executed == [tuple(expected)]
    want = session_of(model.SerializeToString()).run(None, feeds)[0]
    assert np.abs(got.astype(int) - want).max() <= 1  # quantum: fixed-point multipliers


LARGE = MAX_FILL_CONSTANT + 1
MOVING = {
    "mask": node("Where", boolean(1, 1, 9, 9), f32(1, 2, 9, 9), LOWEST),
    "large mask": node("Where", boolean(2, LARGE), f32(2, LARGE), LOWEST),
    "both sides": node("Where", boolean(2, LARGE), INFINITY, LOWEST),
    "mask of rank 5": node("Where", boolean(1, 2, 3, 1, 2), f32(2, 2, 3, 4, 2), INFINITY),
    "concat": node("Concat", f32(2, 5), f32(2, 5), axis=1),
    "slice": node("Slice", f32(2, 9, 4), ints(8), ints(0), ints(1), ints(-2)),
    "gather": node("Gather", f32(6, 4), np.array([[1, 0], [3, 2]]), axis=1),
    "gather ND": node("GatherND", f32(6, 4), np.array([[1, 0], [5, 3]])),
    "transpose": node("Transpose", f32(2, 3, 4, 2, 2), perm=[2, 0, 1, 4, 3]),
    "pad": node("Pad", f32(2, 3), ints(1, 0, 0, 2), LOWEST),
    "edge": node("Pad", f32(2, 3), ints(1, 0, 0, 2), mode="edge"),
    "expand": node("Expand", f32(2, 1, 3, 1, 2), ints(2, 4, 3, 2, 2)),
    "tile": node("Tile", f32(2, 3), ints(2, 2)),
    "split": node("Split", f32(2, 6), ints(2, 4), outputs=2, axis=1),
    "max": node("Max", f32(2, 6), f32(2, 6), LOWEST),
    "clip": node("Clip", f32(2, 6), np.array(-1, np.float32), INFINITY),
    "identity": node("Identity", f32(2, 6)),
    "trilu": node("Trilu", f32(5, 5), upper=0),
    "reduce max": node("ReduceMax", f32(3, 6), ints(1)),
    "top k": node("TopK", f32(3, 6), ints(2), outputs=2),
    "scatter": node("ScatterND", f32(4, 3), np.array([[1], [3]]), f32(2, 3)),
    "depth to space": node("DepthToSpace", f32(1, 8, 2, 2), blocksize=2, mode="CRD"),
    "reverse": node("ReverseSequence", f32(4, 3), np.array([2, 4, 1])),
    "one hot": node(
        "OneHot", i32(6, low=0, high=3), np.array(4, np.int32), np.array([-5, np.inf], "f")
    ),
    "is infinite": node("IsInf", f32(3, 6)),
    "softmax": node("Softmax", f32(4, 8)),
}
REFUSED = {1: 23, 2: 19}
"""How many of these have no form at a level; none above."""


def with_infinities(case: Case) -> dict[str, np.ndarray]:
    """The case's inputs; every third float is infinite, in a softmax only to the negative side."""
    feeds = case.draw(0)
    for array in feeds.values():
        if array.dtype == np.float32:
            array.reshape(-1)[::6], array.reshape(-1)[3::6] = -np.inf, np.inf
    if case.model.graph.node[0].op_type == "Softmax":
        feeds = {name: np.minimum(array, 1) for name, array in feeds.items()}
    return feeds


@pytest.mark.parametrize("level", LEVELS)
def test_infinities_survive_what_only_moves_or_selects_elements(level: int) -> None:
    refused = []
    for name, case in MOVING.items():
        device = AndroidDevice(level, name="nnapi-reference")
        feeds = with_infinities(case)
        with patch.object(calls, "RUNTIME", HostRuntime([device])):
            try:
                oracle.accepts(case, Target(level))
            except AssertionError:
                refused.append(name)
                continue
            got = oracle.run(case, Target(level), feeds)
        assert device.ended == []
        for found, want in zip(got, oracle.on_cpu(case.model, feeds), strict=True):
            np.testing.assert_allclose(found, want, rtol=1e-5, err_msg=name)  # softmax's exp
    assert len(refused) == REFUSED.get(level, 0), refused


@pytest.mark.parametrize(
    ("level", "case"),
    [
        (1, node("MatMul", f32(4, 4), np.ones((4, 3), np.float32))),
        (2, node("Pad", f32(2, 3), ints(1, 0, 0, 2))),
        (2, node("AveragePool", f32(1, 2, 9), kernel_shape=[3], pads=[2, 2], count_include_pad=1)),
        (2, node("ReduceMean", f32(2, 3), keepdims=0, opset=17)),
        (2, node("GlobalAveragePool", f32(1, 2, 3, 3))),
    ],
    ids=lambda value: value.model.graph.node[0].op_type if isinstance(value, Case) else "",
)
def test_shapes_without_a_kernel_at_a_level_are_others(level: int, case: Case) -> None:
    assert_right(case.model, level)


@pytest.mark.parametrize("level", [1, 2, 3])
@pytest.mark.parametrize("name", ["Add with Relu", "GlobalAveragePool"])
def test_8_bit_kernels_that_are_wrong_at_a_level_are_not_used(name: str, level: int) -> None:
    qdq = Qdq()
    x = qdq.input((1, 4, 3, 3), (0.05, 100))
    if name == "GlobalAveragePool":
        model = qdq.model(qdq.group(name, [x], (0.05, 100)))
    else:
        model = qdq.model(qdq.group("Add", [x, x], (0.05, 100), activation=("Relu", ())))
    feeds = {x: np.arange(36, dtype=np.uint8).reshape(1, 4, 3, 3) * 7}
    with installed(level) as device:
        got = run(model, feeds, feature_level=level)
    assert device.ended == []
    assert device.executed
    want = session_of(model.SerializeToString()).run(None, feeds)[0]
    assert np.abs(got.astype(int) - want).max() <= 1  # quantum: the mean's rounding


@pytest.mark.parametrize("level", [3, 4, 8])
def test_a_row_of_attention_that_is_masked_as_a_whole_is_found(level: int) -> None:
    """Its result is 0 by ONNX's definition, which compares the row's maximum with -inf."""
    heads = [f32(1, 2, 3, 8)] * 3
    case = node("Attention", *heads, boolean(3, 3), opset=23)
    feeds = case.draw(0) | {"x3": np.tri(3, k=-1).astype(bool)}
    with installed(level) as device:
        got = run(case.model, feeds, feature_level=level)
    assert device.executed
    assert not got[:, :, 0].any()
    want = oracle.on_cpu(case.model, feeds)[0][:, :, 1:]  # onnxruntime 1.25 has a mean in row 0
    np.testing.assert_allclose(got[:, :, 1:], want, atol=1e-6)  # sums of eight float32 products
