"""`listing`: the NNAPI models that a model is lowered to."""

from __future__ import annotations

import json
import re

import onnx
from onnx import helper

from tests.cli.command import DIGITS, DONE, NEGATIVE
from tests.nnapi.listing_parser import parse


def test_listing_is_a_model_of_each_cluster(cli):
    code, out, err = cli("listing", DIGITS, "--exclude", "MaxPool")
    assert (code, err) == (DONE, "")
    assert len(re.findall("^model", out, re.M)) == 3
    assert out.count("CONV_2D(") == 2


def test_json_has_the_clusters_of_check_with_their_models(cli):
    code, out, _ = cli("listing", DIGITS, "--exclude", "MaxPool", "--weights", "--json")
    assert code == DONE
    found = json.loads(out)
    texts = [cluster.pop("model") for cluster in found]
    assert (
        found == json.loads(cli("check", DIGITS, "--exclude", "MaxPool", "--json")[1])["clusters"]
    )
    assert [len(parse(text).operations) for text in texts] == [
        text.count(" -> output=") for text in texts
    ]


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


def test_sizes_that_are_only_tried_are_said_to_be(cli, tmp_path):
    """On stderr, as the model is complete for the sizes in it."""
    ends = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, ["n", 4]) for n in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = tmp_path / "m.onnx"
    onnx.save(model, path)
    code, out, err = cli("listing", path)
    assert (code, out.count("[64, 4]")) == (DONE, 2)
    assert err.startswith("ep-nnapi: x is ['n', 4]: sizes that come of it are only tried here")
    assert cli("listing", path, "--fix", "n=2")[2] == ""
