"""`check`: the report, all levels, a baseline as a gate, refusals by reason."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from onnx import helper

import ep_nnapi
from ep_nnapi.cli.main import main
from tests.cli.command import DIGITS, DONE, NEGATIVE, saved

BUILTIN = ["--target", "builtin-nnapi"]
SPECIALIZE = ["--dynamic-shapes", "specialize"]


def test_check_prints_clusters(cli):
    code, out, err = cli("check", DIGITS)
    assert (code, err) == (DONE, "")
    assert out.startswith("NNAPI takes 8 of 8 nodes in 1 cluster at feature level 8.\n")
    assert "\n1 cluster, proven minimal.\n" in out
    assert "nnapi-reference" in out
    assert "2 Conv, 2 Relu, 2 MaxPool, 1 Reshape, 1 Gemm  Conv_1 to MatMul_10/MatMulAdd" in out


def test_check_json_is_the_report(cli):
    code, out, err = cli("check", DIGITS, "--json", "--feature-level", 3)
    assert (code, err) == (DONE, "")
    assert json.loads(out) == ep_nnapi.check(DIGITS, feature_level=3).to_json()


def test_check_says_why_a_node_is_left(cli, tmp_path: Path):
    path = saved(
        tmp_path,
        helper.make_node("Relu", ["x"], ["a"], "taken"),
        helper.make_node("RandomNormalLike", ["a"], ["y"], "left"),
    )
    code, out, _ = cli("check", path)
    assert code == DONE
    assert "NNAPI takes 1 of 2 nodes" in out
    assert "Left to the CPU: 1 node\n" in out
    assert re.search(r"OP \(1\): .+\n.*\nRandomNormalLike +1 +left +RandomNormalLike: .+", out)


def test_strict_is_exit_1_unless_every_node_is_taken(cli):
    assert cli("check", DIGITS, "--strict")[0] == DONE
    code, out, err = cli("check", DIGITS, "--strict", "--exclude", "MaxPool")
    assert (code, err) == (NEGATIVE, "")
    assert "NNAPI takes 6 of 8 nodes in 3 clusters" in out


def test_levels_show_one_row_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", DIGITS, "--levels", *BUILTIN]) == 0
    head, *rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert head[0] == "level"
    assert [row[:4] for row in rows] == [
        ["1", "8", "4", "3"],  # its Conv and MaxPool need level 2
        *[[str(level), "8", "8", "1"] for level in range(2, 9)],
    ]


def test_levels_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", DIGITS, "--levels", "--json"]) == 0
    reports = json.loads(capsys.readouterr().out)
    assert [r["feature_level"] for r in reports] == [1, 2, 3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize("option", ["--feature-level", "--api-level"])
def test_levels_and_a_level_exclude_each_other(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", DIGITS, "--levels", option, "28"[: 1 if "feature" in option else 2]]) == 2
    assert "--levels shows every feature level" in capsys.readouterr().err


def test_refusals_are_grouped_by_reason_with_counts_and_advice(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["check", DIGITS, "--feature-level", "1", "--exclude", "Relu", *BUILTIN]) == 0
    printed = capsys.readouterr().out
    assert "Left to the CPU: 6 nodes" in printed
    assert "LEVEL (4): target newer phones" in printed
    assert "EXCLUDED (2): none needed: an option excludes it" in printed
    assert printed.index("LEVEL") < printed.index("EXCLUDED")


def test_what_follows_is_folded_into_its_cause(cli, tmp_path: Path):
    """Causes are shown, one row for those of a kind; the rest is a number."""
    node = helper.make_node
    chain = [
        node("Neg", ["ac"[i % 2] + str(i)], ["ca"[i % 2] + str(i + 1)], f"n{i}") for i in range(9)
    ]
    path = saved(
        tmp_path,
        node("Cast", ["x"], ["a0"], "to", to=11),
        *chain,
        node("Cast", ["c9"], ["y"], "from", to=1),
    )
    out = cli("check", path)[1]
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
    path = saved(tmp_path, helper.make_node("Erf", ["x"], ["y"], "e"))
    out = cli("check", path, *BUILTIN)[1]
    assert "OP (1): replace the operator (ep-nnapi takes it; builtin-nnapi does not)\n" in out
    assert "NNAPI has no equivalent" not in out


def test_symbolic_sizes_are_to_be_fixed(cli, tmp_path: Path):
    path = saved(tmp_path, helper.make_node("Relu", ["x"], ["y"], "relu"), shape=("batch", 3))
    for options in (["--dynamic-shapes", "off"], BUILTIN):
        out = cli("check", path, *options)[1]
        assert "SHAPE (1): fix the sizes of inputs (--fix name=1,3,224,224)\n" in out
        assert "x dimension 0 is 'batch'; fix it to a number" in out
        assert "NNAPI takes 1 of 1 node " in cli("check", path, *options, "--fix", "batch=2")[1]
    assert "NNAPI takes 1 of 1 node " in cli("check", path, *BUILTIN, *SPECIALIZE)[1]
