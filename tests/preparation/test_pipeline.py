"""The zoo, float and quantized, in every combination: prepared, then loaded without the original.

Small models go through all combinations with every target and platform. Large ones go through each
row of the table (a format, a style and a level) once, the target and the platform changing from row
to row and from model to model, so that any two of model, row, target and platform meet.
"""

import itertools
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import ep_nnapi
from bench.prepare import cost
from ep_nnapi.diagnostics.output_traits import TOLERANCES, OutputKind
from ep_nnapi.nnapi.errors import ModelError
from ep_nnapi.options.target import RuleSet
from ep_nnapi.preparation.job import COMBINATIONS, Format, Job, Level, Platform, Style, job_of
from ep_nnapi.preparation.pipeline import SavedModel, external_data_of, save_prepared
from models import quantized, zoo
from tests.end_to_end.test_zoo import SMALL
from tests.litert.needs import LITERT
from tests.onnx_graph import model_of, parsed
from tests.preparation.fresh import CPU, Load, apart, loading, original, run, run_all

SIZES = SMALL | {
    "vgg_small": 32,
    "detector": 96,
    "detector_roialign": 96,
    "transformer_encoder": 32,
}
SMALL = ("mlp", "kws_dscnn", "espcn")
LOADED = [c for c in COMBINATIONS if c.format is not Format.TFLITE]  # by ONNX Runtime
ROWS = [(c, level) for c in LOADED for level in c.levels]
WAYS = list(itertools.product(RuleSet, Platform))


@dataclass(frozen=True, slots=True)
class Case:
    """A model of the zoo, its scheme where it is quantized, and its place among all of them."""

    name: str
    scheme: str | None
    index: int

    def __str__(self) -> str:
        return f"{self.name}-{self.scheme or 'float'}"

    def model(self) -> onnx.ModelProto:
        size = SIZES.get(self.name)
        if self.scheme is None:
            return zoo.MODELS[self.name](size=size)
        return with_continuous_outputs(zoo.quantized(self.name, self.scheme, size=size))


def with_continuous_outputs(model: onnx.ModelProto) -> onnx.ModelProto:
    """A detector with what it suppresses boxes by as its only outputs.

    Which of two boxes goes turns on the last bit, in ONNX Runtime's own fused and unfused layers,
    too; and so does the number of boxes.
    """
    suppressing = [n for n in model.graph.node if n.op_type == "NonMaxSuppression"]
    if suppressing:
        del model.graph.output[:]
    for node in suppressing:
        for name in node.input[:2]:
            model.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))
    return model


def cases() -> Iterator[Case]:
    """Each model as float and quantized; small ones in every scheme, the others in one each."""
    index = itertools.count()
    for i, name in enumerate(zoo.MODELS):
        turn = quantized.SCHEMES[i % len(quantized.SCHEMES)]
        schemes = quantized.SCHEMES if name in SMALL else (turn,)
        for scheme in (None, *schemes):
            yield Case(name, scheme, next(index))


def jobs(case: Case, *, every: bool) -> Iterator[Job]:
    """Jobs of the model: with every target and platform, or with one for each row."""
    for i, (row, level) in enumerate(ROWS):
        ways = WAYS if every else [WAYS[(case.index + i) % len(WAYS)]]
        for rules, platform in ways:
            given: dict[str, object] = {
                "format": str(row.format),
                "optimization_style": str(row.style),
                "optimization_level": str(level),
                "target_platform": str(platform),
                "target": str(rules),
            }
            if row.extra:
                given[row.extra] = (case.index + i) % 2 == 0
            yield job_of(given)


def called(job: Job) -> str:
    rules = job.options.target
    return f"{job.format}-{job.style}-{job.level}-{job.platform}-{rules}{job.suffix}"


def saved(source: Path, out: Path, job: Job) -> SavedModel | str:
    """The prepared model, or the reason why it is refused."""
    try:
        return save_prepared(source, out, job)
    except ModelError as error:
        return str(error)


def may_be_refused(case: Case, job: Job, why: str) -> bool:
    builtin = job.options.target is RuleSet.BUILTIN
    if job.format is Format.CONTEXT:
        # ONNX Runtime's own provider leaves signed activations, for one
        return builtin and "takes no node" in why
    protected = job.level is Level.NNAPI_AWARE and not builtin
    recorded = job.style is Style.RUNTIME and not protected and case.name == "transformer_encoder"
    return recorded and case.scheme is not None and "cannot replay" in why  # nor their own tool's


def prepared(model: onnx.ModelProto, case: Case, folder: Path, *, every: bool) -> dict[Path, Job]:
    """The prepared models of each job. `model` itself is deleted when this returns."""
    source = folder / "model.onnx"
    onnx.save(model, source)
    made = {}
    for job in jobs(case, every=every):
        out = folder / called(job)
        found = saved(source, out, job)
        if isinstance(found, str):
            assert may_be_refused(case, job, found), found
            continue
        assert found.report.clusters or job.options.target is RuleSet.BUILTIN
        assert bool(found.operators) == (job.format is Format.ORT)
        made[out] = job
    source.unlink()
    return made


def loads(made: dict[Path, Job], *, plain: bool) -> Iterator[Load]:
    """The sessions to make of them; recorded optimizations once left alone, once replayed."""
    for path, job in made.items():
        if plain and job.format is Format.CONTEXT:
            continue
        options: dict[str, object] = {"target": str(job.options.target)}
        yield loading(path, options)
        if job.style is Style.RUNTIME:
            yield loading(path, options, replay=True)


def round_trips(case: Case, folder: Path, *, every: bool) -> None:
    model = case.model()
    feeds = zoo.sample_inputs(model)
    want = original(model, feeds)
    made = prepared(model, case, folder, every=every)
    tolerances = dict.fromkeys((False, True), TOLERANCES[OutputKind.FLOAT32])
    if case.scheme is not None:
        level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        unfused = original(model, feeds, level)  # in a deep network steps add up: twice as far
        # without VNNI a plain session's products saturate, and those of what was saved do
        onnx.save(model, folder / "stock.onnx")
        stock = run(folder / "stock.onnx", feeds, None)
        own = max(apart(unfused, want), apart(stock, want))
        # so do the ties that NNAPI rounds otherwise, in the original as in what was saved
        nnapi = apart(run(folder / "stock.onnx", feeds, {}), want)
        for plain, far in ((False, max(own, nnapi)), (True, own)):
            tolerances[plain] = max(TOLERANCES[OutputKind.QUANTIZED], 2 * far)
    for plain in (False, True):
        wanted = list(loads(made, plain=plain))
        outputs, said = run_all(wanted, feeds, folder, plain=plain)
        assert len(outputs) == len(wanted), said
        apart_by = zip(wanted, (apart(got, want) for got in outputs), strict=True)
        assert not {Path(load.out).name: d for load, d in apart_by if d > tolerances[plain]}


@pytest.mark.parametrize("scheme", [None, "u8s8"])
def test_each_row_round_trips(scheme: str | None, tmp_path: Path) -> None:
    if scheme is not None:
        pytest.importorskip("onnxruntime.quantization.quantize", exc_type=ImportError)
    round_trips(Case("kws_dscnn", scheme, 0), tmp_path, every=False)


@pytest.mark.long
@pytest.mark.parametrize("case", list(cases()), ids=str)
def test_every_combination_round_trips(case: Case, tmp_path: Path) -> None:
    round_trips(case, tmp_path, every=case.name in SMALL)


def test_any_two_meet() -> None:
    """Every model meets every row, target and platform; every row every target and platform."""
    for case in cases():
        seen = list(jobs(case, every=case.name in SMALL))
        expected = {(c.format, c.style, level) for c, level in ROWS}
        assert {(j.format, j.style, j.level) for j in seen} == expected
        assert {(j.options.target, j.platform) for j in seen} == set(WAYS)


def rows_read_twice(path: Path) -> Path:
    """ONNX Runtime makes two Gathers a Split, which it merges with an equal one at the next load.

    As in a graph network that reads both rows of its edges in two ways.
    """
    text = """(int64[2,5] x) => (float[5] y) { a = Gather (x, first) b = Gather (x, second)
        p, q = Split (x, rows) c = Squeeze (p, zero) d = Squeeze (q, zero) af = Cast <to = 1> (a)
        bf = Cast <to = 1> (b) cf = Cast <to = 1> (c) df = Cast <to = 1> (d) e = Sub (af, df)
        g = Mul (bf, cf) y = Add (e, g) }"""
    onnx.save(parsed(text, first=0, second=1, zero=[0], rows=[1, 1]), path)
    return path


@pytest.mark.parametrize("form", ["context", pytest.param("tflite", marks=LITERT)])
def test_nodes_that_the_optimization_makes_equal_to_others(form: str, tmp_path: Path) -> None:
    path, out = rows_read_twice(tmp_path / "model.onnx"), tmp_path / "out"
    (entry,) = ep_nnapi.prepare(path, out, format=form, exclude="Gather,Split,Squeeze").models
    assert entry.error is None
    assert entry.report["taken"] == 3


@pytest.mark.parametrize("form", [Format.ORT, Format.ONNX])
def test_the_report_is_about_what_a_session_of_the_file_sees(form: Format, tmp_path: Path) -> None:
    """It optimizes an .onnx file once more, and an .ort file not."""
    source, out = rows_read_twice(tmp_path / "model.onnx"), tmp_path / f"out.{form}"
    told = save_prepared(source, out, Job(format=form)).report
    seen = ep_nnapi.check(out, partitioning="maximal")
    assert [c.nodes for c in told.clusters] == [c.nodes for c in seen.clusters]
    assert told.rejections == seen.rejections


def weights(name: str, shape: tuple[int, ...], **place: str) -> TensorProto:
    """A tensor whose bytes are elsewhere."""
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape)
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in place.items():
        tensor.external_data.add(key=key, value=value)
    return tensor


def layers(path: Path, count: int, size: int) -> Path:
    """Products of square matrices, which are zeros in a file of a folder within the folder."""
    file = path.parent / "data" / "deep" / "weights.bin"
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("wb") as stream:
        stream.truncate(4 * count * size * size)  # takes no place on the disk
    name, each = str(file.relative_to(path.parent)), 4 * size * size
    nodes = " ".join(f"m{i} = MatMul (x{i}, w{i}) x{i + 1} = Relu (m{i})" for i in range(count))
    made = model_of(nodes, {"x0": (1, size)}, {f"x{count}": (1, size)}, ir_version=9)
    for i in range(count):
        place = {"location": name, "offset": str(i * each), "length": str(each)}
        made.graph.initializer.append(weights(f"w{i}", (size, size), **place))
    path.write_bytes(made.SerializeToString())
    return path


FORMATS = [pytest.param(f, marks=LITERT if f is Format.TFLITE else ()) for f in Format]


@pytest.mark.parametrize("form", FORMATS)
def test_what_is_too_large_is_refused_at_once(form: Format, tmp_path: Path) -> None:
    # eight matrices of 2**28 bytes: one byte more than a signed number of 32 bits can count
    model = layers(tmp_path / "in" / "large.onnx", 8, 1 << 13)
    sentence = r"2\.15 GB with its weights, and .* at most 2\.15"
    with pytest.raises(ep_nnapi.ModelError, match=sentence):
        ep_nnapi.prepare(model, tmp_path / "out", format=form)
    assert not list((tmp_path / "out").glob("*.o*"))


def test_bytes_elsewhere_are_counted(tmp_path: Path) -> None:
    """As stated; without a length all that follows the offset; never more than there is."""
    (tmp_path / "w").write_bytes(bytes(100))
    tensors = [
        weights("a", (5,), location="w", offset="10", length="20"),
        weights("b", (15,), location="w", offset="40"),
        weights("c", (99,), location="w", offset="90", length="400"),
        weights("d", (5,), location="absent", length="20"),
        weights("e", (5,), location="w", length="no number"),
    ]
    graph = helper.make_graph([], "g", [], [], tensors)
    path = tmp_path / "m.onnx"
    path.write_bytes(helper.make_model(graph).SerializeToString())
    found = external_data_of(path)
    assert found.bytes == 20 + 60 + 10
    assert found.files == (tmp_path / "absent", tmp_path / "w")


@pytest.mark.parametrize("data", [b"", b"location of nothing"])
def test_what_is_no_model_has_nothing_elsewhere(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(data)
    assert external_data_of(path).files == ()


def test_weights_in_a_folder_below_are_found(tmp_path: Path) -> None:
    """They are among the sources, so that a change of them is noticed."""
    model = layers(tmp_path / "in" / "m.onnx", 2, 16)
    first = ep_nnapi.prepare(model, tmp_path / "out").models[0]
    assert set(first.sources) == {"m.onnx", "data/deep/weights.bin"}
    assert ep_nnapi.prepare(model, tmp_path / "out").models[0].skipped
    np.full(512, 0.5, np.float32).tofile(model.parent / "data" / "deep" / "weights.bin")
    assert not ep_nnapi.prepare(model, tmp_path / "out").models[0].skipped
    saved = onnx.load(model)
    assert len(saved.graph.initializer[0].raw_data) == 1024


@pytest.mark.long
def test_peak_memory_is_at_most_twice_that_of_onnx_runtime(tmp_path: Path) -> None:
    """On 268 MB, of which each tool holds several copies; libraries are not what decides."""
    model = layers(tmp_path / "in" / "m.onnx", 4, 1 << 12)
    tool = (sys.executable, "-m", "onnxruntime.tools.convert_onnx_models_to_ort")
    fixed = ("--optimization_style", "Fixed", "--output_dir", str(tmp_path / "theirs"))
    theirs = cost(*tool, *fixed, str(model.parent)).memory
    ours = (sys.executable, "-m", "ep_nnapi", "prepare", str(model), "-o")
    forms = [f for f in Format if f is not Format.TFLITE or find_spec("ai_edge_litert")]
    for given in (*(("--format", form) for form in forms), ("--no-verify",)):
        mine = cost(*ours, str(tmp_path / "-".join(given)), *given).memory
        assert mine <= 2 * theirs, f"{given}: {mine:.0f} MB, ONNX Runtime's tool {theirs:.0f} MB"


FLOAT = TensorProto.FLOAT


def symbolic(path: Path) -> Path:
    """y = Relu(x W) + z, for any number of rows that x and z share."""
    text = """(float[rows,4] x, float[rows,?] z) => (float[rows,columns] y) {
        m = MatMul (x, w) r = Relu (m) y = Add (r, z) }"""
    weights = np.random.default_rng(1).standard_normal((4, 3)).astype(np.float32)
    onnx.save(parsed(text, w=weights), path)
    return path


def shapes(path: Path, **options: object) -> dict[str, list[object]]:
    """The inputs and outputs as a session shows them."""
    chosen = onnxruntime.SessionOptions()
    chosen.log_severity_level = 4
    if options:
        ep_nnapi.append_execution_provider(chosen, **options)
    providers = None if options else CPU
    session = onnxruntime.InferenceSession(str(path), chosen, providers=providers)
    return {v.name: v.shape for v in (*session.get_inputs(), *session.get_outputs())}


@pytest.mark.parametrize("form", ["ort", "onnx", "context"])
def test_fixed_sizes_are_in_what_is_prepared(form: str, tmp_path: Path) -> None:
    source = symbolic(tmp_path / "a.onnx")
    done = ep_nnapi.prepare(source, tmp_path / "out", format=form, fix="x=2,4;z=2,3")
    (found,) = done.models
    assert found.error is None
    assert found.worst == pytest.approx(0, abs=1e-5)  # sums of four products, in another order
    options = {"feature_level": 8} if form == "context" else {}
    path = tmp_path / "out" / found.output
    assert shapes(path, **options) == {"x": [2, 4], "z": [2, 3], "y": [2, 3]}
    assert source.exists()
    assert not [p for p in path.parent.iterdir() if "fixed" in p.name]


def test_an_ort_file_is_fixed_too(tmp_path: Path) -> None:
    ep_nnapi.prepare(symbolic(tmp_path / "a.onnx"), tmp_path / "b.ort", verify=False)
    ep_nnapi.prepare(tmp_path / "b.ort", tmp_path / "c.ort", verify=False, fix="x=2,4;z=2,3")
    assert shapes(tmp_path / "c.ort") == {"x": [2, 4], "z": [2, 3], "y": [2, 3]}


@pytest.mark.parametrize(
    ("fix", "says"),
    [
        ("q=1,4", "fix: q is no input or symbolic dimension; known: x, z, rows"),
        ("row=2", "fix: row is no input .* did you mean rows?"),
        ("rows=2,3", r"fix: rows is \[2, 3\]; a symbolic dimension has one size"),
        ("rows=2;x=3,4", "fix: rows has two sizes, 2 and 3"),
        ("x=2,4;z=3,3", "fix: rows has two sizes, 2 and 3"),
        ("x=1,5", r"x is fixed to \[1, 5\]; the model has \[rows,4\]"),
        ("x=1,4,1", r"x is fixed to \[1, 4, 1\]"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(fix: str, says: str, tmp_path: Path) -> None:
    with pytest.raises((ep_nnapi.ModelError, ep_nnapi.OptionError), match=says):
        ep_nnapi.prepare(symbolic(tmp_path / "a.onnx"), tmp_path / "out", fix=fix)


def test_contexts_need_sizes_and_say_so(tmp_path: Path) -> None:
    with pytest.raises(ep_nnapi.ModelError, match=r"depend on x, z, so .* with --fix x=SIZES"):
        ep_nnapi.prepare(symbolic(tmp_path / "a.onnx"), tmp_path / "out", format="context")


def test_contexts_need_a_node_and_say_so(tmp_path: Path) -> None:
    given = {"format": "context", "exclude": "MatMul,Relu,Add,Gemm", "fix": "x=2,4;z=2,3"}
    with pytest.raises(ep_nnapi.ModelError, match="NNAPI takes no node of this model"):
        ep_nnapi.prepare(symbolic(tmp_path / "a.onnx"), tmp_path / "out", **given)


@pytest.mark.parametrize("fix", ["rows=7", {"rows": 7}, {"rows": (7,)}])
def test_a_symbol_is_fixed_by_its_name(fix: object, tmp_path: Path) -> None:
    """In every way that an input's sizes are."""
    source = symbolic(tmp_path / "a.onnx")
    (outputs,) = ep_nnapi.run(source, fix=fix).outputs
    assert outputs["y"].shape[0] == 7
    assert ep_nnapi.check(source, fix=fix, dynamic_shapes="off").nodes
    ep_nnapi.prepare(source, tmp_path / "b.onnx", fix=fix)
    assert {sizes[0] for sizes in shapes(tmp_path / "b.onnx").values()} == {7}


def test_run_draws_inputs_of_the_fixed_sizes(tmp_path: Path) -> None:
    (outputs,) = ep_nnapi.run(symbolic(tmp_path / "a.onnx"), fix="x=5,4;z=5,3").outputs
    assert outputs["y"].shape == (5, 3)
