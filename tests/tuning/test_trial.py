"""Sessions of candidates: what is placed where, at which level, and how outputs are judged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ep_nnapi.diagnostics.inputs import Feeds
from ep_nnapi.sessions.cpu import session_of
from ep_nnapi.settings import Chosen
from ep_nnapi.tuning.candidates import Candidate
from ep_nnapi.tuning.trial import Subject
from tests.cli.command import DIGITS, SAMPLES

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
