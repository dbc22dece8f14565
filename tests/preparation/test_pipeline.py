"""The zoo, float and quantized, in every combination: prepared, then loaded without the original.

Small models go through all combinations with every target and platform. Large ones go through each
row of the table (a format, a style and a level) once, the target and the platform changing from row
to row and from model to model, so that any two of model, row, target and platform meet.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import ep_nnapi
from ep_nnapi.diagnostics.output_kinds import TOLERANCES, Kind
from ep_nnapi.nnapi.errors import ModelError
from ep_nnapi.options.target import RuleSet
from ep_nnapi.preparation.job import COMBINATIONS, Format, Job, Level, Platform, Style, job_of
from ep_nnapi.preparation.pipeline import SavedModel, save_prepared
from models import quantized, zoo
from tests.end_to_end.test_zoo import SMALL
from tests.litert.needs import LITERT
from tests.ort.models import model, tensor
from tests.ort.models import node as make
from tests.preparation.fresh import Load, apart, loading, original, run, run_all

SIZES = SMALL | {
    "vgg_small": 32,
    "detector": 96,
    "detector_roialign": 96,
    "transformer_encoder": 32,
}
SMALL = ("mlp", "kws_dscnn", "espcn")
LOADED = [c for c in COMBINATIONS if c.format is not Format.TFLITE]  # by ONNX Runtime
ROWS = [(c, level) for c in LOADED for level in c.levels]
WAYS = list(itertools.product(RuleSet, Platform))


@dataclass(frozen=True, slots=True)
class Case:
    """A model of the zoo, its scheme where it is quantized, and its place among all of them."""

    name: str
    scheme: str | None
    index: int

    def __str__(self) -> str:
        return f"{self.name}-{self.scheme or 'float'}"

    def model(self) -> onnx.ModelProto:
        size = SIZES.get(self.name)
        if self.scheme is None:
            return zoo.MODELS[self.name](size=size)
        return with_continuous_outputs(zoo.quantized(self.name, self.scheme, size=size))


def with_continuous_outputs(model: onnx.ModelProto) -> onnx.ModelProto:
    """A detector with what it suppresses boxes by as its only outputs.

    Which of two boxes goes turns on the last bit, in ONNX Runtime's own fused and unfused layers,
    too; and so does the number of boxes.
    """
    suppressing = [n for n in model.graph.node if n.op_type == "NonMaxSuppression"]
    if suppressing:
        del model.graph.output[:]
    for node in suppressing:
        for name in node.input[:2]:
            model.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))
    return model


def cases() -> Iterator[Case]:
    """Each model as float and quantized; small ones in every scheme, the others in one each."""
    index = itertools.count()
    for i, name in enumerate(zoo.MODELS):
        turn = quantized.SCHEMES[i % len(quantized.SCHEMES)]
        schemes = quantized.SCHEMES if name in SMALL else (turn,)
        for scheme in (None, *schemes):
            yield Case(name, scheme, next(index))


def jobs(case: Case, *, every: bool) -> Iterator[Job]:
    """Jobs of the model: with every target and platform, or with one for each row."""
    for i, (row, level) in enumerate(ROWS):
        ways = WAYS if every else [WAYS[(case.index + i) % len(WAYS)]]
        for rules, platform in ways:
            given: dict[str, object] = {
                "format": str(row.format),
                "optimization_style": str(row.style),
                "optimization_level": str(level),
                "target_platform": str(platform),
                "target": str(rules),
            }
            if row.extra:
                given[row.extra] = (case.index + i) % 2 == 0
            yield job_of(given)


def called(job: Job) -> str:
    rules = job.options.target
    return f"{job.format}-{job.style}-{job.level}-{job.platform}-{rules}{job.suffix}"


def saved(source: Path, out: Path, job: Job) -> SavedModel | str:
    """The prepared model, or the reason why it is refused."""
    try:
        return save_prepared(source, out, job)
    except ModelError as error:
        return str(error)


def may_be_refused(case: Case, job: Job, why: str) -> bool:
    builtin = job.options.target is RuleSet.BUILTIN
    if job.format is Format.CONTEXT:
        # ONNX Runtime's own provider leaves signed activations, for one
        return builtin and "takes no node" in why
    protected = job.level is Level.NNAPI_AWARE and not builtin
    recorded = job.style is Style.RUNTIME and not protected and case.name == "transformer_encoder"
    return recorded and case.scheme is not None and "cannot replay" in why  # nor their own tool's


def prepared(model: onnx.ModelProto, case: Case, folder: Path, *, every: bool) -> dict[Path, Job]:
    """The prepared models of each job. `model` itself is deleted when this returns."""
    source = folder / "model.onnx"
    onnx.save(model, source)
    made = {}
    for job in jobs(case, every=every):
        out = folder / called(job)
        found = saved(source, out, job)
        if isinstance(found, str):
            assert may_be_refused(case, job, found), found
            continue
        assert found.report.clusters or job.options.target is RuleSet.BUILTIN
        assert bool(found.operators) == (job.format is Format.ORT)
        made[out] = job
    source.unlink()
    return made


def loads(made: dict[Path, Job], *, plain: bool) -> Iterator[Load]:
    """The sessions to make of them; recorded optimizations once left alone, once replayed."""
    for path, job in made.items():
        if plain and job.format is Format.CONTEXT:
            continue
        options: dict[str, object] = {"target": str(job.options.target)}
        yield loading(path, options)
        if job.style is Style.RUNTIME:
            yield loading(path, options, replay=True)


def round_trips(case: Case, folder: Path, *, every: bool) -> None:
    model = case.model()
    feeds = zoo.sample_inputs(model)
    want = original(model, feeds)
    made = prepared(model, case, folder, every=every)
    tolerances = dict.fromkeys((False, True), TOLERANCES[Kind.FLOAT32])
    if case.scheme is not None:
        level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        unfused = original(model, feeds, level)  # in a deep network steps add up: twice as far
        # without VNNI a plain session's products saturate, and those of what was saved do
        onnx.save(model, folder / "stock.onnx")
        stock = run(folder / "stock.onnx", feeds, None)
        own = max(apart(unfused, want), apart(stock, want))
        # so do the ties that NNAPI rounds otherwise, in the original as in what was saved
        nnapi = apart(run(folder / "stock.onnx", feeds, {}), want)
        for plain, far in ((False, max(own, nnapi)), (True, own)):
            tolerances[plain] = max(TOLERANCES[Kind.QUANTIZED], 2 * far)
    for plain in (False, True):
        wanted = list(loads(made, plain=plain))
        outputs, said = run_all(wanted, feeds, folder, plain=plain)
        assert len(outputs) == len(wanted), said
        apart_by = zip(wanted, (apart(got, want) for got in outputs), strict=True)
        assert not {Path(load.out).name: d for load, d in apart_by if d > tolerances[plain]}


@pytest.mark.parametrize("scheme", [None, "u8s8"])
def test_each_row_round_trips(scheme: str | None, tmp_path: Path) -> None:
    if scheme is not None:
        pytest.importorskip("onnxruntime.quantization.quantize", exc_type=ImportError)
    round_trips(Case("kws_dscnn", scheme, 0), tmp_path, every=False)


@pytest.mark.long
@pytest.mark.parametrize("case", list(cases()), ids=str)
def test_every_combination_round_trips(case: Case, tmp_path: Path) -> None:
    round_trips(case, tmp_path, every=case.name in SMALL)


def test_any_two_meet() -> None:
    """Every model meets every row, target and platform; every row every target and platform."""
    for case in cases():
        seen = list(jobs(case, every=case.name in SMALL))
        assert {(j.format, j.style, j.level) for j in seen} == {
            (c.format, c.style, level) for c, level in ROWS
        }
        assert {(j.options.target, j.platform) for j in seen} == set(WAYS)


@pytest.mark.parametrize("form", ["context", pytest.param("tflite", marks=LITERT)])
def test_nodes_that_the_optimization_makes_equal_to_others(form: str, tmp_path: Path) -> None:
    """ONNX Runtime makes two Gathers a Split, which it merges with an equal one at the next load.

    As in a graph network that reads both rows of its edges in two ways.
    """
    nodes = [
        make("Gather", "x first", "a", axis=0),
        make("Gather", "x second", "b", axis=0),
        make("Split", "x rows", "p q", axis=0),
        make("Squeeze", "p zero", "c"),
        make("Squeeze", "q zero", "d"),
        make("Cast", "a", "af", to=TensorProto.FLOAT),
        make("Cast", "b", "bf", to=TensorProto.FLOAT),
        make("Cast", "c", "cf", to=TensorProto.FLOAT),
        make("Cast", "d", "df", to=TensorProto.FLOAT),
        make("Sub", "af df", "e"),
        make("Mul", "bf cf", "g"),
        make("Add", "e g", "y"),
    ]
    weights = {
        n: np.array(v) for n, v in {"first": 0, "second": 1, "zero": [0], "rows": [1, 1]}.items()
    }
    ends = [tensor("x", (2, 5), np.int64)], [tensor("y", (5,))]
    (tmp_path / "model.onnx").write_bytes(model(nodes, *ends, weights))
    path, out = tmp_path / "model.onnx", tmp_path / "out"
    (entry,) = ep_nnapi.prepare(path, out, format=form, exclude="Gather,Split,Squeeze").models
    assert entry.error is None
    assert entry.report["taken"] == 3
