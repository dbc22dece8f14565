"""Verbs that print what there is: `listing`, `lib`, `ops`, `report`."""

import ctypes
import json
import re
from pathlib import Path

import pytest

import ep_nnapi
from ep_nnapi.operators import OPS
from tests.cli.command import DIGITS, DONE, NEGATIVE
from tests.html_report.models import embedded
from tests.nnapi.listing_parser import parse


def test_listing_is_a_model_of_each_cluster(shows):
    out = shows("listing", DIGITS, "--exclude", "MaxPool")
    assert len(re.findall("^model", out, re.M)) == 3
    assert out.count("CONV_2D(") == 2


def test_json_has_the_clusters_of_check_with_their_models(shows, cli):
    out = shows("listing", DIGITS, "--exclude", "MaxPool", "--weights", "--json")
    found = json.loads(out)
    texts = [cluster.pop("model") for cluster in found]
    expected = json.loads(cli("check", DIGITS, "--exclude", "MaxPool", "--json")[1])["clusters"]
    assert found == expected
    wanted = [text.count(" -> output=") for text in texts]
    assert [len(parse(text).operations) for text in texts] == wanted


def test_weights_are_printed_only_when_asked(cli):
    """In full, the model can be rebuilt from the text; the two tell the same of all else."""
    short, full = cli("listing", DIGITS)[1], cli("listing", DIGITS, "--weights")[1]
    assert re.search(r"%1: TENSOR_FLOAT32 \[16, 5, 5, 1\] constant of 1600 bytes, sha256 ", short)
    assert "base64" not in short
    assert len(parse(full).operands) == 17
    assert len(short) < len(full) / 4
    rest = [re.sub("constant.*", "", text) for text in (short, full)]
    assert rest[0] == rest[1]


def test_listing_of_nothing_is_exit_1(cli):
    excluded = "Conv,Relu,MaxPool,Reshape,Gemm"
    code, out, err = cli("listing", DIGITS, "--exclude", excluded)
    assert (code, out) == (NEGATIVE, "")
    assert "takes no node" in err
    assert cli("listing", DIGITS, "--exclude", excluded, "--json")[:2] == (NEGATIVE, "[]\n")


# `ep-nnapi lib`: the library for C programs, and its header


def printed(cli, *arguments: object) -> str:
    code, out, _ = cli("lib", *arguments)
    assert code == 0
    return out.rstrip("\n")


def test_lib_prints_the_library(cli) -> None:
    path = printed(cli)
    assert path == ep_nnapi.libneuralnetworks_path()
    assert ctypes.CDLL(path).ANeuralNetworksModel_create


def test_lib_writes_the_header(cli, tmp_path: Path) -> None:
    written = Path(printed(cli, "--header", tmp_path))
    assert written == tmp_path / "android" / "NeuralNetworks.h"
    assert "ANeuralNetworksModel_create" in written.read_text()


def test_json_has_what_the_single_arguments_print(cli) -> None:
    names = ["cflags", "libs", "pkgconfigdir", "cmakedir"]
    expected = {"path": printed(cli)} | {name: printed(cli, f"--{name}") for name in names}
    assert json.loads(printed(cli, "--json")) == expected


@pytest.mark.parametrize("other", [["--cflags"], ["--cmakedir"], ["--header", "nowhere"]])
def test_json_goes_with_nothing_else(refuses, other: list[str]) -> None:
    refuses("lib", "--json", *other, says="give it alone")
    assert not Path("nowhere").exists()


# `ops`: every operator that can be taken


def test_ops(shows, cli):
    out = shows("ops")
    for op in OPS:
        assert re.search(rf"^({op.domain}:)?{op.op_type} +{op.since}\+", out, re.M), op.op_type
    rows = json.loads(cli("ops", "--json")[1])
    assert {(r["op_type"], r["since"]) for r in rows} == {(o.op_type, o.since) for o in OPS}
    assert all(1 <= r["level"] <= 8 and r["operations"] and r["summary"] for r in rows)


def test_the_level_is_the_lowest_of_the_operations(cli):
    """An operator that needs several of them may need a higher one."""
    head, *rows = cli("ops")[1].splitlines()
    assert "lowest level" in head
    at = head.index("lowest level")
    (row,) = (r for r in rows if r.startswith("DynamicQuantizeLinear "))
    assert row[at:].split()[0] == "1"


# `ep-nnapi report`: a page, one line about it, and the report as JSON


def test_one_line_and_a_page(cli, tmp_path: Path):
    page = tmp_path / "report.html"
    code, out, err = cli("report", DIGITS, "-o", page, "--no-levels", "--feature-level", "3")
    report = ep_nnapi.check(DIGITS, feature_level=3)
    assert (code, out, err) == (DONE, f"{page}: {report.summary}\n", "")
    assert embedded(page.read_text(encoding="utf-8"))["report"] == report.to_json()


def test_json(shows, tmp_path: Path):
    page = tmp_path / "report.html"
    out = shows("report", DIGITS, "-o", page, "--no-levels", "--json")
    assert json.loads(out) == {"output": str(page), "report": ep_nnapi.check(DIGITS).to_json()}


def test_an_output_is_needed(refuses):
    refuses("report", DIGITS, says="-o/--output")


def test_a_missing_model(refuses, tmp_path: Path):
    refuses("report", "none.onnx", "-o", tmp_path / "r.html", says="none.onnx: no such file")
    assert not list(tmp_path.iterdir())


# `ep-nnapi report --receipt`: what ran where, what gave way before it, and why

CLUSTER = {
    "name": "nnapi_0",
    "device": "cpu",
    "runs": 3,
    "device_runs": 2,
    "fallbacks": [],
    "alternative": "cpu",
    "tried": [
        {"alternative": "nnapi:4 on npu", "reason": "npu declines operation 3", "runs": 1},
        {"alternative": "nnapi:1 on npu", "reason": "it did not compile within 30 s", "runs": 0},
    ],
}


def with_receipt(folder: Path, text: str) -> list[object]:
    """Words that ask for a page, without levels, about a run with this receipt."""
    (folder / "receipt.json").write_text(text)
    page = folder / "page.html"
    return ["report", DIGITS, "-o", page, "--no-levels", "--receipt", folder / "receipt.json"]


def test_a_receipt_is_shown(shows, tmp_path: Path):
    receipt = json.dumps({"format": "ep-nnapi receipt", "clusters": [CLUSTER]})
    words = with_receipt(tmp_path, receipt)
    said = shows(*words)
    assert "nnapi_0  cpu      2         3   nnapi:4 on npu: npu declines operation 3" in said
    assert "nnapi:1 on npu: it did not compile within 30 s" in said
    said = shows(*words, "--json")
    assert json.loads(said)["receipt"]["clusters"] == [CLUSTER]


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"format": "ep-nnapi receipt"}'])
def test_other_files_are_no_receipts(refuses, text: str, tmp_path: Path):
    says = "is no receipt; a session with the option receipt writes one"
    refuses(*with_receipt(tmp_path, text), says=says)
    assert not (tmp_path / "page.html").exists()
