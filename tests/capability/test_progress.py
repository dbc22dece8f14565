"""Planning says how far it is, by a clock that the tests set."""

import itertools
import logging
from collections.abc import Callable, Iterator

import pytest

from ep_nnapi.capability.progress import LOG_INTERVAL, WARN_AFTER, Progress
from ep_nnapi.nnapi.host import HostRuntime
from ep_nnapi.options.table import parse
from ep_nnapi.options.target import Target
from ep_nnapi.provider.compiler import Compiler
from ep_nnapi.provider.planner import Planner
from tests.onnx_graph import graph_of
from tests.provider.test_planner import model


def ticking(step: float) -> Callable[[], float]:
    """A clock by which `step` seconds pass from one look to the next."""
    moments: Iterator[float] = itertools.count(0.0, step)
    return lambda: next(moments)


def chain(nodes: int, kinds: str = "Neg") -> object:
    """A chain of nodes, of these kinds in turn."""
    names = ["x", *(f"v{i}" for i in range(1, nodes)), "y"]
    turns = itertools.cycle(kinds.split())
    lines = [f"{next(turns)} {a} -> {b}" for a, b in itertools.pairwise(names)]
    return graph_of(model(*lines))


def said(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    found = [r for r in caplog.records if r.name == "ep_nnapi.capability.progress"]
    return [r.getMessage() for r in found if r.levelno == level]


def plan(graph: object, step: float, caplog: pytest.LogCaptureFixture) -> None:
    runtime = HostRuntime()
    compiler = Compiler(Target(8), runtime, runtime.devices()[0])
    with caplog.at_level(logging.INFO, "ep_nnapi.capability.progress"):
        Planner(compiler, parse({"exclude": "Tanh"}), clock=ticking(step)).plan(graph)


def test_judging_is_logged_with_counts(caplog: pytest.LogCaptureFixture) -> None:
    """A second for each node: a line every three."""
    plan(chain(8), 1.0, caplog)
    assert said(caplog, logging.INFO) == [
        "planning: 2 of 8 nodes checked",
        "planning: 5 of 8 nodes checked",
        "planning: 0 of 1 clusters compiled",
    ]
    assert said(caplog, logging.WARNING) == []


def test_compiling_is_logged_with_counts(caplog: pytest.LogCaptureFixture) -> None:
    """Ten clusters, as every other node stays on the CPU."""
    plan(chain(20, "Neg Tanh"), 1.0, caplog)
    lines = [line for line in said(caplog, logging.INFO) if line.endswith("clusters compiled")]
    assert lines == [f"planning: {i} of 10 clusters compiled" for i in (0, 3, 6, 9)]


def test_a_long_planning_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    plan(chain(50), 1.0, caplog)
    assert said(caplog, logging.WARNING) == [
        "planning has taken 10 s so far: 9 of 50 nodes checked; Ctrl-C ends it"
    ]


def test_a_short_planning_is_silent(caplog: pytest.LogCaptureFixture) -> None:
    plan(chain(20, "Neg Tanh"), 0.0, caplog)
    assert said(caplog, logging.INFO) == said(caplog, logging.WARNING) == []


@pytest.mark.parametrize(("after", "lines"), [(LOG_INTERVAL - 0.01, 0), (LOG_INTERVAL, 1)])
def test_the_first_line(after: float, lines: int, caplog: pytest.LogCaptureFixture) -> None:
    moments = iter((0.0, after))
    progress = Progress(lambda: next(moments))
    with caplog.at_level(logging.INFO, "ep_nnapi.capability.progress"):
        progress("nodes checked", 1, 2)
    assert len(said(caplog, logging.INFO)) == lines


@pytest.mark.parametrize(("after", "lines"), [(WARN_AFTER - 0.01, 0), (WARN_AFTER, 1)])
def test_the_warning(after: float, lines: int, caplog: pytest.LogCaptureFixture) -> None:
    moments = iter((0.0, after, 2 * after))
    progress = Progress(lambda: next(moments))
    progress("nodes checked", 1, 3)
    assert len(said(caplog, logging.WARNING)) == lines
    progress("nodes checked", 2, 3)
    assert len(said(caplog, logging.WARNING)) == 1
