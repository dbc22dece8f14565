"""Whole float networks on the reference device, beside the CPU provider."""

from collections import Counter
from functools import cache

import numpy as np
import onnx
import onnxruntime as ort
import pytest

import ep_nnapi
from ep_nnapi.sessions.cpu import session_of
from models import zoo

# Sums of float32 products in another order, through up to fifty layers.
CLOSE = 1e-4

# Smaller pictures than published, where the short suite would take too long.
SMALL = {
    "mobilenet_v1": 96,
    "mobilenet_v2": 96,
    "mobilenet_v3_large": 96,
    "efficientnet_lite0": 96,
    "resnet18": 64,
    "resnet50": 64,
    "squeezenet1_1": 96,
    "espcn": 40,
    "segmentation": 96,
}
CONVOLUTIONAL = [*SMALL, "vgg_small", "kws_dscnn"]

# What stays on the CPU provider, and why: (operator, reason) and how often.
LEFT: dict[str, dict[tuple[str, str], int]] = {
    "detector": {("NonMaxSuppression", "OP"): 1},  # its output's size depends on the data
    # 64-bit integers of the user's own: no range is stated that would fit them into 32 bits
    "transformer_encoder": {("Unsqueeze", "DTYPE"): 1, ("Cast", "DTYPE"): 1},
}


@cache
def built(name: str, published: bool) -> onnx.ModelProto:
    if published or name not in SMALL:
        return zoo.MODELS[name]()
    return zoo.MODELS[name](size=SMALL[name])


def assert_close(model: onnx.ModelProto, **options: object) -> None:
    data, feeds = model.SerializeToString(), zoo.sample_inputs(model)
    chosen = ort.SessionOptions()
    ep_nnapi.append_execution_provider(chosen, **options)
    got = ort.InferenceSession(data, chosen).run(None, feeds)
    want = session_of(data).run(None, feeds)
    for a, b in zip(got, want, strict=True):
        assert a.shape == b.shape
        largest = np.abs(b).max(initial=0)
        assert np.abs(a.astype(np.float64) - b).max(initial=0) <= CLOSE * largest


@pytest.mark.parametrize("name", zoo.MODELS)
def test_small_networks_match_the_cpu(name: str) -> None:
    assert_close(built(name, published=False))


@pytest.mark.long
@pytest.mark.parametrize("name", SMALL)
def test_published_networks_match_the_cpu(name: str) -> None:
    assert_close(built(name, published=True))


@pytest.mark.long
@pytest.mark.parametrize("level", range(1, 8))
@pytest.mark.parametrize("name", zoo.MODELS)
def test_every_feature_level_matches_the_cpu(name: str, level: int) -> None:
    assert_close(built(name, published=False), feature_level=level)


@pytest.mark.long
@pytest.mark.parametrize("name", CONVOLUTIONAL)
def test_nchw_matches_the_cpu(name: str) -> None:
    assert_close(built(name, published=False), flags=ep_nnapi.NnapiFlag.USE_NCHW)


@pytest.mark.parametrize("name", CONVOLUTIONAL)
def test_convolutional_networks_are_one_cluster(name: str) -> None:
    report = ep_nnapi.check(built(name, published=False).SerializeToString())
    assert len(report.clusters) == 1
    assert report.taken == report.nodes


@pytest.mark.parametrize("name", zoo.MODELS)
def test_all_that_has_a_form_is_taken_and_the_rest_refused_with_the_reason(name: str) -> None:
    report = ep_nnapi.check(built(name, published=False).SerializeToString())
    left = Counter((r.op_type, str(r.reason)) for r in report.rejections)
    assert left == LEFT.get(name, {})


@pytest.mark.parametrize("name", [*SMALL, "vgg_small", "kws_dscnn"])
def test_permutes_are_at_the_border_only(name: str) -> None:
    from ep_nnapi.diagnostics.check import partitioned

    provider = partitioned(built(name, published=False).SerializeToString())
    operations = Counter(
        op.spec.name for c in provider.clusters for m in c.models for op in m.operations
    )
    assert operations["TRANSPOSE"] == 0
