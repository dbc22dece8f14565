"""`listing`: the NNAPI models that a model is lowered to."""

from __future__ import annotations

import re

from tests.cli.command import DIGITS, DONE, NEGATIVE


def test_listing_is_a_model_of_each_cluster(cli):
    code, out, err = cli("listing", DIGITS, "--exclude", "MaxPool")
    assert (code, err) == (DONE, "")
    assert len(re.findall("^model", out, re.M)) == 3
    assert out.count("CONV_2D(") == 2


def test_listing_of_nothing_is_exit_1(cli):
    excluded = "Conv,Relu,MaxPool,Reshape,Gemm"
    code, out, err = cli("listing", DIGITS, "--exclude", excluded)
    assert (code, out) == (NEGATIVE, "")
    assert "takes no node" in err
