"""Models saved by ONNX Runtime: functions inlined, constants renamed, recordings replayed."""

import json
import re
from collections.abc import Collection
from pathlib import Path

import numpy as np
import onnx
import pytest

import ep_nnapi
from ep_nnapi.cli.main import main
from ep_nnapi.preparation.job import job_of
from ep_nnapi.preparation.manifest import Prepared
from ep_nnapi.preparation.ort_export import rename_generated, save_ort
from ep_nnapi.sessions.cpu import session_of
from tests.onnx_graph import model_of, parsed
from tests.preparation.fresh import Arrays, apart, loading, original, run_all
from tests.preparation.tables import DIGITS, LEVELS, left_by
from tests.preparation.test_batch import statuses, tiny


def hard_swish(path: Path) -> Path:
    """A function of ONNX that NNAPI has as one operation, and the CPU provider only in parts."""
    text = "(float[2,3] x) => (float[2,3] y) { [swish] h = HardSwish (x) [neg] y = Neg (h) }"
    onnx.save(parsed(text), path)
    return path


def prepared(source: Path, out: Path, *forms: str, **options: object) -> dict[Path, Prepared]:
    """The model in each form."""
    made = {f: ep_nnapi.prepare(source, out / f, format=f, **options).models[0] for f in forms}
    return {out / form / one.output: one for form, one in made.items()}


def computed(paths: Collection[Path], feeds: Arrays, *, plain: bool = False) -> list[Arrays]:
    """Their outputs in a fresh process."""
    loads = [loading(path, {}) for path in paths]
    found, said = run_all(loads, feeds, next(iter(paths)).parent, plain=plain)
    assert len(found) == len(paths), said
    return found


def test_functions_are_inlined_where_the_cpu_cannot_run_them(tmp_path: Path) -> None:
    source = hard_swish(tmp_path / "a.onnx")
    feeds = {"x": np.linspace(-4, 4, 6, dtype=np.float32).reshape(2, 3)}
    want = original(onnx.load(source), feeds)
    made = prepared(source, tmp_path, "ort", "onnx", "context", verify=False)
    for path, found in made.items():
        assert found.report is not None
        assert found.report["taken"] == found.report["nodes"]
        assert not [p for p in path.parent.iterdir() if "inlined" in p.name]
    plain = computed([*made][:2], feeds, plain=True)
    for got in (*computed(made, feeds), *plain):
        assert apart(got, want) <= 1e-6  # x (x + 3) / 6 in float32, in other parts


def test_a_function_is_kept_whole_where_nothing_is_saved_for_the_cpu(tmp_path: Path) -> None:
    report = ep_nnapi.check(hard_swish(tmp_path / "a.onnx"))
    assert [c.nodes for c in report.clusters] == [("swish", "neg")]


def of_four_bits(kind: str, path: Path) -> None:
    """A layer of INT4 weights that computes in `float` or `float16`."""
    model = parsed(
        f"({kind}[2,4] x) => ({kind}[2,3] y) {{ f = DequantizeLinear (w, s) p = MatMul (x, f)"
        " y = Relu (p) }",
        opset=21,
        s=np.array(0.5, {"float": np.float32, "float16": np.float16}[kind]),
    )
    numbers = [n % 16 - 8 for n in range(12)]
    four = onnx.TensorProto.INT4
    model.graph.initializer.append(onnx.helper.make_tensor("w", four, (4, 3), numbers))
    onnx.save(model, path)


def test_four_bits_are_prepared_in_formats_that_have_them(shows, tmp_path, capfd):
    of_four_bits("float", tmp_path / "m.onnx")
    for form in ("onnx", "context"):
        (made,) = ep_nnapi.prepare(tmp_path / "m.onnx", tmp_path / form, format=form).models
        assert (made.report["nodes"], made.report["taken"], made.level) == (3, 3, "basic")
        given = ["prepare", str(tmp_path / "m.onnx"), "-o", str(tmp_path / form), "--format", form]
        assert "optimized at level basic in place of nnapi-aware" in shows(*given)
        (entry,) = json.loads((tmp_path / form / "manifest.json").read_text())["models"]
        assert entry["level"] == "basic"
    assert main(["prepare", str(tmp_path / "m.onnx"), "-o", str(tmp_path / "ort")]) == 1
    said = "own format has no w of type INT4; take the format onnx or context"
    assert said in capfd.readouterr().err


def test_four_bits_are_prepared_where_the_cpu_has_kernels_after_casts_alone(tmp_path, capfd):
    """In float16, for which ONNX Runtime saves no .ort file before it has added casts."""
    of_four_bits("float16", tmp_path / "m.onnx")
    for form in ("onnx", "context"):
        (made,) = ep_nnapi.prepare(tmp_path / "m.onnx", tmp_path / form, format=form).models
        assert (made.error, made.level) == (None, "basic")
    assert main(["prepare", str(tmp_path / "m.onnx"), "-o", str(tmp_path / "ort")]) == 1
    assert "own format has no w of type INT4; take the format onnx" in capfd.readouterr().err


def test_what_is_no_model_is_refused_after_both_ways(tmp_path: Path) -> None:
    (tmp_path / "a.onnx").write_bytes(b"nonsense")
    with pytest.raises(ep_nnapi.ModelError, match=r"a\.onnx: ONNX Runtime cannot load it"):
        save_ort(tmp_path / "a.onnx", tmp_path / "a.ort", job_of({}))
    assert [p.name for p in tmp_path.iterdir()] == ["a.onnx"]


@pytest.mark.parametrize("level", [1, 2, 3])
def test_half_precision_is_compiled_where_nnapi_has_none(level: int, tmp_path: Path) -> None:
    """At the levels below 3 its clusters are of float32, which ONNX Runtime casts constants to."""
    weights = np.random.default_rng(3).standard_normal((3, 2, 3, 3)).astype(np.float16)
    text = """(float16[1,2,4,4] x) => (float16[1,3,2,2] y) {
        [conv] c = Conv (x, w) [relu] y = Relu (c) }"""
    model = tmp_path / "a.onnx"
    onnx.save(parsed(text, w=weights), model)
    given = {"format": "context", "feature_level": level, "tolerance": 0.01}
    (found,) = ep_nnapi.prepare(model, tmp_path / "out", **given).models
    assert found.error is None  # 0.01: 18 products in float16 or float32, rounded to float16
    assert found.report is not None
    assert {"conv", "relu"} <= {n for c in found.report["clusters"] for n in c["nodes"]}


def constant_or_not(path: Path) -> Path:
    """A branch of If that is a constant, which ONNX Runtime keeps as a graph without nodes."""
    text = """(bool c, float[2] x) => (float[2] y) {
        y = If (c) <
            then_branch = then () => (float[2] k) { k = Constant <value = float[2] {2, 3}> () },
            else_branch = else () => (float[2] r) { r = Relu (x) }> }"""
    onnx.save(parsed(text), path)
    return path


@pytest.mark.parametrize("chosen", [True, False])
def test_a_branch_that_is_a_constant_is_kept(chosen: bool, tmp_path: Path) -> None:
    paths = prepared(constant_or_not(tmp_path / "a.onnx"), tmp_path, "onnx", "context")
    feeds = {"x": np.array([-1, 1], np.float32), "c": np.array(chosen)}
    for got in computed(paths, feeds):
        assert got["y"].tolist() == ([2, 3] if chosen else [0, 1])


def test_a_model_that_only_holds_a_constant(tmp_path: Path) -> None:
    text = "() => (float[2] y) { y = Constant <value = float[2] {2, 3}> () }"
    onnx.save(parsed(text), tmp_path / "a.onnx")
    paths = prepared(tmp_path / "a.onnx", tmp_path, "ort", "onnx")
    for got in computed(paths, {}, plain=True):
        assert got["y"].tolist() == [2, 3]


# Names in models that ONNX Runtime saved: those that it could not load again are changed


def products(path: Path, *names: str) -> Path:
    """Reshape by constants of those names, which are equal, then MatMul and Add."""
    chain = " ".join(
        f"r{i} = Reshape ({f'r{i - 1}' if i else 'x'}, {name})" for i, name in enumerate(names)
    )
    weights = np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32)
    text = f"""(float[2,4,4] x) => (float[2,4,4] y) {{
        {chain} m = MatMul (r{len(names) - 1}, w) y = Add (m, b) }}"""
    onnx.save(
        parsed(text, **dict.fromkeys(names, np.array([2, 4, 4])), w=weights, b=weights[0]), path
    )
    return path


def rows(path: Path, *names: str) -> Path:
    """Unsqueeze and Squeeze by constants of those names, which are equal, then two Gathers."""
    text, last = "", "x"
    for i, name in enumerate(names):
        text += (
            f"u{i} = Unsqueeze ({last}, {name}) a{i} = Abs (u{i}) s{i} = Squeeze (a{i}, {name}) "
        )
        last = f"s{i}"
    text += "".join(f"g{k} = Gather <axis = 0> ({last}, row{k}) " for k in (0, 1))
    constants = {name: np.array([0]) for name in names} | {f"row{k}": np.array(k) for k in (0, 1)}
    text += "y = Sub (g0, g1)"
    onnx.save(model_of(text, {"x": (2, 4)}, {"y": (4,)}, constants, ir_version=9), path)
    return path


def test_constants_of_a_split_get_other_names(tmp_path: Path) -> None:
    """With which onnxruntime 1.32 cannot load this model, as a graph network that is prepared."""
    path = rows(tmp_path / "a.onnx", "one", "squeeze_axes", "splits")
    feeds = {"x": np.random.default_rng(3).standard_normal((2, 4)).astype(np.float32)}
    want = original(onnx.load(rows(tmp_path / "b.onnx", "one", "two", "three")), feeds)
    rename_generated(path)
    names = {t.name for t in onnx.load(path).graph.initializer}
    assert {"one", "prepared_squeeze_axes", "prepared_splits"} <= names
    assert apart(original(onnx.load(path), feeds), want) == 0


def test_constants_that_onnx_runtime_named_get_other_names(tmp_path: Path) -> None:
    """With which onnxruntime 1.31 cannot load this model."""
    path = products(tmp_path / "a.onnx", "gemm_input_shape", "gemm_output_shape_token_3")
    feeds = {"x": np.random.default_rng(2).standard_normal((2, 4, 4)).astype(np.float32)}
    want = original(onnx.load(products(tmp_path / "b.onnx", "one", "two")), feeds)
    rename_generated(path)
    proto = onnx.load(path)
    names = {t.name for t in proto.graph.initializer}
    assert names == {"prepared_gemm_input_shape", "prepared_gemm_output_shape_token_3", "w", "b"}
    assert apart(original(proto, feeds), want) == 0


def test_names_of_an_earlier_optimization_are_taken(tmp_path: Path) -> None:
    path = products(tmp_path / "a.onnx", "prepared_gemm_input_shape", "gemm_input_shape")
    rename_generated(path)
    proto = onnx.load(path)
    onnx.checker.check_model(proto)
    assert {t.name.count("prepared_") for t in proto.graph.initializer[:2]} == {1, 2}


def test_other_models_are_left_as_they_are(tmp_path: Path) -> None:
    path = products(tmp_path / "a.onnx", "shape")
    before = path.stat()
    rename_generated(path)
    assert path.stat() == before
    session = session_of(str(path))
    assert session.get_inputs()[0].name == "x"


# Nodes that each optimization level leaves to NNAPI, as ONNX Runtime's documentation says

MNIST = DIGITS.parents[2] / "shared" / "models" / "mnist.onnx"
MODELS = [
    pytest.param(DIGITS, id="digits"),
    pytest.param(
        MNIST,
        id="mnist",
        marks=pytest.mark.skipif(not MNIST.exists(), reason="not part of the repository"),
    ),
]


@pytest.mark.parametrize("model", MODELS)
def test_levels_do_what_the_documentation_says(model: Path) -> None:
    basic, extended, aware = (left_by(model, level, "builtin-nnapi")[2:] for level in LEVELS)
    assert basic == aware == ("8", "1", "none")
    assert extended == ("6", "2", "2 FusedConv")


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("model", MODELS)
def test_check_shows_it(shows, model: Path, level: str) -> None:
    given = ["--optimization-level", level, "--target", "builtin-nnapi"]
    printed = shows("check", model, *given)
    if level == "extended":
        assert "NNAPI takes 4 of 6 nodes in 2 clusters" in printed
        assert re.search(r"^FusedConv +2 ", printed, re.MULTILINE)
    else:
        assert "NNAPI takes 8 of 8 nodes in 1 cluster at" in printed


@pytest.mark.parametrize("model", MODELS)
def test_our_own_target_takes_fused_convolutions(model: Path) -> None:
    assert left_by(model, "extended", "ep-nnapi")[2:] == ("6", "1", "none")


# File names that no tool expects: one fails alone, or is written down escaped

NEWLINE, ESCAPES = "new\nline.onnx", "escape\x1b[31m.onnx"


def test_odd_names_in_a_directory(tmp_path: Path) -> None:
    for name in ("good.onnx", NEWLINE, ESCAPES):
        tiny(tmp_path / "in" / name)
    (tmp_path / "in" / "loop.onnx").symlink_to("loop.onnx")
    (tmp_path / "in" / "empty.onnx").touch()
    (tmp_path / "in" / "\udcff.onnx").touch()
    done = ep_nnapi.prepare(tmp_path / "in", tmp_path / "out", verify=False)
    assert statuses(done) == {
        "good.onnx": "prepared",
        "loop.onnx": "failed",
        "empty.onnx": "failed",
        "\udcff.onnx": "failed",
        NEWLINE: "prepared",
        ESCAPES: "prepared",
    }
    assert [str(m.error).rpartition(": ")[2] for m in done.failed] == [
        "the file is empty",
        "no such file",
        "ONNX Runtime opens no file whose name is not UTF-8",
    ]
    lines = (tmp_path / "out" / "required_operators.config").read_text().splitlines()
    assert lines[1:4] == [r"# - escape\x1b[31m.ort", "# - good.ort", r"# - new\nline.ort"]
    assert all(line.count(";") == 2 for line in lines[4:])


def test_a_link_that_leads_to_itself_alone(tmp_path: Path) -> None:
    (tmp_path / "loop.onnx").symlink_to("loop.onnx")
    with pytest.raises(ep_nnapi.ModelError, match=r"loop\.onnx: no such file"):
        ep_nnapi.prepare(tmp_path / "loop.onnx", tmp_path / "out")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [("a\0b", "a NUL character"), ("\udcff", "not UTF-8"), ("a" * 256, "File name too long")],
)
def test_a_name_that_no_model_may_have(name: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(ep_nnapi.ModelError, match=sentence):
        ep_nnapi.prepare(tmp_path / f"{name}.onnx", tmp_path / "out")


def test_the_timeout_covers_reading_the_model(tmp_path: Path) -> None:
    """A sparse file, whose digest alone would take minutes."""
    with (tmp_path / "large.onnx").open("wb") as stream:
        stream.truncate(60 << 30)
    with pytest.raises(ep_nnapi.ModelError, match="it took longer than 1 seconds"):
        ep_nnapi.prepare(tmp_path / "large.onnx", tmp_path / "out", timeout=1)
