"""`check`: the report, all levels, a baseline as a gate, refusals by reason."""

import json
import os
import re
from pathlib import Path

import onnx
import pytest

import ep_nnapi
from tests.cli.command import DIGITS, DONE, NEGATIVE, UNUSABLE, saved
from tests.end_to_end.sessions import nnapi_session

BUILTIN = ["--target", "builtin-nnapi"]
SPECIALIZE = ["--dynamic-shapes", "specialize"]


def test_check_prints_clusters(shows):
    out = shows("check", DIGITS)
    assert out.startswith("NNAPI takes 8 of 8 nodes in 1 cluster at feature level 8.\n")
    assert "\n1 cluster, proven minimal.\n" in out
    assert "nnapi-reference" in out
    assert "2 Conv, 2 Relu, 2 MaxPool, 1 Reshape, 1 Gemm  Conv_1 to MatMul_10/MatMulAdd" in out


def test_check_json_is_the_report(shows):
    out = shows("check", DIGITS, "--json", "--feature-level", 3)
    assert json.loads(out) == ep_nnapi.check(DIGITS, feature_level=3).to_json()


def test_check_says_why_a_node_is_left(shows, tmp_path: Path):
    path = saved(tmp_path, "[taken] a = Relu (x) [left] y = RandomNormalLike (a)")
    out = shows("check", path)
    assert "NNAPI takes 1 of 2 nodes" in out
    assert "Left to the CPU: 1 node\n" in out
    assert re.search(r"OP \(1\): .+\n.*\nRandomNormalLike +1 +left +RandomNormalLike: .+", out)


def test_strict_is_exit_1_unless_every_node_is_taken(cli):
    assert cli("check", DIGITS, "--strict")[0] == DONE
    code, out, err = cli("check", DIGITS, "--strict", "--exclude", "MaxPool")
    assert (code, err) == (NEGATIVE, "")
    assert "NNAPI takes 6 of 8 nodes in 3 clusters" in out


def test_levels_show_one_row_each(shows):
    out = shows("check", DIGITS, "--levels", *BUILTIN)
    head, *rows = [line.split() for line in out.splitlines()]
    assert head[0] == "level"
    assert [row[:4] for row in rows] == [
        ["1", "8", "4", "3"],  # its Conv and MaxPool need level 2
        *[[str(level), "8", "8", "1"] for level in range(2, 9)],
    ]


def test_levels_as_json(shows):
    out = shows("check", DIGITS, "--levels", "--json")
    assert [r["feature_level"] for r in json.loads(out)] == [1, 2, 3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize(("option", "level"), [("--feature-level", 2), ("--api-level", 28)])
def test_levels_and_a_level_exclude_each_other(option: str, level: int, refuses):
    refuses("check", DIGITS, "--levels", option, level, says="--levels shows every feature level")


def test_refusals_are_grouped_by_reason_with_counts_and_advice(shows):
    printed = shows("check", DIGITS, "--feature-level", 1, "--exclude", "Relu", *BUILTIN)
    assert "Left to the CPU: 6 nodes" in printed
    assert "LEVEL (4): target newer phones" in printed
    assert "EXCLUDED (2): none needed: an option excludes it" in printed
    assert printed.index("LEVEL") < printed.index("EXCLUDED")


def test_what_follows_is_folded_into_its_cause(cli, tmp_path: Path):
    """Causes are shown, one row for those of a kind; the rest is a number."""
    chain = " ".join(f"[n{i}] v{i + 1} = Neg (v{i})" for i in range(9))
    text = f"[to] v0 = Cast <to = 11> (x) {chain} [from] y = Cast <to = 1> (v9)"
    out = cli("check", saved(tmp_path, text))[1]
    assert re.search(r"^DTYPE \(\d+\): convert the tensor", out, re.M)
    assert re.search(r"^\d+ more follow from (this one|these \d+)\.$", out, re.M)
    assert "n8" not in out


def test_refusals_of_one_kind_are_a_row(cli):
    arguments = ["check", DIGITS, "--feature-level", "1", *BUILTIN]
    out = cli(*arguments)[1]
    says = "ONNX Runtime's own provider: Conv needs feature level 2"
    assert re.search(rf"^Conv +2 +Conv_1 to Conv_5 +{says}", out, re.M)


def test_advice_is_true_for_the_target(cli, tmp_path: Path):
    """Advice for a node that this provider takes and ONNX Runtime's own one does not."""
    path = saved(tmp_path, "[e] y = Erf (x)")
    out = cli("check", path, *BUILTIN)[1]
    assert "OP (1): replace the operator (ep-nnapi takes it; builtin-nnapi does not)\n" in out
    assert "NNAPI has no equivalent" not in out


def test_symbolic_sizes_are_to_be_fixed(cli, tmp_path: Path):
    path = saved(tmp_path, "[relu] y = Relu (x)", shape=("batch", 3))
    for options in (["--dynamic-shapes", "off"], BUILTIN):
        out = cli("check", path, *options)[1]
        assert "SHAPE (1): fix the sizes of inputs (--fix name=1,3,224,224)\n" in out
        assert "x dimension 0 is 'batch'; fix it to a number" in out
        assert "NNAPI takes 1 of 1 node " in cli("check", path, *options, "--fix", "batch=2")[1]
    assert "NNAPI takes 1 of 1 node " in cli("check", path, *BUILTIN, *SPECIALIZE)[1]


# Gates of `check`: baselines of models and of directories


def test_a_baseline_that_is_kept_and_one_that_is_not(cli, tmp_path: Path):
    baseline = tmp_path / "old.json"
    baseline.write_text(cli("check", DIGITS, "--json")[1])
    assert cli("check", DIGITS, "--baseline", baseline)[0] == DONE
    code, _, printed = cli("check", DIGITS, "--baseline", baseline, "--exclude", "MaxPool")
    assert code == NEGATIVE
    assert "clusters grew from 1 to 3" in printed
    assert "border bytes grew from 296 to " in printed


def test_a_baseline_of_more_nodes_or_another_model(cli, tmp_path: Path):
    path, baseline = saved(tmp_path, "[r] y = Relu (x)"), tmp_path / "b"
    baseline.write_text(cli("check", path, "--json")[1])
    code, _, err = cli("check", path, "--baseline", baseline, "--exclude", "Relu")
    since = f"since {baseline}\n"
    assert (code, err) == (
        NEGATIVE,
        f"ep-nnapi: nodes on NNAPI fell from 1 of 1 to 0 of 1 {since}"
        f"ep-nnapi: Relu is rejected for EXCLUDED {since}",
    )
    code, _, err = cli("check", DIGITS, "--baseline", baseline)
    another = f"ep-nnapi: the model is another (8 nodes new and 1 gone) {since}"
    assert (code, err) == (NEGATIVE, another)


def test_a_directory_has_a_row_for_each_model_and_a_baseline(shows, cli, tmp_path: Path):
    for name in ("a", "b/c"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        path = saved(tmp_path, f"[{name[-1]}] y = Relu (x)")
        path.rename(tmp_path / f"{name}.onnx")
    out = shows("check", tmp_path)
    expected = [["a.onnx", "1", "1", "1"], ["b/c.onnx", "1", "1", "1"]]
    assert [row.split()[:4] for row in out.splitlines()[1:]] == expected
    baseline = tmp_path / "base.json"
    baseline.write_text(cli("check", tmp_path, "--json")[1])
    gate = ("check", tmp_path, "--baseline", baseline)
    assert cli(*gate)[::2] == (DONE, "")
    code, _, err = cli(*gate, "--exclude", "Relu", "--strict")
    assert code == NEGATIVE
    assert err.count("nodes on NNAPI fell from 1 of 1 to 0 of 1") == 2
    (tmp_path / "a.onnx").rename(tmp_path / "d.onnx")
    code, _, err = cli(*gate)
    since = f"since {baseline}\n"
    wanted = (NEGATIVE, f"ep-nnapi: d.onnx is new {since}ep-nnapi: a.onnx is gone {since}")
    assert (code, err) == wanted
    (tmp_path / "d.onnx").write_bytes(b"")
    code, out, err = cli("check", tmp_path, "--json")
    assert (code, err) == (NEGATIVE, "ep-nnapi: d.onnx: the file is empty\n")
    assert json.loads(out)[1]["model"] == {"path": "d.onnx"}


@pytest.mark.parametrize("argument", ["--levels", "--advise"])
def test_a_directory_has_no_report_of_one_model(argument: str, refuses, tmp_path: Path):
    refuses("check", tmp_path, argument, says=f"{argument} is about one model; give one")


@pytest.mark.parametrize("argument", ["--strict", "--baseline=b.json"])
def test_levels_are_no_gate(argument: str, refuses):
    refuses("check", DIGITS, "--levels", argument, says="exclude each other")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"clusters": 3}', "no json", "[" * 99999])
def test_a_baseline_that_is_no_report(text: str, tmp_path: Path, cli):
    baseline = tmp_path / "old.json"
    baseline.write_text(text)
    code, _, err = cli("check", DIGITS, "--baseline", baseline)
    assert (code, err.count("\n")) == (UNUSABLE, 1)


def test_files_that_are_missing(refuses):
    says = "nowhere.json: no such baseline"
    refuses("check", DIGITS, "--baseline", "nowhere.json", says=says)
    refuses("check", "missing.onnx", "--advise", says="missing.onnx")


# `check --format`: the files that it names, and arguments that contradict it

SUMMARY = ep_nnapi.check(DIGITS).summary


def test_files_of_model_explorer_are_listed(cli, tmp_path: Path):
    output = tmp_path / "g.json"
    names = ["g.json", "g.decision.json", "g.reason.json", "g.time.json"]
    lines = [f"{SUMMARY}.", *(str(tmp_path / name) for name in names)]
    code, out, err = cli("check", DIGITS, "--format", "model-explorer", "-o", output)
    assert (code, out.splitlines(), err) == (DONE, lines, "")
    assert all((tmp_path / name).is_file() for name in names)


def test_netron_with_strict(cli, tmp_path: Path):
    output = tmp_path / "d.onnx"
    arguments = ("--format", "netron", "--output", output, "--strict", "--exclude", "MaxPool")
    code, out, _ = cli("check", DIGITS, *arguments)
    assert code == NEGATIVE
    assert out.splitlines()[-1] == str(output)
    assert output.is_file()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--format", "netron"], "give both or neither"),
        (["-o", "x.onnx"], "give both or neither"),
        (["--format", "netron", "-o", "x", "--levels"], "drop --levels"),
        (["--format", "netron", "-o", "x", "--json"], "drop --levels"),
        (["--format", "netron", "-o", "x", "--optimization-level", "all"], "drop --levels"),
        (["--format", "dot", "-o", "x"], "invalid choice: 'dot'"),
    ],
)
def test_contradictions(refuses, arguments: list[str], says: str):
    refuses("check", DIGITS, *arguments, says=says)


# `check --advise`: text, JSON, and what it does not go with


def test_json_has_every_road(shows):
    out = shows("check", DIGITS, "--advise", "--json")
    roads = json.loads(out)
    assert [road["name"] for road in roads] == ["CPU", "XNNPACK", "WebGPU", "QNN", "LiteRT"]
    assert (roads[4]["taken"], roads[4]["nodes"]) == (8, 8)
    assert roads[2]["taken"] is None


@pytest.mark.parametrize("other", [["--levels"], ["--strict"], ["--optimization-level", "all"]])
def test_it_stands_alone(other: list[str], refuses):
    refuses("check", DIGITS, "--advise", *other, says=f"drop {other[0]}")


@pytest.mark.parametrize("option", ["settings", "device-profile", "calibration", "baseline"])
@pytest.mark.parametrize("never_ends", ["FIFO", "/dev/zero"])
def test_a_file_that_never_ends(option: str, never_ends: str, tmp_path: Path, refuses):
    if never_ends == "FIFO":
        os.mkfifo(never_ends := str(tmp_path / "f"))
    says = "cannot be read: it is no regular file"
    refuses("check", DIGITS, f"--{option}", never_ends, says=says)


@pytest.mark.fast_devices
def test_clusters_that_a_session_leaves_have_the_reason() -> None:
    """The partition is shown whole; without these clusters it is what a session takes."""
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 13]>
        g (float[2, 3] x) => (float[3, 2] y) <int64[2] sizes = {3, 2}> {
            a = Abs(x) b = Neg(a) c = RandomNormalLike(b) d = Reshape(c, sizes)
            y = RandomNormalLike(d)
        }"""
    ).SerializeToString()
    session = nnapi_session(model)
    taken = [tuple(c["nodes"]) for c in ep_nnapi.receipts()[-1]["clusters"]]
    report = ep_nnapi.check(model)
    assert [c.nodes for c in report.clusters if c.reason is None] == taken
    assert [c.reason for c in report.clusters] == [None, ep_nnapi.Reason.NOT_WORTH_IT]
    first, second = report.to_json()["clusters"]
    assert ("reason" in first, second["reason"]) == (False, "NOT_WORTH_IT")
    assert {c.reason for c in ep_nnapi.check(model, partitioning="maximal").clusters} == {None}
    del session
