"""A whole model runs on NNAPI inside a stock session, whichever way the provider is selected."""

from pathlib import Path

import numpy as np
import pytest
from onnxruntime import GraphOptimizationLevel

import ep_nnapi
from tests.end_to_end.sessions import (
    CPU,
    DIGITS,
    EXAMPLES,
    NAME,
    ROOT,
    WAYS,
    Example,
    profiled,
    quiet,
    same,
)

ways = pytest.mark.parametrize("way", WAYS)
models = pytest.mark.parametrize("model", EXAMPLES)


@models
def test_all_nodes_are_one_cluster(model: Example):
    """After basic optimization Add is in Conv and in MatMul, and the weight's Reshape is folded."""
    report = ep_nnapi.check(model.path)
    assert (report.nodes, report.capable, report.taken) == (8, 8, 8)
    assert not report.rejections
    (cluster,) = report.clusters
    assert len(cluster.nodes) == 8
    assert cluster.inputs == (model.input,)
    assert cluster.device == "nnapi-reference"
    assert cluster.boundary_bytes == 4 * int(np.prod(model.shape)) + 4 * 10


@models
@ways
def test_stock_session_lists_the_provider(model: Example, way: str):
    session = WAYS[way](str(model.path), quiet())
    assert session.get_providers() == [NAME, CPU]


@models
@ways
def test_random_inputs_match_the_cpu(model: Example, way: str):
    session, cpu = WAYS[way](str(model.path), quiet()), model.cpu()
    for x in model.random(20):
        same(model.run(session, x), model.run(cpu, x))


@models
@ways
def test_handwritten_digits_match_the_cpu(model: Example, way: str):
    session, cpu = WAYS[way](str(model.path), quiet()), model.cpu()
    for x in model.digits()[::9]:
        got, want = model.run(session, x), model.run(cpu, x)
        same(got, want)
        assert got.argmax() == want.argmax()


def test_handwritten_digits_are_read_right():
    """The model itself reads 97 % of the held-out digits; on NNAPI it reads the same ones."""
    session = WAYS["providers"](str(DIGITS.path), quiet())
    labels = np.load(ROOT / "models" / "digits" / "held_out.npz")["labels"]
    read = [DIGITS.run(session, x).argmax() for x in DIGITS.digits()]
    assert np.mean(read == labels) >= 0.97


@models
@ways
@pytest.mark.parametrize("level", range(1, 9))
def test_every_feature_level(model: Example, way: str, level: int):
    """Its operations are all of NNAPI 1.0; below level 3 layouts are the border's alone."""
    session, cpu = WAYS[way](str(model.path), quiet(), feature_level=str(level)), model.cpu()
    assert ep_nnapi.check(model.path, feature_level=level).taken == 8
    for x in model.random(3):
        same(model.run(session, x), model.run(cpu, x))


@models
def test_nchw_flag(model: Example):
    session, cpu = WAYS["providers"](str(model.path), quiet(), flags="USE_NCHW"), model.cpu()
    for x in model.random(3):
        same(model.run(session, x), model.run(cpu, x))


@models
@ways
def test_profile_shows_one_fused_node_and_no_cpu_node(model: Example, way: str, tmp_path: Path):
    options = quiet()
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "profile")
    session = WAYS[way](str(model.path), options)
    model.run(session, model.random(1)[0])
    assert profiled(session) == [NAME]


@models
@ways
def test_onnxruntime_itself_says_which_nodes_it_assigned(model: Example, way: str):
    options = quiet()
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    session = WAYS[way](str(model.path), options)
    (part,) = session.get_provider_graph_assignment_info()
    assert part.ep_name == NAME
    assert {n.name for n in part.get_nodes()} == set(ep_nnapi.check(model.path).clusters[0].nodes)


@models
def test_no_fallback_to_the_cpu_is_needed(model: Example):
    options = quiet()
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    session = WAYS["append_execution_provider"](str(model.path), options)
    assert np.isfinite(model.run(session, model.random(1)[0])).all()


@models
def test_a_model_in_memory(model: Example):
    content = model.path.read_bytes()
    assert ep_nnapi.check(content).to_json() == ep_nnapi.check(model.path).to_json()
    session = WAYS["append_execution_provider"](content, quiet())
    assert session.get_providers()[0] == NAME


@models
@ways
def test_nodes_that_are_left_out_run_on_the_cpu(model: Example, way: str, tmp_path: Path):
    """Each pool ends a cluster; ONNX Runtime runs it between.

    Without its own layout optimization, which would add nodes around the pools.
    """
    options = quiet()
    options.graph_optimization_level = GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "profile")
    session, cpu = WAYS[way](str(model.path), options, exclude="MaxPool"), model.cpu()
    x = model.random(1)[0]
    same(model.run(session, x), model.run(cpu, x))
    assert profiled(session) == [NAME, CPU, NAME, CPU, NAME]
    report = ep_nnapi.check(model.path, exclude="MaxPool")
    assert (report.nodes, report.taken, len(report.clusters)) == (8, 6, 3)
    assert {(r.op_type, r.reason.value) for r in report.rejections} == {("MaxPool", "EXCLUDED")}
