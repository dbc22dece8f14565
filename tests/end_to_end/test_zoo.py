"""Whole float networks beside the CPU provider: of fixed and of symbolic sizes, and compiled."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from itertools import chain, combinations
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import onnxruntime as ort
import pytest

import ep_nnapi
from ep_nnapi.diagnostics.check import partitioned
from ep_nnapi.epcontext.container import unpack
from ep_nnapi.lowering.model_builder import Lowered
from ep_nnapi.nnapi.model import Data
from ep_nnapi.sessions.cpu import session_of
from models import zoo
from tests.end_to_end.sessions import nnapi_session

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
}


@cache
def built(name: str, published: bool) -> onnx.ModelProto:
    if published or name not in SMALL:
        return zoo.MODELS[name]()
    return zoo.MODELS[name](size=SMALL[name])


def assert_close(model: onnx.ModelProto, **options: object) -> None:
    data, feeds = model.SerializeToString(), zoo.sample_inputs(model)
    got = nnapi_session(data, **options).run(None, feeds)
    want = session_of(data).run(None, feeds)
    for a, b in zip(got, want, strict=True):
        assert a.shape == b.shape
        largest = np.abs(b).max(initial=0)
        assert np.abs(a.astype(np.float64) - b).max(initial=0) <= CLOSE * largest


def networks(names: Iterable[str]) -> pytest.MarkDecorator:
    """Those of the short suite and, in the long one, the largest."""
    long = pytest.mark.long
    given = [pytest.param(n, marks=[long] if n == "resnet50" else []) for n in names]
    return pytest.mark.parametrize("name", given)


@cache
def checked(name: str) -> tuple[ep_nnapi.Report, Counter[str]]:
    """The report, and how often each NNAPI operation is in the clusters."""
    provider = partitioned(built(name, published=False).SerializeToString())
    models = (m for c in provider.clusters for m in c.models)
    return provider.report, Counter(op.spec.name for m in models for op in m.operations)


@networks(zoo.MODELS)
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


@networks(CONVOLUTIONAL)
def test_convolutional_networks_are_one_cluster(name: str) -> None:
    report, _ = checked(name)
    assert len(report.clusters) == 1
    assert report.taken == report.nodes


@networks(zoo.MODELS)
def test_all_that_has_a_form_is_taken_and_the_rest_refused_with_the_reason(name: str) -> None:
    left = Counter((r.op_type, str(r.reason)) for r in checked(name)[0].rejections)
    assert left == LEFT.get(name, {})


@networks(CONVOLUTIONAL)
def test_permutes_are_at_the_border_only(name: str) -> None:
    operations = checked(name)[1]
    assert operations["CONV_2D"] + operations["FULLY_CONNECTED"] > 0
    assert operations["TRANSPOSE"] == 0


BASIC = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC  # what prepare compiles
THRESHOLD = 64  # bytes of an initializer from which it is written outside
FORMS = [
    ("file", True, None),
    ("file", True, "initializers.bin"),
    ("file", False, None),
    ("file", False, "initializers.bin"),
    ("bytes", True, None),
    ("stream", True, None),
]


def options() -> onnxruntime.SessionOptions:
    made = onnxruntime.SessionOptions()
    made.log_severity_level = 4
    ep_nnapi.append_execution_provider(made)
    return made


def compile_to(
    form: str, path: Path, source: str | bytes, embed: bool, external: str | None
) -> None:
    compiler = onnxruntime.ModelCompiler(
        options(),
        source,
        embed_compiled_data_into_model=embed,
        external_initializers_file_path=external,
        external_initializers_size_threshold=THRESHOLD,
        graph_optimization_level=BASIC,
    )
    if form == "file":
        compiler.compile_to_file(str(path))
    elif form == "bytes":
        path.write_bytes(compiler.compile_to_bytes())
    else:
        with path.open("wb") as stream:
            compiler.compile_to_stream(lambda part: stream.write(bytes(part)))


def terms(lowered: Lowered) -> tuple[dict[bytes, bytes], list[str]]:
    """The cluster's outputs as terms over its inputs and constants, and its operations by name.

    Equal for clusters that differ only in the order of independent operations: ONNX Runtime orders
    nodes by their number, and saving a model numbers them again.
    """
    model, border = lowered.model, lowered.border
    known = {model.inputs[c.operand]: digest(replace(c, operand=0)) for c in border.inputs}
    for index, operand in enumerate(model.operands):
        if operand.value is not None:
            data = operand.value.bytes if isinstance(operand.value, Data) else b""
            known[index] = digest(replace(operand, value=None), hashlib.sha256(data).digest())
    for operation in model.operations:
        term = digest(operation.spec.name, *(known[i] for i in operation.inputs))
        known.update((index, digest(term, n)) for n, index in enumerate(operation.outputs))
    outputs = {
        digest(replace(c, operand=0)): known[model.outputs[c.operand]] for c in border.outputs
    }
    return outputs, sorted(operation.spec.name for operation in model.operations)


def digest(*parts: object) -> bytes:
    return hashlib.sha256(repr(parts).encode()).digest()


def clusters(path: Path) -> Iterator[tuple[dict[bytes, bytes], list[str]]]:
    """What each compiled cluster computes."""
    for node in onnx.load(str(path), load_external_data=False).graph.node:
        if node.op_type == "EPContext":
            (data,) = [a.s for a in node.attribute if a.name == "ep_cache_context"]
            yield terms(unpack(data, path.parent, 8).lowered)


def results(path: Path, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    return onnxruntime.InferenceSession(str(path), options()).run(None, feeds)


@pytest.mark.long
@pytest.mark.parametrize("name", zoo.MODELS)
def test_every_form_is_what_prepare_writes(name: str, tmp_path: Path) -> None:
    """The same NNAPI models, and the same results bit by bit; the source is a file, or bytes."""
    source = built(name, published=False)
    path, feeds = tmp_path / f"{name}.onnx", zoo.sample_inputs(source)
    onnx.save(source, path)
    ep_nnapi.prepare(path, tmp_path / "prepared", format="context", feature_level=8)
    (prepared,) = (tmp_path / "prepared").rglob("*.onnx")
    wanted, expected = list(clusters(prepared)), results(prepared, feeds)
    assert wanted
    for number, (form, embed, external) in enumerate(FORMS):
        folder = tmp_path / str(number)
        folder.mkdir()
        given = path.read_bytes() if number % 2 else str(path)
        compile_to(form, folder / "m.onnx", given, embed, external)
        assert list(clusters(folder / "m.onnx")) == wanted, (form, embed, external)
        for a, b in zip(results(folder / "m.onnx", feeds), expected, strict=True):
            np.testing.assert_array_equal(a, b, err_msg=f"{form} {embed} {external}")


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


def all_of(name: str, what: tuple[str, ...]) -> bool:
    """True for the choice of everything that may be symbolic in a network."""
    return len(what) == len(zoo.MODELS[name].dynamic)


def symbolic(name: str, what: tuple[str, ...]) -> onnx.ModelProto:
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
    return nnapi_session(model, severity=3, **options)


def cpu(model: onnx.ModelProto) -> ort.InferenceSession:
    return session_of(model.SerializeToString())


def assert_close_in_every_size(got: list[np.ndarray], want: list[np.ndarray]) -> None:
    for a, b in zip(got, want, strict=True):
        assert a.shape == b.shape
        largest = np.abs(b).max(initial=0)
        assert np.abs(a.astype(np.float64) - b).max(initial=0) <= CLOSE * largest


@pytest.mark.parametrize(("name", "what"), list(variants()))
def test_networks_match_the_cpu_with_every_size(name: str, what: tuple[str, ...]) -> None:
    """Sizes come back, so that what is kept is used as well as what is compiled anew."""
    model = symbolic(name, what)
    ours, theirs = session(model), cpu(model)
    feeds = drawn(name, model, 3)
    for given in (*feeds, feeds[0]):
        assert_close_in_every_size(ours.run(None, given), theirs.run(None, given))


@pytest.mark.parametrize(("name", "what"), [v for v in variants() if all_of(*v.values)])
@pytest.mark.parametrize("library", [False, True])
def test_open_dimensions_give_what_fixed_ones_do(name: str, what: tuple[str, ...], library: bool):
    """On nnapi-reference, also behind the C API: it computes both alike, bit by bit."""
    options: dict[str, object] = {"device": "nnapi-reference"}
    if library:
        options["runtime"] = ep_nnapi.libneuralnetworks_path()
    model = symbolic(name, what)
    feeds = drawn(name, model, 2)
    ours = session(model, **options)
    got = [ours.run(None, given) for given in feeds]
    (cluster,) = ep_nnapi.receipts()[-1]["clusters"]  # before there are younger sessions
    assert (cluster["device_runs"], cluster["fallbacks"]) == (2, [])
    for given, found in zip(feeds, got, strict=True):
        fixed = session(model, fix={n: a.shape for n, a in given.items()}, **options)
        for a, b in zip(found, fixed.run(None, given), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in SHORT else pytest.mark.long) for n in CONVOLUTIONAL]
)
def test_convolutional_networks_are_one_cluster_whatever_their_size(name: str) -> None:
    report = ep_nnapi.check(symbolic(name, tuple(zoo.MODELS[name].dynamic)).SerializeToString())
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
    report = ep_nnapi.check(symbolic(name, (what,)).SerializeToString(), dynamic_shapes="off")
    assert not report.taken
    details = [r.detail for r in report.rejections if r.reason is ep_nnapi.Reason.SHAPE]
    assert any(dimension in d for d in details), details


def test_fixed_sizes_are_taken_though_dynamic_shapes_are_off() -> None:
    model = symbolic("segmentation", ("batch", "size"))
    options = {"dynamic_shapes": "off", "fix": {"image": (1, 3, 64, 48)}}
    report = ep_nnapi.check(model.SerializeToString(), **options)
    assert (report.taken, len(report.clusters)) == (report.nodes, 1)
    feeds = zoo.sample_inputs(model, batch=1, height=64, width=48)
    assert_close_in_every_size(
        session(model, **options).run(None, feeds), cpu(model).run(None, feeds)
    )


def test_a_size_without_a_lowering_runs_on_the_cpu_and_is_reported(caplog):
    """Recurrent operators are written out step by step, as many as 128: 200 frames are not."""
    model = symbolic("denoiser_lstm", ("size",))
    ours, theirs = session(model, feature_level=2), cpu(model)
    for frames in (20, 200, 20):
        feeds = zoo.sample_inputs(model, frames=frames)
        assert_close_in_every_size(ours.run(None, feeds), theirs.run(None, feeds))
    warnings = [
        r.getMessage() for r in caplog.records if r.name == "ep_nnapi.provider.dynamic_cluster"
    ]
    assert len(warnings) == 1
    assert "run on the CPU provider: SIZE" in warnings[0]


def test_threads_with_different_sizes_share_a_cache_that_is_too_small() -> None:
    """Sizes are forgotten and compiled again while other threads run them."""
    model = symbolic("espcn", ("batch", "size"))
    ours, theirs = session(model, shape_cache=2), cpu(model)
    feeds = drawn("espcn", model, 6)
    want = [theirs.run(None, f) for f in feeds]
    turns = [i % len(feeds) for i in range(36)]
    with ThreadPoolExecutor(6) as pool:
        got = list(pool.map(lambda i: ours.run(None, feeds[i]), turns))
    for i, result in zip(turns, got, strict=True):
        assert_close_in_every_size(result, want[i])
