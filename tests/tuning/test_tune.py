"""`tune` from a model to settings, with times of the test."""

import json
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import ep_nnapi
from ep_nnapi.diagnostics.inputs import Feeds
from ep_nnapi.nnapi.errors import ModelError, OptionError
from ep_nnapi.options.settings import Chosen, read_settings
from ep_nnapi.ort.api import EP_NAME
from ep_nnapi.sessions.cpu import session_of
from ep_nnapi.tuning.candidates import Candidate, NodeNames, Subject, fewest, nodes_to_leave
from ep_nnapi.tuning.tune import Accuracy, tuned
from tests import wrong_device
from tests.cli.command import DIGITS, SAMPLES
from tests.end_to_end.sessions import nnapi_session
from tests.provider.test_planner import SHAPE, model
from tests.runtimes import host_only
from tests.tuning.times import Times

OPTIONS = {"device": "nnapi-reference"}
CPU = {"extended": 3.0, "all": 2.0, "thread": 4.0}
NNAPI_WINS = {**CPU, "aware": 1.0, "basic": 1.5, "FP16": 0.5, "NCHW": 1.5}
NNAPI_LOSES = {**CPU, "aware": 9.0, "basic": 9.0, "FP16": 9.0, "NCHW": 9.0}


def session_with(settings: Path) -> onnxruntime.InferenceSession:
    return nnapi_session(DIGITS, settings=settings)


@pytest.mark.parametrize("wins", [True, False])
def test_settings_reproduce_the_choice(tmp_path: Path, wins: bool):
    found = tuned(
        DIGITS, SAMPLES, 0, Accuracy(), Times(**(NNAPI_WINS if wins else NNAPI_LOSES)), OPTIONS
    )
    path = tmp_path / "settings.json"
    found.settings.write(path)
    settings = read_settings(path)
    assert settings.provider is (Chosen.NNAPI if wins else Chosen.CPU)
    assert settings.measured["milliseconds"] == (500 if wins else 2000)
    session = session_with(path)
    assert (EP_NAME in session.get_providers()) is wins
    images = np.load(SAMPLES)["images"][:1]
    assert session.run(None, {"image": images})[0].argmax() == 0
    ep_nnapi.prepare(DIGITS, tmp_path / "out", settings=path)
    assert (tmp_path / "out" / "digits.ort").is_file()
    if wins:
        assert settings.options == {"device": "nnapi-reference", "flags": "USE_FP16"}
        assert ep_nnapi.run(DIGITS, SAMPLES, settings=path).differences[0].kind == "float16"
        return
    assert "NNAPI loses" in found.choice.reason
    with pytest.raises(OptionError, match="chooses the CPU provider"):
        ep_nnapi.run(DIGITS, SAMPLES, settings=path)


@host_only  # only there float16 is emulated
def test_a_tolerance_excludes_float16(tmp_path: Path):
    """It differs by about 3e-4 of the spread."""
    accuracy = Accuracy((), 1e-5)
    found = tuned(DIGITS, SAMPLES, 0, accuracy, Times(**NNAPI_WINS), OPTIONS)
    assert found.settings.options == OPTIONS
    (half,) = (m for m in found.candidates if "USE_FP16" in m.candidate.changes)
    assert (half.within, half.problem) == (False, "its outputs are beyond the tolerance")


@host_only
def test_accuracy_leaves_the_fewest_nodes_of_float16_to_the_cpu(tmp_path: Path):
    """With a tolerance between the errors of one and of all nodes, some may stay on NNAPI."""
    accuracy = Accuracy(SAMPLES, 2e-4)
    found = tuned(DIGITS, SAMPLES, 0, accuracy, Times(**NNAPI_WINS, CPU=0.6), OPTIONS)
    names = found.choice.best.candidate.options["exclude"]
    report = found.choice.best.report
    assert 0 < len(names) < 8
    assert report.taken == 8 - len(names)
    assert found.choice.best.verdict.worst <= 2e-4
    again = ep_nnapi.compare(
        DIGITS, SAMPLES, flags="USE_FP16", exclude=names[1:], tolerance=2e-4, **OPTIONS
    )
    assert again.verdict.worst > 2e-4  # one node fewer is too few
    assert "exclude" in found.settings.options


def test_files_among_the_options_are_not_stored(tmp_path: Path):
    given = {**OPTIONS, "cache_dir": str(tmp_path / "cache")}
    found = tuned(DIGITS, SAMPLES, 0, Accuracy(), Times(**NNAPI_WINS), given)
    assert found.not_stored == ("cache_dir",)
    assert "cache_dir" not in found.settings.options


def test_json_has_every_candidate():
    found = tuned(DIGITS, (), 5, Accuracy(), Times(**NNAPI_LOSES), OPTIONS)
    data = json.loads(json.dumps(found.to_json()))
    assert data["seed"] == 5
    assert data["best"] == "CPU all"
    by_name = {c["name"]: c for c in data["candidates"]}
    assert by_name["CPU all"]["timing"]["seconds"] == 2.0
    first = by_name["NNAPI nnapi-reference, nnapi-aware"]
    assert (first["nodes"], first["taken"], first["clusters"]) == (8, 8, 1)
    assert first["largest_difference"] < 1e-5


def test_what_cannot_be_tuned(tmp_path: Path):
    ep_nnapi.prepare(DIGITS, tmp_path, format="context", verify=False)
    with pytest.raises(ModelError, match="tune the original model"):
        ep_nnapi.tune(tmp_path / "digits_ctx.onnx")
    with pytest.raises(OptionError, match=r"seconds is 0; it must be more than 0"):
        ep_nnapi.tune(DIGITS, seconds=0)


# Sessions of candidates: what is placed where, at which level, and how outputs are judged

DEVICE = {"device": "nnapi-reference"}


def subject(folder: Path, tolerance: float | None = None) -> Subject:
    images = np.load(SAMPLES)["images"][:1]
    feeds = Feeds(({"image": images},))
    want = [{"scores": session_of(DIGITS).run(None, {"image": images})[0]}]
    return Subject(DIGITS, feeds, feeds, want, tolerance, folder)


@pytest.mark.parametrize(
    ("level", "nodes"), [("basic", 8), ("nnapi-aware", 8), ("extended", 6), ("all", 8)]
)
def test_at_extended_nodes_are_fused_before_nnapi_sees_them(tmp_path: Path, level: str, nodes: int):
    session = subject(tmp_path).open(Candidate(Chosen.NNAPI, level, DEVICE))
    assert (session.report.nodes, session.report.taken) == (nodes, nodes)
    assert session.report.clusters[0].device == "nnapi-reference"


def test_the_cpu_has_no_report(tmp_path: Path):
    tried = subject(tmp_path)
    session = tried.open(Candidate(Chosen.CPU, "all", {"intra_op_num_threads": 1}))
    assert session.report is None
    assert session.session.get_session_options().intra_op_num_threads == 1
    session.run(tried.feeds)
    np.testing.assert_array_equal(
        session.outputs(tried.feeds)[0]["scores"], tried.want[0]["scores"]
    )


@pytest.mark.parametrize(("error", "within"), [(0.9e-3, True), (1.1e-3, False)])
def test_a_given_tolerance_is_a_limit(tmp_path: Path, error: float, within: bool):
    tried = subject(tmp_path, tolerance=1e-3)
    right = tried.want[0]["scores"]
    got = [{"scores": right + np.float32(error * np.ptp(right))}]
    assert tried.within(tried.judged(got, {})) is within


def test_without_one_the_kind_of_output_decides(tmp_path: Path):
    """Float16 is allowed more than float32."""
    tried = subject(tmp_path)
    right = tried.want[0]["scores"]
    got = [{"scores": right + np.float32(1e-3 * np.ptp(right))}]
    assert not tried.within(tried.judged(got, {}))
    assert tried.within(tried.judged(got, {"flags": "USE_FP16"}))


# The fewest nodes left to the CPU, by bisection and then one by one


@pytest.mark.parametrize("needed", [{0}, {2}, {0, 3}, {1, 2, 4}, {0, 1, 2, 3, 4}, {4}])
def test_exactly_the_needed_groups(needed: set[int]):
    """Wherever they are in the ranking."""
    ranked: list[NodeNames] = [(f"n{i}", f"q{i}") for i in range(5)]

    def within(left: Sequence[NodeNames]) -> bool:
        return {ranked[i] for i in needed} <= set(left)

    assert set(fewest(ranked, within)) == {ranked[i] for i in needed}


def test_errors_that_add_up_need_the_fewest():
    """Each group adds its error; the largest come first, so no smaller set is enough."""
    errors = {("a",): 8.0, ("b",): 4.0, ("c",): 2.0, ("d",): 1.0, ("e",): 0.5}
    ranked = list(errors)
    for tolerance in (0.4, 0.5, 1.6, 3.0, 7.9, 15.4):

        def within(left: Sequence[NodeNames], tolerance: float = tolerance) -> bool:
            return sum(e for g, e in errors.items() if g not in left) <= tolerance

        found = fewest(ranked, within)
        assert within(found)
        smaller = combinations(ranked, len(found) - 1)
        assert not any(within(left) for left in smaller)


@host_only
def test_nodes_of_a_wrong_device_are_left_to_the_cpu(tmp_path: Path):
    """Two of five nodes are wrong on the device: these, in whatever cluster they are."""
    proto = model("Abs x -> a", "Tanh a -> b", "Exp b -> c", "Sigmoid c -> d", "Sqrt d -> y")
    content = proto.SerializeToString()
    feeds = Feeds(({"x": np.linspace(-1, 1, 6, dtype=np.float32).reshape(SHAPE)},))
    want = [{"y": session_of(content).run(None, dict(feeds.runs[0]))[0]}]
    subject = Subject(content, feeds, feeds, want, 1e-3, tmp_path)
    candidate = Candidate(Chosen.NNAPI, "nnapi-aware", {"device": wrong_device.WRONG})
    names = {"Tanh_b", "Sigmoid_d"}
    with wrong_device.installed(lambda operation: bool(names & set(operation.origin))):
        assert set(nodes_to_leave(subject, candidate)) == names
