"""GetCapability and Compile: clusters claimed once, interrupts, failures and the session's log."""

import gc
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnxruntime
import pytest

from ep_nnapi.graph.graph import Graph
from ep_nnapi.ort import ep
from ep_nnapi.ort.compute import Cluster
from ep_nnapi.report.report import Notice
from tests.onnx_graph import serialized
from tests.ort.conftest import NAME, Install, start
from tests.ort.fake import FakeProvider
from tests.ort.models import abs_add, if_abs_add

NO_OPTIMIZATION = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
X = np.array([[-1, 2, -3], [4, -5, 6]], np.float32)


class Raising(FakeProvider):
    """Its planning ends with an exception."""

    def __init__(self, raised: BaseException) -> None:
        super().__init__(())
        self.raised = raised

    def plan(self, graph: Graph) -> Sequence[Cluster]:
        raise self.raised


class Watching(FakeProvider):
    """Notes whether the garbage collector is on while it plans."""

    def plan(self, graph: Graph) -> Sequence[Cluster]:
        self.collects = gc.isenabled()
        return super().plan(graph)


@pytest.fixture
def collecting() -> Iterator[None]:
    gc.enable()
    yield
    gc.enable()


def test_a_failure_leaves_the_session_to_the_cpu(install: Install) -> None:
    fake = install(provider=Raising(ValueError("a defect")))
    session = start(abs_add())
    assert session.run(None, {"x": X})[0].tolist() == (np.abs(X) + X).tolist()
    assert isinstance(fake.error, ValueError)


@pytest.fixture
def claimed(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """Nodes that an Ep claims, of a graph that ONNX Runtime is not asked about."""
    found: list[list[int]] = []

    def add_cluster(support: object, nodes: Sequence[int], count: int, keeps: int) -> int:
        found.append(list(nodes)[:count])
        return keeps

    library = SimpleNamespace(add_cluster=add_cluster, ort_version=lambda: 31)
    monkeypatch.setattr(ep, "lib", library)
    monkeypatch.setattr(ep, "check", lambda status: None)
    monkeypatch.setattr(ep, "is_inlined_later", lambda handle: False)
    monkeypatch.setattr(ep, "read_graph", lambda handle, reader: Graph("", (), (), ()))
    return found


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt(), SystemExit(3)])
def test_an_interrupt_ends_the_session_in_compile(claimed, monkeypatch, interrupt):
    """ONNX Runtime would ignore it in GetCapability, so one node is claimed."""
    monkeypatch.setattr(ep, "first_unclaimed_node", lambda handle: 5)
    planned = ep.Ep(Raising(interrupt))
    planned.get_capability(0, None)
    assert claimed == [[5]]
    with pytest.raises(type(interrupt)) as caught:
        planned.compile(0, 0)
    assert caught.value is interrupt


def test_an_interrupt_where_nothing_can_be_claimed_is_raised(claimed: list[list[int]], monkeypatch):
    monkeypatch.setattr(ep, "first_unclaimed_node", lambda handle: 0)
    with pytest.raises(KeyboardInterrupt):
        ep.Ep(Raising(KeyboardInterrupt())).get_capability(0, None)
    assert claimed == []


@pytest.mark.usefixtures("claimed", "collecting")
@pytest.mark.parametrize("raised", [ValueError("a defect"), KeyboardInterrupt()])
def test_garbage_is_collected_again_after_a_failure(monkeypatch, raised: BaseException):
    monkeypatch.setattr(ep, "first_unclaimed_node", lambda handle: 0)
    provider = Raising(raised)
    with pytest.raises(type(raised)):
        ep.Ep(provider).get_capability(0, None)
    assert gc.isenabled()
    assert provider.error is (raised if isinstance(raised, Exception) else None)


def leaf(name: str, node: str = "Abs (x)") -> str:
    """A graph of one node, whose result is called after `name`."""
    return f"{name} () => (float[2,3] {name}_y) {{ [choice] {name}_y = {node} }}"


def choice(then: str, other: str) -> str:
    return f"If (c) <then_branch = {then}, else_branch = {other}>"


def test_subgraphs_of_equal_keys_are_numbered(install: Install) -> None:
    """An If in each branch has the same name, so that their branches have the same keys."""
    fake = install("Abs")
    inner = (leaf(f"in{i}", choice(leaf(f"a{i}"), leaf(f"b{i}"))) for i in range(2))
    text = f"(bool c, float[2,3] x) => (float[2,3] y) {{ [outer] y = {choice(*inner)} }}"
    start(serialized(text), graph_optimization_level=NO_OPTIMIZATION)
    keys = [g.key for g in fake.graphs]
    assert keys[-1] == ""  # the main graph comes last
    assert len(set(keys)) == len(keys) == 7
    assert {"choice.then_branch", "choice.then_branch#2"} <= set(keys)


def test_inner_graphs_are_planned_before_the_main_one(install: Install) -> None:
    fake = install("Abs", "Add")
    session = start(if_abs_add(), graph_optimization_level=NO_OPTIMIZATION)
    assert fake.graphs[-1].key == ""
    for flag, expected in ((True, np.abs(X) + X), (False, X + X)):
        feeds = {i.name: np.array(flag) if i.name == "c" else X for i in session.get_inputs()}
        np.testing.assert_array_equal(session.run(None, feeds)[0], expected)


@pytest.mark.parametrize("warning", [False, True])
def test_the_notice_is_logged_at_its_level(install: Install, capfd, warning: bool):
    install(provider=FakeProvider(("Abs",), line=Notice("two nodes taken", warning)))
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 2  # warnings and above
    onnxruntime.InferenceSession(abs_add(), settings, providers=[NAME, "CPUExecutionProvider"])
    assert ("two nodes taken" in capfd.readouterr().err) is warning


def test_dynamic_options_lose_their_prefix() -> None:
    class Given:
        def set_dynamic_options(self, given: dict[str, str]) -> None:
            self.given = given

    provider = Given()
    prefix = f"ep.{NAME.lower()}."
    ep.Ep(provider).set_dynamic_options({f"{prefix}priority": "low", "ep.dynamic.other": "1"})
    assert provider.given == {"priority": "low", "ep.dynamic.other": "1"}


@pytest.mark.usefixtures("collecting")
def test_no_garbage_is_collected_while_a_graph_is_planned(install: Install) -> None:
    fake = install(provider=Watching(("Abs",)))
    start(abs_add())
    assert not fake.collects
    assert gc.isenabled()


@pytest.mark.usefixtures("collecting")
def test_a_process_that_collects_nothing_stays_so(install: Install) -> None:
    install(provider=Watching(("Abs",)))
    gc.disable()
    start(abs_add())
    assert not gc.isenabled()


def test_the_plan_of_a_file_knows_its_path(install: Install, tmp_path: Path) -> None:
    fake = install("Abs")
    path = tmp_path / "model.onnx"
    path.write_bytes(abs_add())
    start(str(path))
    assert Path(fake.graphs[-1].path) == path
