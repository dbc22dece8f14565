"""The option `fix`: every command and session sees the model that `prepare` writes."""

import json
import re
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import ep_nnapi
from ep_nnapi.cli.main import main
from ep_nnapi.diagnostics.fixed_model import fixed_model, set_shapes, write_in
from ep_nnapi.options.table import parse
from ep_nnapi.sessions.cpu import session_of
from tests.end_to_end.sessions import nnapi_session
from tests.onnx_graph import model_of, parsed

HIDDEN = 8


def _network(stride: int) -> str:
    """A branch; one frame is squeezed where several are averaged, which its shape decides."""
    return f"""rate{stride} () => (float[n,1] p, float[2,n,{HIDDEN}] s) {{
        image = Unsqueeze (input, one)
        frames = Conv <kernel_shape = [{stride}], strides = [{stride}]> (image, w{stride})
        x = Relu (frames) sizes = Shape (x) last = Gather (sizes, two) alone = Equal (last, one)
        row = If (alone) <
            then_branch = single () => (float[n,{HIDDEN}] q) {{ q = Squeeze (x, two) }},
            else_branch = several () => (float[n,{HIDDEN}] q) {{
                q = ReduceMean <axes = [2], keepdims = 0> (x)
            }}
        >
        step = Unsqueeze (row, zero) h, c = Split <axis = 0> (state)
        y, hn, cn = LSTM <hidden_size = {HIDDEN}> (step, W, R, B, , h, c)
        flat = Squeeze (y, outer) sum = MatMul (flat, v) p = Sigmoid (sum)
        s = Concat <axis = 0> (hn, cn)
    }}"""


def voice_detector() -> onnx.ModelProto:
    """`output`, `stateN` of `input`, `state` and the sampling rate `sr`, 16000 or another."""
    rng = np.random.default_rng(0)

    def weights(*shape: int) -> np.ndarray:
        return rng.uniform(-0.5, 0.5, shape).astype(np.float32)

    return parsed(
        f"""(float[batch,length] input, float[2,batch,{HIDDEN}] state, int64 sr)
            => (float[batch,1] output, float[2,batch,{HIDDEN}] stateN) {{
        wide = Equal (sr, rate)
        output, stateN = If (wide) <then_branch = {_network(16)}, else_branch = {_network(8)}>
        }}""",
        opset=16,
        rate=np.array(16000),
        zero=[0],
        one=[1],
        two=[2],
        outer=[0, 1],
        w8=weights(HIDDEN, 1, 8),
        w16=weights(HIDDEN, 1, 16),
        W=weights(1, 4 * HIDDEN, HIDDEN),
        R=weights(1, 4 * HIDDEN, HIDDEN),
        B=weights(1, 8 * HIDDEN),
        v=weights(HIDDEN, 1),
    )


FLOAT, CPU = TensorProto.FLOAT, ["CPUExecutionProvider"]
SYMBOLS, SHAPE = "batch=2;height=4", "x=2,3,4,5"
COMMANDS = {
    "check": ["check"],
    "of a level": ["check", "--optimization-level", "basic"],
    "levels": ["check", "--levels"],
    "report": ["report", "-o", "page.html", "--no-levels"],
    "run": ["run", "--no-latency"],
    "compare": ["compare"],
}


def rows_of_pixels(path: Path, *dims: str | int | None, inner: bool = False) -> Path:
    """y = Relu(x) in rows of 5, with the number of rows computed; with `inner` in both branches."""
    last, inputs = "y = Relu (flat)", {"x": dims}
    if inner:
        branch, inputs = f"branch () => (float[rows,5] y) {{ {last} }}", inputs | {"c": (bool, ())}
        last = f"y = If (c) <then_branch = {branch}, else_branch = {branch}>"
    text = f"""sizes = Shape (x) count = ReduceProd <keepdims = 1> (sizes, all)
        rows = Div (count, five) to = Concat <axis = 0> (rows, five)
        flat = Reshape (x, to) {last}"""
    constants = {"all": [0], "five": [5]}
    onnx.save(model_of(text, inputs, {"y": ("rows", 5)}, constants, opset=18), path)
    return path


def test_a_symbol_is_fixed_wherever_it_occurs(tmp_path: Path) -> None:
    proto = onnx.load(rows_of_pixels(tmp_path / "m.onnx", "rows", 3, "h", None))
    set_shapes(proto, {"x": (5, 3, 2, 7)})
    x, y = proto.graph.input[0], proto.graph.output[0]
    assert [d.dim_value for d in x.type.tensor_type.shape.dim] == [5, 3, 2, 7]
    assert y.type.tensor_type.shape.dim[0].dim_value == 5


@pytest.mark.parametrize("fix", [SYMBOLS, SHAPE])
@pytest.mark.parametrize("target", ["ep-nnapi", "builtin-nnapi"])
def test_every_command_sees_what_is_prepared(fix: str, target: str, tmp_path, monkeypatch, capsys):
    """Shape arithmetic is folded, and border bytes are those of the sizes."""
    monkeypatch.chdir(tmp_path)
    path = str(rows_of_pixels(tmp_path / "m.onnx", "batch", 3, "height", 5))
    options = ["--fix", fix, "--target", target]
    (prepared,) = ep_nnapi.prepare(path, tmp_path / "out", fix=fix, target=target).models
    same = ("nodes", "capable", "taken", "clusters", "rejections")
    for command, (verb, *rest) in COMMANDS.items():
        assert main([verb, path, "--json", *rest, *options]) == 0, command
        found = json.loads(capsys.readouterr().out)
        for report in found if command == "levels" else [found.get("report", found)]:
            assert {k: report[k] for k in same} == {k: prepared.report[k] for k in same}, command
            assert (report["nodes"], report["taken"]) == (2, 2), command
            assert [c["boundary_bytes"] for c in report["clusters"]] == [2 * 120 * 4], command


def test_a_session_of_symbols_does_too(tmp_path: Path) -> None:
    path = rows_of_pixels(tmp_path / "m.onnx", "batch", 3, "height", 5)
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    ep_nnapi.append_execution_provider(options, fix=SYMBOLS, target="builtin-nnapi")
    session = onnxruntime.InferenceSession(str(path), options)
    parts = session.get_provider_graph_assignment_info()
    assert [(p.ep_name, len(p.get_nodes())) for p in parts] == [("NnapiPluginExecutionProvider", 2)]
    x = np.arange(-60, 60, dtype=np.float32).reshape(2, 3, 4, 5)
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], np.maximum(x.reshape(-1, 5), 0))


def test_a_session_says_which_sizes_it_does_not_have(tmp_path: Path, caplog) -> None:
    """By an input's name, or by names that the model does not have: ONNX Runtime ignores both."""
    path = rows_of_pixels(tmp_path / "m.onnx", "batch", 3, "height", 5)
    for fix, open_sizes in (
        (SHAPE, r"\['batch', 3, 'height', 5\].* a session takes none by an input's name \(x\)"),
        ("batch=2;heigth=4", "2, 3, 'height'.*name height in fix.*; did you mean height?"),
    ):
        caplog.clear()
        nnapi_session(path, fix=fix)
        assert len(caplog.records) == 1
        assert re.search(
            f"does not have all sizes of option fix: input x is .*{open_sizes}", caplog.text
        )


def test_a_session_whose_sizes_are_all_known_says_which_name_is_of_nothing(tmp_path: Path, caplog):
    for dims, fix, says in (
        (("batch", 3, 4, 5), "batch=2", ""),
        ((2, 3, 4, 5), "batch=2", "option fix names batch, which the model does not have"),
        (("batch", 3, 4, 5), "batch=2;heigth=4", "option fix names heigth, which the model"),
    ):
        path = rows_of_pixels(tmp_path / "m.onnx", *dims)
        caplog.clear()
        nnapi_session(path, fix=fix)
        assert [r.getMessage().startswith(says) for r in caplog.records] == [True] * bool(says)


@pytest.mark.parametrize("dims", [(None, 3, None, None), ("?", 3, "?", "?"), (-1, 3, -1, -1), None])
@pytest.mark.parametrize("command", [*COMMANDS, "tune", "fix", "prepare", "listing", "advise"])
def test_sizes_without_a_name_are_fixed_by_the_inputs(command, dims, tmp_path, monkeypatch, capsys):
    """None, the `?` of some exporters, which is no symbol, their -1, and no rank."""
    monkeypatch.chdir(tmp_path)
    path = rows_of_pixels(tmp_path / "m.onnx", *(dims or ("n", 3, "h", "w")))
    if dims is None:
        proto = onnx.load(path)
        proto.graph.input[0].type.tensor_type.ClearField("shape")
        onnx.save(proto, path)
    more = {
        "tune": ["tune", "-o", "s.json", "--seconds", "0.01", "--device", "nnapi-reference"],
        "fix": ["fix", "-o", "out.onnx"],
        "prepare": ["prepare", "-o", "out"],
        "listing": ["listing"],
        "advise": ["check", "--advise"],
    }
    verb, *rest = (COMMANDS | more)[command]
    assert main([verb, str(path), *rest, "--fix", SHAPE]) in (0, 1)  # 1: `fix` has nothing to gain
    assert "ep-nnapi: " not in capsys.readouterr().err


def test_names_are_those_of_the_main_graph(tmp_path: Path, capsys) -> None:
    """Graphs inside, which ONNX Runtime shows first, have other inputs."""
    path = str(rows_of_pixels(tmp_path / "m.onnx", "batch", 3, "height", 5, inner=True))
    assert main(["check", path, "--fix", SYMBOLS]) == 0
    assert "NNAPI takes 3 of 4 nodes" in capsys.readouterr().out  # the If itself is the CPU's
    assert main(["check", path, "--fix", "bath=2"]) == 2
    said = "ep-nnapi: fix: bath is no input or symbolic dimension; known: x, c, batch, height; "
    assert capsys.readouterr().err == f"{said}did you mean batch?\n"
    nnapi_session(path, fix=SYMBOLS)


def test_a_tuned_model_keeps_its_sizes(tmp_path: Path) -> None:
    """Settings are used with the original model."""
    path = rows_of_pixels(tmp_path / "m.onnx", "batch", 3, "height", 5)
    found = ep_nnapi.tune(path, seconds=0.01, fix=SYMBOLS, device="nnapi-reference")
    assert found.settings.options.get("fix", SYMBOLS) == SYMBOLS


def test_errors_name_the_model_and_compiled_ones_have_their_sizes(tmp_path: Path) -> None:
    path = rows_of_pixels(tmp_path / "m.onnx", "batch", 3, "height", 5)
    proto = onnx.load(path)
    proto.graph.node[0].op_type = "Shapes"
    onnx.save(proto, tmp_path / "bad.onnx")
    for given in (tmp_path / "bad.onnx", (tmp_path / "bad.onnx").read_bytes()):
        called = "the model" if isinstance(given, bytes) else str(given)
        with pytest.raises(ep_nnapi.ModelError, match=f"^{re.escape(called)}: ONNX Runtime") as e:
            ep_nnapi.check(given, fix=SHAPE)
        assert "ep-nnapi-" not in str(e.value)
    ep_nnapi.prepare(path, tmp_path / "out", format="context", fix=SHAPE)
    with pytest.raises(ep_nnapi.ModelError, match="it is compiled for its sizes already"):
        ep_nnapi.check(tmp_path / "out" / "m_ctx.onnx", fix=SHAPE)


def test_advice_repeats_the_sizes(shows, tmp_path: Path) -> None:
    path = str(rows_of_pixels(tmp_path / "m.onnx", "batch", 3, "height", 5))
    for road in json.loads(shows("check", path, "--advise", "--json", "--fix", SYMBOLS)):
        assert road["command"].endswith(f" --fix '{SYMBOLS}'")
    found = {
        r["name"]: r["command"]
        for r in json.loads(shows("check", path, "--advise", "--json", "--fix", "batch=2"))
    }
    assert found["LiteRT"].endswith(" --fix 'batch=2;x=SIZES'")


def test_nothing_to_fix_is_the_model_itself(tmp_path: Path) -> None:
    with fixed_model("m.onnx", parse({"device": "d"})) as found:
        assert found == ("m.onnx", parse({"device": "d"}))


@pytest.mark.parametrize("verb", [["check"], ["run"], ["prepare", "-o", "out"]])
def test_sizes_that_a_branch_does_not_take(verb: list[str], tmp_path: Path, monkeypatch, capsys):
    """The branch is never taken with them; ONNX Runtime infers its shapes all the same."""
    branches = (
        f"{b} = b{i} () => (float[n, 2] t{i}) {{ t{i} = MatMul(x, w{i}) }}"
        for i, b in enumerate(("then_branch", "else_branch"))
    )
    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[n, k] x, bool c) => (float[n, 2] y)
            <float[2, 2] w0 = {{1, 2, 3, 4}}, float[3, 2] w1 = {{1, 2, 3, 4, 5, 6}}>
        {{ y = If (c) <{", ".join(branches)}> }}"""
    )
    monkeypatch.chdir(tmp_path)
    onnx.save(model, "m.onnx")
    assert main([verb[0], "m.onnx", *verb[1:], "--fix", "x=1,2"]) != 0
    said = capsys.readouterr()
    assert "with the sizes of the option fix, which a node or a branch" in said.err + said.out


def test_a_model_that_never_loads_is_not_said_to_be_so_for_its_sizes(tmp_path: Path, capsys):
    node = onnx.helper.make_node("Thing", ["x"], ["y"], domain="my")
    values = [onnx.helper.make_tensor_value_info(v, 1, ["n", 3]) for v in "xy"]
    opsets = [onnx.helper.make_opsetid(*pair) for pair in (("", 17), ("my", 1))]
    graph = onnx.helper.make_graph([node], "g", values[:1], values[1:])
    onnx.save(
        onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "m.onnx"
    )
    assert main(["check", str(tmp_path / "m.onnx"), "--fix", "n=2"]) == 2
    said = capsys.readouterr().err
    assert "operator Thing is of domain my" in said
    assert "option fix" not in said


RATE = "sr:=16000;batch=1;length=64"


@pytest.fixture(scope="module")
def voices(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("voices") / "voices.onnx"
    onnx.save(voice_detector(), path)
    return path


@pytest.mark.parametrize("command", COMMANDS)
def test_a_frozen_input_decides_branches(shows, command: str, voices: Path, tmp_path) -> None:
    """Each command sees one cluster of the whole network, where the input itself decides."""
    verb, *rest = COMMANDS[command]
    rest = [str(tmp_path / a) if a == "page.html" else a for a in rest]
    found = json.loads(shows(verb, voices, "--json", *rest, "--fix", RATE))
    report = found[-1] if command == "levels" else found.get("report", found)
    assert (report["nodes"], report["taken"], len(report["clusters"])) == (11, 11, 1)


@pytest.mark.parametrize("form", ["ort", "onnx", "context"])
def test_what_is_prepared_carries_its_state(form: str, voices: Path, tmp_path: Path) -> None:
    """A second of sound, frame by frame; the original gets the sampling rate with each."""
    fix = {"sr": np.array(8000), "batch": 1, "length": 64}
    (made,) = ep_nnapi.prepare(voices, tmp_path, fix=fix, format=form).models
    assert made.status == "prepared"
    (path,) = (p for p in tmp_path.glob("voices*") if p.suffix in (".ort", ".onnx"))
    ours = nnapi_session(path)
    theirs = session_of(str(voices))
    assert [i.name for i in ours.get_inputs()] == ["input", "state"]
    sound = np.random.default_rng(0).standard_normal((125, 1, 64)).astype(np.float32)
    mine = state = np.zeros((2, 1, HIDDEN), np.float32)
    for frame in sound:
        rate = np.array(8000, np.int64)
        want, state = theirs.run(None, {"input": frame, "state": state, "sr": rate})
        got, mine = ours.run(None, {"input": frame, "state": mine})
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-5)  # float32, in another order
    np.testing.assert_allclose(mine, state, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("text", "dims", "array"),
    [
        ("2", (), [2]),
        ("2", (1, 2), [2, 2]),  # one number for all
        ("1,2", ("n",), [1, 2]),
        ("[[1,2]]", ("n", 2), [1, 2]),
        ("[1,2]", None, [1, 2]),
        ("2.5", (1,), [2.5]),
    ],
)
def test_numbers_take_the_inputs_shape(text: str, dims, array: list[float]) -> None:
    model = model_of("y = Add (x, z)", {"x": dims, "z": dims}, {"y": dims})
    write_in(model, parse({"fix": f"z:={text}"}).fix)
    assert [i.name for i in model.graph.input] == ["x"]
    (frozen,) = model.graph.initializer
    assert onnx.numpy_helper.to_array(frozen).reshape(-1).tolist() == array
    sizes = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    assert dims is None or sizes == [*frozen.dims]  # also of the other input with its symbol


@pytest.mark.parametrize(
    ("fix", "says"),
    [
        ("u:=1", r"fix: u is no input; known: x, z"),
        ("z:=1,2,3", r"z of \[2\] cannot be 3 numbers"),
        ("z:=[[1,2]]", r"z is fixed to \[1, 2\]; the model has \[2\]"),
        ("z:=0.5,1", "z of int64 cannot be 0.5"),
        ("x:=1e39", r"x of float32 cannot be 1e\+39"),
        ("n:=3", "n is no input"),
    ],
)
def test_what_cannot_be_frozen(fix: str, says: str) -> None:
    model = model_of("y = Cast <to = 1> (z)", {"x": ("n",), "z": (np.int64, (2,))}, {"y": (2,)})
    with pytest.raises(ep_nnapi.OptionError, match=says):
        write_in(model, parse({"fix": fix}).fix)


def test_what_is_no_tensor_has_no_sizes() -> None:
    model = model_of("y = Abs (x)", {"x": (2,)}, {"y": (2,)})
    kind = helper.make_optional_type_proto(helper.make_tensor_type_proto(1, ("n",)))
    model.graph.input.append(helper.make_value_info("o", kind))
    with pytest.raises(ep_nnapi.OptionError, match="fix: o is no tensor, so that it has no sizes"):
        write_in(model, parse({"fix": "o=2"}).fix)


def test_settings_freeze_nothing(voices: Path) -> None:
    with pytest.raises(ep_nnapi.OptionError, match="settings freeze no input: tune a model that"):
        ep_nnapi.tune(voices, fix=RATE)


def test_rewritten_models_are_compared_with_the_input_frozen(voices: Path, tmp_path: Path) -> None:
    found = ep_nnapi.fix(voices, tmp_path / "fixed.onnx", fix=RATE, partitioning="maximal")
    assert (found.written, found.after.taken, len(found.after.clusters)) == (True, 11, 1)
