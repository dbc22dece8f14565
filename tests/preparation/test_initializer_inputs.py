"""Models whose initializers are also graph inputs, as IR version 3 has them, in every combination.

Before IR version 4 such an initializer is a constant; since then the caller may override it. What
is prepared has the inputs and the overridable initializers that plain onnxruntime shows of the
original.
"""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import ep_nnapi
from ep_nnapi.diagnostics.output_traits import TOLERANCES, OutputKind
from ep_nnapi.preparation.job import COMBINATIONS, Format, Job, Level, job_of
from ep_nnapi.preparation.pipeline import save_prepared
from ep_nnapi.sessions.cpu import session_of
from models import zoo
from tests.end_to_end.sessions import MNIST, quiet, without_mnist
from tests.onnx_graph import parsed
from tests.preparation.fresh import Arrays, apart
from tests.preparation.test_pipeline import SIZES

SHORT = ("espcn",)
NETWORKS = [n for n in zoo.MODELS if n != "resnet50"]  # 100 MB of the same as resnet18
LOADED = [c for c in COMBINATIONS if c.format is not Format.TFLITE]  # by ONNX Runtime
ROWS = [(row, level) for row in LOADED for level in row.levels]
Signature = tuple[list[str], list[str], list[str]]


def listed(model: onnx.ModelProto, ir_version: int) -> onnx.ModelProto:
    """`model` with its initializers among its inputs."""
    model.ir_version = ir_version
    model.graph.input.extend(
        helper.make_tensor_value_info(t.name, t.data_type, t.dims) for t in model.graph.initializer
    )
    return model


def signature(session: onnxruntime.InferenceSession) -> Signature:
    """The names of the inputs, the overridable initializers and the outputs."""
    parts = session.get_inputs(), session.get_overridable_initializers(), session.get_outputs()
    inputs, overridable, outputs = ([v.name for v in values] for values in parts)
    return inputs, sorted(overridable), outputs


def computed(session: onnxruntime.InferenceSession, feeds: Arrays) -> Arrays:
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


def opened(path: Path, job: Job) -> onnxruntime.InferenceSession:
    """A session on what was prepared: plain, but for compiled clusters."""
    if job.format is not Format.CONTEXT:
        return session_of(str(path), quiet())
    options = quiet()
    ep_nnapi.append_execution_provider(options)
    return onnxruntime.InferenceSession(str(path), options)


def given(row: object, level: Level) -> dict[str, object]:
    return {
        "format": str(row.format),
        "optimization_style": str(row.style),
        "optimization_level": str(level),
    }


def jobs() -> list[Job]:
    """A job for each format, style and level; compiled clusters with their weights either way."""
    plain = [job_of(given(row, level)) for row, level in ROWS]
    embedded = [
        job_of({**given(row, level), "embed": True})
        for row, level in ROWS
        if row.format is Format.CONTEXT
    ]
    return [*plain, *embedded]


def called(job: Job) -> str:
    return f"{job.format}-{job.style}-{job.level}-{job.embed}{job.suffix}"


def assert_prepared_alike(source: Path, feeds: Arrays, folder: Path, what: list[Job]) -> None:
    plain = session_of(str(source), quiet())
    shown, want = signature(plain), computed(plain, feeds)
    for job in what:
        out = folder / called(job)
        assert save_prepared(source, out, job).report.taken
        session = opened(out, job)
        assert signature(session) == shown, called(job)
        assert apart(computed(session, feeds), want) <= TOLERANCES[OutputKind.FLOAT32], called(job)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in SHORT else pytest.mark.long) for n in NETWORKS]
)
def test_initializers_of_ir_version_3_are_no_inputs(name: str, tmp_path: Path) -> None:
    model = zoo.MODELS[name](size=SIZES.get(name))
    feeds = zoo.sample_inputs(model)
    source = tmp_path / "model.onnx"
    onnx.save(listed(model, 3), source)
    assert_prepared_alike(source, feeds, tmp_path, jobs())


@without_mnist
def test_mnist_of_onnx_runtimes_documentation(tmp_path: Path) -> None:
    compiled = [job for job in jobs() if job.format is Format.CONTEXT]
    assert_prepared_alike(MNIST.path, {MNIST.input: MNIST.random(1)[0]}, tmp_path, compiled)


def test_sizes_are_fixed_in_ir_version_3(tmp_path: Path) -> None:
    model = zoo.MODELS["mlp"](dynamic=("batch",))
    feeds = zoo.sample_inputs(model, batch=3)
    (name,) = feeds
    source, out = tmp_path / "model.onnx", tmp_path / "fixed_ctx.onnx"
    onnx.save(listed(model, 3), source)
    plain = session_of(str(source), quiet())
    job = job_of({"format": "context", "fix": {name: feeds[name].shape}})
    save_prepared(source, out, job)
    session = opened(out, job)
    assert signature(session) == signature(plain)
    assert apart(computed(session, feeds), computed(plain, feeds)) <= TOLERANCES[OutputKind.FLOAT32]


def overridable(folder: Path) -> Path:
    """y = Relu(x @ w) * s + t: s is a graph input as well, and so is spare."""
    text = """(float[2,8] x, float[4] s, float[1] spare) => (float[2,4] y) {
        a = MatMul (x, w) b = Relu (a) c = Mul (b, s) y = Add (c, t) }"""
    weights = np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)
    s, t, spare = np.full(4, 2, np.float32), np.ones(4, np.float32), np.zeros(1, np.float32)
    path = folder / "model.onnx"
    onnx.save(parsed(text, ir_version=8, w=weights, s=s, t=t, spare=spare), path)
    return path


@pytest.mark.parametrize("job", jobs(), ids=called)
def test_what_can_be_overridden_stays_so(job: Job, tmp_path: Path) -> None:
    source, out = overridable(tmp_path), tmp_path / called(job)
    plain = session_of(str(source), quiet())
    x = np.random.default_rng(1).standard_normal((2, 8)).astype(np.float32)
    save_prepared(source, out, job)
    session = opened(out, job)
    assert signature(session) == signature(plain)
    for more in ({}, {"s": np.arange(4, dtype=np.float32)}):
        feeds = {"x": x, **more}
        assert (
            apart(computed(session, feeds), computed(plain, feeds))
            <= TOLERANCES[OutputKind.FLOAT32]
        )
