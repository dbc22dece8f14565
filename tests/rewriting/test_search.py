"""The search for rewrites: each step starts where the last one ended, and gains something."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from ep_nnapi.rewriting.clips import clips_as_min_and_max
from ep_nnapi.rewriting.definitions import expand_definitions
from ep_nnapi.rewriting.search import Search
from tests.rewriting.test_fix import activations, left


def copy(model: onnx.ModelProto, names: object) -> onnx.ModelProto | None:
    made = onnx.ModelProto()
    made.CopyFrom(model)
    return made


def unknown_operator(model: onnx.ModelProto, names: object) -> onnx.ModelProto | None:
    made = onnx.ModelProto()
    made.CopyFrom(model)
    made.graph.node[0].op_type = "None"
    return made


@pytest.fixture
def search(tmp_path: Path) -> Search:
    """One that has begun with activations that ONNX Runtime's own provider refuses."""
    found = Search(tmp_path, {"target": "builtin-nnapi"})
    first = found.optimized(activations())
    found.start("optimized", found._checked(first), first)
    return found


def test_each_step_starts_where_the_last_one_ended(search: Search):
    search.attempt("clips", clips_as_min_and_max)
    search.attempt("definitions", expand_definitions)
    assert [s.name for s in search.steps] == ["clips (Clip)", "definitions (HardSigmoid)"]
    one, other = search.steps
    assert one.after == other.before
    assert other.after == search.report
    for step in search.steps:
        before = (left(step.before), len(step.before.clusters))
        assert (left(step.after), len(step.after.clusters)) < before


def test_a_rewrite_that_gains_nothing_is_named(search: Search):
    search.attempt("copies", copy)
    assert (search.steps, search.useless) == ([], ["copies"])


def test_a_result_that_onnx_runtime_cannot_load_is_no_rewrite(search: Search):
    search.attempt("unknown", unknown_operator)
    assert (search.steps, search.useless) == ([], [])


def test_gains_keeps_nothing(search: Search):
    before = search.model
    assert search.gains(clips_as_min_and_max)
    assert not search.gains(copy)
    assert (search.model is before, search.steps, search.useless) == (True, [], [])
