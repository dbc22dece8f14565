"""The provider of a session: its options, its report over graphs, and handing it to a session."""

from dataclasses import replace

import pytest

from ep_nnapi import OptionError
from ep_nnapi.options.table import Options, options_of_session, parse, to_strings
from ep_nnapi.provider.provider import PROVIDER_ID, Provider, handed_over, open_provider, planner_of
from tests.onnx_graph import graph_of
from tests.provider.test_planner import CHAIN, model


def test_strings_make_a_provider():
    provider = open_provider({"feature_level": "4", "flags": "USE_NCHW"})
    assert provider.opened
    assert (provider.target.feature_level, provider.target.nchw) == (4, True)


def test_a_provider_is_handed_over_as_it_is():
    """Its options need no form as strings; ONNX Runtime passes only its id."""
    provider = Provider(parse({"exclude": "Exp"}))
    with handed_over(provider) as entries:
        assert entries.keys() == {PROVIDER_ID}
        assert not provider.opened
        assert open_provider(entries) is provider
        assert provider.opened


def test_an_id_is_unknown_after_the_context():
    with handed_over(Provider(Options())) as entries:
        pass
    with pytest.raises(OptionError, match=f"option '{PROVIDER_ID}' is unknown"):
        open_provider(entries)


def test_a_provider_whose_session_runs_nothing_keeps_no_models():
    """What it claims and reports is the same."""
    every, none = Provider(Options()), Provider(Options(), runs=False)
    graph = graph_of(CHAIN)
    claims = [[c.node_ids for c in provider.plan(graph)] for provider in (every, none)]
    assert claims[0] == claims[1] != []
    assert none.report == every.report
    assert none.error is None
    assert all(c.models for c in every.clusters)
    assert not any(c.models for c in none.clusters)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"device": "vpu"}, "device 'vpu' is unknown"),
        ({"flags": 4}, "CPU_DISABLED leaves no device"),
        ({"calibration": "/no/such/file"}, "no such file"),
    ],
)
def test_options_that_do_not_fit_the_runtime(given: dict[str, object], message: str):
    with pytest.raises(OptionError, match=message):
        planner_of(parse(given))


def test_custom_operators_are_registered_by_the_user():
    with pytest.raises(OptionError, match="register_custom_ops_library"):
        options_of_session({"custom_ops_library": "ops.so"})


def test_a_report_covers_all_graphs_and_a_graph_once():
    provider = Provider(Options())
    for key in ("If_0.then_branch", "", ""):  # GetCapability is called again for the main graph
        provider.plan(replace(graph_of(CHAIN), key=key))
    report = provider.report
    assert (report.nodes, report.taken, len(report.clusters)) == (8, 8, 2)
    assert len(provider.clusters) == 2
    assert provider.failures == ()


@pytest.mark.parametrize("more", [0, 1])
def test_many_clusters_are_warned_of_once(more: int, monkeypatch, caplog):
    """ONNX Runtime's time to fuse them grows with the cube of their number."""
    monkeypatch.setattr("ep_nnapi.provider.provider.MANY_CLUSTERS", 3)
    clusters = 3 + more
    lines = (
        line for i in range(clusters) for line in (f"Exp x{i} -> v{i}", f"Neg v{i} -> x{i + 1}")
    )
    graph = graph_of(model(*lines, outputs=f"x{clusters}"))
    provider = Provider(parse({"exclude": "Neg"}))
    for _ in range(2):  # GetCapability is called again for the main graph
        assert len(provider.plan(graph)) == clusters
    expected = f"fuses {clusters} clusters" if more else ""
    assert len(caplog.records) == more
    assert expected in caplog.text
    assert ("max_clusters" in caplog.text) == bool(more)


def test_options_as_strings_make_the_same_target():
    options = parse({"api_level": 29, "flags": "USE_FP16", "target": "builtin-nnapi"})
    assert open_provider(to_strings(options)).target == planner_of(options).compiler.target
