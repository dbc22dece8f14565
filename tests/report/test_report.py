"""The report of a model, and its JSON form."""

import json
from dataclasses import replace

import pytest

import ep_nnapi
from ep_nnapi.errors import ADVICE, Note, Rejection, SourceLine
from ep_nnapi.nnapi.errors import ModelError, Reason
from ep_nnapi.report.report import ClusterReport, GraphReport, Report, combine
from tests.end_to_end.sessions import DIGITS

INNER = GraphReport(
    nodes=3,
    capable=2,
    clusters=(ClusterReport(("a", "b"), ("x",), ("y",), 24, "nnapi-reference"),),
    rejections=(Rejection("c", "Mish", Reason.OP, "Mish: no lowering"),),
)
MAIN = GraphReport(
    nodes=2,
    capable=2,
    clusters=(ClusterReport(("d",), ("p", "q"), ("r", "s"), 8, "nnapi-reference"),),
    rejections=(Rejection("e", "Add", Reason.DRIVER, "declines ADD"),),
    notes=(Note("d", "Elu", "computed in floats"),),
)
BOTH = combine(7, "ep-nnapi", [INNER, MAIN])
HEAD = {"feature_level": 7, "target": "ep-nnapi"}
COUNTS = {"nodes": 5, "capable": 4, "taken": 3}
LISTS = ("clusters", "rejections", "notes")


def test_json_form():
    """As DESIGN and every consumer of `check --json` have it."""
    first, second = (
        {
            **{"nodes": nodes, "inputs": inputs, "outputs": outputs},
            **{"boundary_bytes": size, "device": "nnapi-reference"},
        }
        for nodes, inputs, outputs, size in (
            (["a", "b"], ["x"], ["y"], 24),
            (["d"], ["p", "q"], ["r", "s"], 8),
        )
    )
    assert BOTH.to_json() == {
        **HEAD,
        **COUNTS,
        "clusters": [first, second],
        "rejections": [
            {"node": "c", "op_type": "Mish", "reason": "OP", "detail": "Mish: no lowering"},
            {"node": "e", "op_type": "Add", "reason": "DRIVER", "detail": "declines ADD"},
        ],
        "notes": [{"node": "d", "op_type": "Elu", "detail": "computed in floats"}],
    }


def test_a_rejection_names_its_source_line_where_it_is_known():
    line = SourceLine("layers.0", "net.py", 12, "return x")
    graph = GraphReport(1, 0, (), (Rejection("a", "Mish", Reason.OP, "", source=line),))
    (rejection,) = combine(7, "ep-nnapi", [graph]).to_json()["rejections"]
    names = ("module", "file", "line", "code")
    expected = dict(zip(names, ("layers.0", "net.py", 12, "return x"), strict=True))
    assert rejection["source"] == expected


def test_json_is_plain_data_in_a_fixed_order():
    text = json.dumps(BOTH.to_json())
    assert json.loads(text) == BOTH.to_json()
    assert list(BOTH.to_json()) == [*HEAD, *COUNTS, *LISTS]


def test_nothing_is_a_report_too():
    empty = dict.fromkeys(COUNTS, 0) | {key: [] for key in LISTS}
    assert combine(8, "ep-nnapi", []).to_json() == {**HEAD, "feature_level": 8, **empty}


def test_a_models_report():
    report = ep_nnapi.check(DIGITS.path)
    assert isinstance(report, Report)
    (cluster,) = report.to_json()["clusters"]
    assert cluster == {
        "nodes": [
            *("Conv_1", "Relu_3", "MaxPool_4", "Conv_5", "Relu_7", "MaxPool_8", "Reshape_9"),
            "MatMul_10/MatMulAddFusion",
        ],
        "inputs": ["image"],
        "outputs": ["scores"],
        "boundary_bytes": 4 * (64 + 10),
        "device": "nnapi-reference",
    }


@pytest.mark.parametrize("options", [{}, {"exclude": "MaxPool"}, {"feature_level": 1}])
def test_every_node_is_taken_or_refused(options: dict[str, object]):
    report = ep_nnapi.check(DIGITS.path, **options)
    assert report.taken + len(report.rejections) == report.nodes
    assert report.taken <= report.capable
    names = [n for c in report.clusters for n in c.nodes] + [r.node for r in report.rejections]
    assert len(set(names)) == report.nodes


@pytest.mark.parametrize("level", [1, 8])
def test_levels_are_levels_however_they_are_given(level: int):
    given = {"api_level": 27} if level == 1 else {}
    assert ep_nnapi.check(DIGITS.path, **given).to_json()["feature_level"] == level


# growth since a baseline ---------------------------------------------------------------------


def test_a_report_has_not_grown_since_itself():
    assert BOTH.regressions(BOTH.to_json()) == []


def test_growth_is_named():
    one = ClusterReport(("a", "b", "d"), ("x",), ("y",), 8, "nnapi-reference")
    other = Rejection("e", "Add", Reason.DRIVER, "")
    graph = GraphReport(5, 4, (one,), (Rejection("c", "Mish", Reason.DTYPE, ""), other))
    before = combine(7, "ep-nnapi", [graph]).to_json()
    assert BOTH.regressions(before) == [
        "clusters grew from 1 to 2",
        "border bytes grew from 8 to 32",
        "Mish is rejected for OP",
    ]


def test_fewer_nodes_are_named_but_not_those_that_are_folded():
    whole = ClusterReport(("a", "b", "c", "d", "e"), ("x",), ("y",), 99, "nnapi-reference")
    before = combine(7, "ep-nnapi", [GraphReport(5, 5, (whole,), ())]).to_json()
    assert BOTH.regressions(before)[0] == "nodes on NNAPI fell from 5 of 5 to 3 of 5"
    folded = {**BOTH.to_json(), "nodes": 12}  # seven more on the CPU then
    assert BOTH.regressions(folded) == []


@pytest.mark.parametrize(
    ("digest", "names", "says"),
    [
        ("a", ("a", "z"), []),
        ("b", ("a", "b"), []),
        ("b", ("a", "z"), ["the model is another (1 nodes new and 1 gone)"]),
        ("", ("a", "z"), ["the model is another (1 nodes new and 1 gone)"]),
    ],
)
def test_a_model_is_the_same_by_its_digest_or_names(digest: str, names, says: list[str]):
    def report(digest: str, names: tuple[str, ...]) -> Report:
        cluster = ClusterReport(names, ("x",), ("y",), 8, "nnapi-reference")
        found = combine(8, "ep-nnapi", [GraphReport(2, 2, (cluster,), ())])
        return replace(found, digest=digest)

    assert report("a", ("a", "b")).regressions(report(digest, names).to_json()) == says


@pytest.mark.parametrize(
    ("count", "lower_bound", "minimality"),
    [
        (1, 1, "1 cluster, proven minimal"),
        (7, 7, "7 clusters, proven minimal"),
        (7, 6, "7 clusters, at least 6"),
    ],
)
def test_a_report_says_how_few_clusters_there_can_be(count: int, lower_bound: int, minimality: str):
    cluster = ClusterReport(("a",), ("x",), ("y",), 8, "nnapi-reference")
    graph = GraphReport(count, count, (cluster,) * count, (), (), lower_bound)
    assert combine(8, "ep-nnapi", [graph]).minimality == minimality


def test_shrinking_is_no_growth():
    border = replace(BOTH.clusters[0], boundary_bytes=1)
    assert replace(BOTH, clusters=(border, *BOTH.clusters[1:])).regressions(BOTH.to_json()) == []


NO_DATA = {"clusters": [], "rejections": [], "nodes": float("inf")}


@pytest.mark.parametrize("baseline", [{}, {"clusters": 3}, NO_DATA, NO_DATA | {"model": "m"}])
def test_other_json_is_no_baseline(baseline: dict[str, object]):
    with pytest.raises(ModelError, match="no report"):
        BOTH.regressions(baseline)


def test_every_reason_has_advice():
    assert set(ADVICE) == set(Reason)
