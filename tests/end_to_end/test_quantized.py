"""Quantized models beside the CPU provider without its fused integer kernels."""

from functools import cache

import numpy as np
import onnx
import pytest

import ep_nnapi
from models import zoo
from tests.end_to_end import quantized as q
from tests.end_to_end.quantized import Qdq
from tests.end_to_end.quantized_groups import GROUPS, X, Y
from tests.end_to_end.sessions import DIGITS, ROOT, nnapi_session
from tests.end_to_end.test_zoo import SMALL

# The quantizer imports ml_dtypes and sympy, which old versions of onnx and onnxruntime lack.
pytest.importorskip("onnxruntime.quantization.quantize", exc_type=ImportError)

SCHEMES = ["u8u8", "u8s8", "s8s8"]
SHORT = ["squeezenet1_1", "segmentation", "mlp"]
ZOO = [
    pytest.param(n, marks=[] if n in SHORT else pytest.mark.long)
    for n in (*SMALL, "vgg_small", "kws_dscnn", "mlp")
]

QUANTUM = 1
"""By how much a layer may differ; why, is in test_quantized_causes."""


@cache
def built(name: str, scheme: str) -> onnx.ModelProto:
    if name in SMALL:
        return zoo.quantized(name, scheme, size=SMALL[name])
    return zoo.quantized(name, scheme)


def assert_taken(model: onnx.ModelProto, **options: object) -> None:
    report = ep_nnapi.check(model.SerializeToString(), **options)
    assert not report.rejections
    assert len(report.clusters) == 1


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", ZOO)
def test_quantized_networks_are_one_cluster(name: str, scheme: str) -> None:
    assert_taken(built(name, scheme))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_quantized_digits_are_recognized_within_one_percent(scheme: str) -> None:
    model = zoo.quantized("digits", scheme)
    session = nnapi_session(model)
    labels = np.load(ROOT / "models" / "digits" / "held_out.npz")["labels"]
    digits = DIGITS.digits()
    right = [
        np.mean(
            [DIGITS.run(s, x).argmax() == label for x, label in zip(digits, labels, strict=True)]
        )
        for s in (session, DIGITS.cpu())
    ]
    assert abs(right[0] - right[1]) <= 0.01


@pytest.mark.parametrize("kind", ["u8", "s8"])
@pytest.mark.parametrize("name", GROUPS)
def test_groups_are_taken_and_match(name: str, kind: str) -> None:
    model = GROUPS[name](kind)
    assert_taken(model)
    feeds = q.stored(model)
    assert q.apart(q.on_nnapi(model, feeds), q.on_cpu(model, feeds)) <= QUANTUM


@pytest.mark.fast_devices
@pytest.mark.parametrize("kind", ["u8", "s8"])
@pytest.mark.parametrize("name", GROUPS)
def test_groups_match_on_host_cpu(name: str, kind: str) -> None:
    model = GROUPS[name](kind)
    feeds = q.stored(model)
    assert q.apart(q.on_nnapi(model, feeds), q.on_cpu(model, feeds)) <= QUANTUM


@pytest.mark.parametrize("level", [3, 5])
@pytest.mark.parametrize("name", GROUPS)
def test_signed_groups_match_on_older_levels(name: str, level: int) -> None:
    """Below level 4 signed numbers are unsigned ones inside."""
    model = GROUPS[name]("s8")
    feeds = q.stored(model)
    got = q.on_nnapi(model, feeds, feature_level=level)
    assert q.apart(got, q.on_cpu(model, feeds)) <= QUANTUM


def test_split_is_a_group_of_several_outputs() -> None:
    g = Qdq("u8")
    x = g.input((1, 4, 6, 6), X)
    outs = g.group("Split", [x], Y, outputs=2, axis=1, num_outputs=2).split(",")
    model = g.model(*outs)
    assert_taken(model)
    feeds = q.stored(model)
    assert q.apart(q.on_nnapi(model, feeds), q.on_cpu(model, feeds)) <= QUANTUM
