"""Fused nodes of symbolic sizes run without Python when they have been compiled for the sizes."""

import gc
import json
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from weakref import ref

import numpy as np
import onnxruntime
import pytest

from ep_nnapi.nnapi.array import Array
from ep_nnapi.ort._native import lib
from ep_nnapi.ort.inner_session import InnerSession
from ep_nnapi.provider.dynamic_cluster import DynamicCluster
from tests.end_to_end.sessions import nnapi_session
from tests.onnx_graph import serialized
from tests.ort.models import abs_add
from tests.programs import in_child
from tests.runtimes import host_only

pytestmark = [host_only, pytest.mark.usefixtures("no_run_is_long")]
ROWS = abs_add(("n", 3))
X = np.array([[-1, 2, -3], [4, -5, 6]], np.float32)
RUN_OPTION = "ep.nnapipluginexecutionprovider.execution_timeout"


def start(
    content: bytes = ROWS, *, profile: Path | None = None, **options: object
) -> onnxruntime.InferenceSession:
    attributes: dict[str, object] = {"intra_op_num_threads": 1}
    if profile is not None:
        attributes |= {"enable_profiling": True, "profile_file_prefix": str(profile)}
    options = {"new_sizes": 99, "device": "host-cpu", **options}
    return nnapi_session(content, severity=4, attributes=attributes, **options)


def of(text: str, **options: object) -> onnxruntime.InferenceSession:
    return start(serialized(text), **options)


def check(session: onnxruntime.InferenceSession, *rows: int, seed: int = 0, **more: object) -> None:
    """Runs ROWS with numbers of rows, one after the other."""
    rng = np.random.default_rng(seed)
    for count in rows:
        x = rng.standard_normal((count, 3)).astype(np.float32)
        np.testing.assert_array_equal(session.run(None, {"x": x}, **more)[0], np.abs(x) + x)


@pytest.fixture(autouse=True)
def no_open_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of the sizes is compiled, as for devices and clusters that take numbers only."""
    monkeypatch.setattr(DynamicCluster, "_compiled_open", lambda *_, **__: None)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The first input's shape of each compilation."""
    found: list[tuple[int, ...]] = []
    specialize = DynamicCluster.specialize

    def noted(cluster: DynamicCluster, given: dict[str, Array]) -> object:
        found.append(next(iter(given.values())).shape)
        return specialize(cluster, given)

    monkeypatch.setattr(DynamicCluster, "specialize", noted)
    return found


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[ref[InnerSession]]:
    """The sessions of devices."""
    found: list[ref[InnerSession]] = []
    init = InnerSession.__init__

    def noted(session: InnerSession, *arguments: object) -> None:
        found.append(ref(session))
        init(session, *arguments)

    monkeypatch.setattr(InnerSession, "__init__", noted)
    return found


def alive(sessions: list[ref[InnerSession]]) -> int:
    gc.collect()
    return sum(session() is not None for session in sessions)


def test_known_sizes_need_no_python(calls: list[str]):
    check(start(), 2, 1, 2, 1, 1, 2)
    assert len(calls) == 2


def test_scalars_need_no_python(calls: list[str]):
    """They have one axis inside."""
    session = of("(float[n,3] x, float s) => (float[n,3] y) { a = Abs (s) y = Add (x, a) }")
    for rows in (2, 1, 2, 1):
        (y,) = session.run(None, {"x": X[:rows], "s": np.array(-1, np.float32)})
        np.testing.assert_array_equal(y, X[:rows] + 1)
    assert len(calls) == 2


def test_int64_outputs_need_no_python(calls: list[str]):
    best = "y = ArgMax <axis = 1, keepdims = 0> (a)"
    session = of(f"(float[n,3] x) => (int64[n] y) {{ a = Abs (x) {best} }}")
    for rows in (2, 1, 2, 1):
        np.testing.assert_array_equal(session.run(None, {"x": X[:rows]})[0], [2, 2][:rows])
    assert len(calls) == 2


def test_int64_inputs_need_no_python(calls: list[str]):
    taken = "y = Gather <axis = 1> (a, i)"
    session = of(f"(float[2,3] x, int64[n] i) => (float[2,n] y) {{ a = Abs (x) {taken} }}")
    for positions in ([0, 2], [1], [-1, 1], [2], [2**32 + 1, 0], [-2]):
        i = np.array(positions)
        (y,) = session.run(None, {"x": X, "i": i})
        np.testing.assert_array_equal(y, np.abs(X)[:, i.astype(np.int32)])
    assert len(calls) == 2


def test_tensors_without_elements(calls: list[str]):
    """They run on the CPU provider, through Python."""
    check(start(), 0, 2, 0, 2)
    assert len(calls) == 3


def test_the_sizes_used_last_are_kept(compiled, opened):
    """Python learns of runs without it before it drops sizes, and the sessions of those close."""
    session = start(shape_cache=2)
    before = alive(opened)
    check(session, 1, 2, 1, 2, 1)
    del compiled[:]
    check(session, 3, 1)
    assert compiled == [(3, 3)]
    check(session, 2)
    assert compiled == [(3, 3), (2, 3)]
    assert alive(opened) == before + 2
    del session
    assert alive(opened) == 0


def test_more_sizes_than_c_code_chooses_from(calls, compiled, opened):
    most = lib.MOST_DIRECT_RUNS
    session = start(shape_cache=2 * most)
    del compiled[:], calls[:]
    check(session, *range(1, most + 3))
    check(session, *range(3, most + 3))  # the last ones
    assert len(calls) == len(compiled) == most + 2
    check(session, 1, 2, 1, 2, *range(5, most + 3))
    assert len(compiled) == most + 2
    assert len(calls) == most + 4
    assert alive(opened) >= most + 2


@pytest.mark.parametrize("crossing", [False, True], ids=["shape of an input", "contents of one"])
def test_inputs_that_the_session_does_not_have_decide(calls: list[str], crossing: bool):
    """c is expanded to the shape of w: Shape is in the cluster of Expand, or in the one before."""
    more = "f = Cast <to = 1> (s) g = ReduceMin <keepdims = 0> (f) h = Max (r, g)"
    more, factor = (more, "h") if crossing else ("", "r")
    text = f"""(float[1,1] x, float[p,q] w) => (float[p,q] y) {{ a = Abs (w) s = Shape (a)
        r = ReduceMax <keepdims = 0> (a) {more} [left] c = Mul (x, {factor})
        d = Abs (c) b = Expand (d, s) y = Add (b, b) }}"""
    session = of(text, exclude="left")
    del calls[:]
    shapes = [(2, 3), (3, 2), (6, 1)]
    for shape in [*shapes, *shapes, (6, 1), (2, 3)]:
        w = np.full(shape, -7, np.float32)
        (y,) = session.run(None, {"x": np.full((1, 1), -2, np.float32), "w": w})
        np.testing.assert_array_equal(y, np.full(shape, 28))
    assert len(calls) == 2 * len(shapes)  # the first run of each cluster with each shape


@pytest.mark.parametrize("seed", [1, 2])
def test_threads_of_different_sizes_while_sizes_are_dropped(calls, opened, seed):
    session = start(shape_cache=2)
    before = alive(opened)
    drawn = random.Random(seed)
    # mostly two sizes, and others that push them out
    rows = [drawn.choice([1, 2, 1, 2, 1, 2, 1, 2, 3, 4]) for _ in range(400)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda i: check(session, *rows[i : i + 4], seed=i), range(0, 400, 4)))
    assert len(calls) < len(rows)
    check(session, 5, 6, 7)
    assert alive(opened) <= before + 2


def test_a_profile_has_every_run(calls: list[str], tmp_path: Path):
    session = start(profile=tmp_path / "p")
    check(session, 1, 2, 1, 2)
    events = json.loads(Path(session.end_profiling()).read_text("utf-8"))
    assert len([e for e in events if e["name"] == "NNAPI cluster"]) == 4
    check(session, 1, 2, 1, 2)
    assert len(calls) == 5  # which offers all of them


def test_changed_options_and_options_of_a_run_need_python(calls: list[str]):
    session = start()
    check(session, 1, 2, 1, 2)
    limited = onnxruntime.RunOptions()
    limited.add_run_config_entry(RUN_OPTION, "60")
    check(session, 1, 2, run_options=limited)
    check(session, 1, 2)
    assert len(calls) == 4
    session.set_ep_dynamic_options({"execution_timeout": "60"})
    check(session, 1, 2, 1, 2)
    assert len(calls) == 8


def test_a_terminated_run_ends_and_the_next_one_is_right(calls: list[str]):
    session = start()
    check(session, 1, 2)
    options = onnxruntime.RunOptions()
    options.terminate = True
    for rows in (1, 2):
        with pytest.raises(Exception, match="terminate flag"):
            check(session, rows, run_options=options)
    check(session, 1, 2)
    assert len(calls) == 2


def test_a_forked_process_runs_its_parents_session():
    """Sizes that the parent has compiled, and others."""
    session = start(shape_cache=2)
    check(session, 1, 2, 1, 2)
    assert in_child(lambda: check(session, 1, 2, 3, 1) or 0) == 0
    check(session, 1, 2)
