"""Networks with a symbolic batch, symbolic sizes of pictures, frames or tokens, or both."""

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, combinations

import numpy as np
import onnx
import onnxruntime as ort
import pytest

import ep_nnapi
from ep_nnapi.sessions.cpu import session_of
from models import zoo
from tests.end_to_end.test_zoo import CLOSE, CONVOLUTIONAL, SMALL

Feeds = dict[str, np.ndarray]
SHORT = {"espcn", "segmentation", "mlp", "transformer_encoder"}


def variants() -> Iterator[object]:
    """Every network with every choice of what is symbolic in it; few are in the short suite."""
    for name, recipe in zoo.MODELS.items():
        kinds = sorted(recipe.dynamic)
        choices = chain.from_iterable(combinations(kinds, n + 1) for n in range(len(kinds)))
        for what in choices:
            short = name in SHORT and len(what) == len(kinds)
            marks = [] if short else [pytest.mark.long]
            yield pytest.param(name, what, marks=marks, id=f"{name}-{'-'.join(what)}")


def built(name: str, what: tuple[str, ...]) -> onnx.ModelProto:
    """The network; the sizes that are not symbolic are small."""
    small = {} if "size" in what or name not in SMALL else {"size": SMALL[name]}
    return zoo.MODELS[name](dynamic=what, **small)


def symbols(model: onnx.ModelProto) -> list[str]:
    """The names of the symbolic dimensions."""
    dims = (d for i in model.graph.input for d in i.type.tensor_type.shape.dim)
    return sorted({d.dim_param for d in dims if d.dim_param})


def drawn(name: str, model: onnx.ModelProto, count: int) -> list[Feeds]:
    """Feeds of different sizes, none of them one that the network was judged with."""
    allowed = [s for s in zoo.MODELS[name].sizes if 24 <= s < 64]
    found = []
    for i in range(count):
        rng = np.random.default_rng(i)
        sizes = {d: int(rng.choice(allowed)) for d in symbols(model) if d != "batch"}
        found.append(zoo.sample_inputs(model, i, batch=1 + i % 3, **sizes))
    return found


def session(model: onnx.ModelProto, **options: object) -> ort.InferenceSession:
    chosen = ort.SessionOptions()
    chosen.log_severity_level = 3
    ep_nnapi.append_execution_provider(chosen, **options)
    return ort.InferenceSession(model.SerializeToString(), chosen)


def cpu(model: onnx.ModelProto) -> ort.InferenceSession:
    return session_of(model.SerializeToString())


def assert_close(got: list[np.ndarray], want: list[np.ndarray]) -> None:
    for a, b in zip(got, want, strict=True):
        assert a.shape == b.shape
        largest = np.abs(b).max(initial=0)
        assert np.abs(a.astype(np.float64) - b).max(initial=0) <= CLOSE * largest


@pytest.mark.parametrize(("name", "what"), list(variants()))
def test_networks_match_the_cpu_with_every_size(name: str, what: tuple[str, ...]) -> None:
    """Sizes come back, so that what is kept is used as well as what is compiled anew."""
    model = built(name, what)
    ours, theirs = session(model), cpu(model)
    feeds = drawn(name, model, 3)
    for given in (*feeds, feeds[0]):
        assert_close(ours.run(None, given), theirs.run(None, given))


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in SHORT else pytest.mark.long) for n in CONVOLUTIONAL]
)
def test_convolutional_networks_are_one_cluster_whatever_their_size(name: str) -> None:
    report = ep_nnapi.check(built(name, tuple(zoo.MODELS[name].dynamic)).SerializeToString())
    assert (report.taken, len(report.clusters)) == (report.nodes, 1)


@pytest.mark.parametrize(
    ("name", "what", "dimension"),
    [
        ("segmentation", "batch", "dimension 0 is 'batch'"),
        ("espcn", "size", "dimension 2 is 'height'"),
        ("transformer_encoder", "size", "dimension 1 is 'tokens'"),
    ],
)
def test_off_names_the_dimension(name: str, what: str, dimension: str) -> None:
    report = ep_nnapi.check(built(name, (what,)).SerializeToString(), dynamic_shapes="off")
    assert not report.taken
    details = [r.detail for r in report.rejections if r.reason is ep_nnapi.Reason.SHAPE]
    assert any(dimension in d for d in details), details


def test_fixed_sizes_are_taken_though_dynamic_shapes_are_off() -> None:
    model = built("segmentation", ("batch", "size"))
    options = {"dynamic_shapes": "off", "fix": {"image": (1, 3, 64, 48)}}
    report = ep_nnapi.check(model.SerializeToString(), **options)
    assert (report.taken, len(report.clusters)) == (report.nodes, 1)
    feeds = zoo.sample_inputs(model, batch=1, height=64, width=48)
    assert_close(session(model, **options).run(None, feeds), cpu(model).run(None, feeds))


def test_a_size_without_a_lowering_runs_on_the_cpu_and_is_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Recurrent operators are written out step by step, as many as 128: 200 frames are not."""
    model = built("denoiser_lstm", ("size",))
    ours, theirs = session(model, feature_level=2), cpu(model)
    with caplog.at_level(logging.WARNING):
        for frames in (20, 200, 20):
            feeds = zoo.sample_inputs(model, frames=frames)
            assert_close(ours.run(None, feeds), theirs.run(None, feeds))
    warnings = [
        r.getMessage() for r in caplog.records if r.name == "ep_nnapi.provider.dynamic_cluster"
    ]
    assert len(warnings) == 1
    assert "run on the CPU provider: SIZE" in warnings[0]


def test_threads_with_different_sizes_share_a_cache_that_is_too_small() -> None:
    """Sizes are forgotten and compiled again while other threads run them."""
    model = built("espcn", ("batch", "size"))
    ours, theirs = session(model, shape_cache=2), cpu(model)
    feeds = drawn("espcn", model, 6)
    want = [theirs.run(None, f) for f in feeds]
    turns = [i % len(feeds) for i in range(36)]
    with ThreadPoolExecutor(6) as pool:
        got = list(pool.map(lambda i: ours.run(None, feeds[i]), turns))
    for i, result in zip(turns, got, strict=True):
        assert_close(result, want[i])
