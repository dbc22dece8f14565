"""Every combination of the table: prepared, loaded in a fresh process, equal to the original."""

from __future__ import annotations

import itertools
from functools import cache
from pathlib import Path

import onnx
import onnxruntime
import pytest

import ep_nnapi
from ep_nnapi.job import COMBINATIONS, Combination, Format, Level, Platform, Style, aware_of, job_of
from ep_nnapi.rejection import OptionError
from ep_nnapi.tolerance import DEFAULT_TOLERANCE, QUANTIZED_TOLERANCE
from models import zoo
from tests.prepare.fresh import CPU, assert_close, original, run

SIZES = {
    "mobilenet_v1": 96,
    "mobilenet_v2": 96,
    "mobilenet_v3_large": 96,
    "efficientnet_lite0": 96,
    "resnet18": 64,
    "resnet50": 64,
    "squeezenet1_1": 96,
    "espcn": 40,
    "segmentation": 96,
}
LONG = [*((name, None) for name in zoo.MODELS), ("squeezenet1_1", "u8s8"), ("mobilenet_v2", "s8s8")]
EACH = [(c, level) for c in COMBINATIONS for level in c.levels]


def called(case: tuple[Combination, Level]) -> str:
    return f"{case[0].format}-{case[0].style}-{case[1]}"


@cache
def built(name: str, scheme: str | None = None) -> onnx.ModelProto:
    size = SIZES.get(name)
    if scheme is not None:
        return zoo.quantized(name, scheme, size=size)
    return zoo.MODELS[name](size=size) if size else zoo.MODELS[name]()


def prepared(model: onnx.ModelProto, folder: Path, **options: object) -> Path:
    """What is written for `model`, which is gone when this returns."""
    source = folder / "in" / "model.onnx"
    source.parent.mkdir()
    onnx.save(model, source)
    done = ep_nnapi.prepare(source, folder / "out", **options)
    source.unlink()
    (found,) = done.models
    assert found.error is None, found.error
    return folder / "out" / found.output


def round_trip(model: onnx.ModelProto, folder: Path, case: tuple[Combination, Level], tol: float):
    combination, level = case
    chosen = {
        "optimization_level": str(level),
        "format": str(combination.format),
        "optimization_style": str(combination.style),
    }
    path = prepared(model, folder, verify=False, **chosen)
    feeds = zoo.sample_inputs(model)
    want = original(model, feeds)
    assert_close(run(path, feeds, {}), want, tol)
    if combination.format is not Format.CONTEXT:
        assert_close(run(path, feeds, None), want, tol)


@pytest.mark.parametrize("case", EACH, ids=called)
def test_round_trips(case: tuple[Combination, Level], tmp_path: Path) -> None:
    round_trip(built("kws_dscnn"), tmp_path, case, DEFAULT_TOLERANCE)


def test_quantized_round_trips(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime.quantization.quantize", exc_type=ImportError)
    for form in Format:
        folder = tmp_path / form
        folder.mkdir()
        (combination, *_) = (c for c in COMBINATIONS if c.format is form)
        case = (combination, Level.NNAPI_AWARE)
        round_trip(built("kws_dscnn", "u8u8"), folder, case, QUANTIZED_TOLERANCE)


@pytest.mark.long
@pytest.mark.parametrize(("name", "scheme"), LONG)
@pytest.mark.parametrize("case", EACH, ids=called)
def test_the_zoo_round_trips(
    case: tuple[Combination, Level], name: str, scheme: str | None, tmp_path: Path
) -> None:
    if scheme is not None:
        pytest.importorskip("onnxruntime.quantization.quantize", exc_type=ImportError)
    tolerance = DEFAULT_TOLERANCE if scheme is None else QUANTIZED_TOLERANCE
    round_trip(built(name, scheme), tmp_path, case, tolerance)


def test_what_is_in_no_combination_is_refused_in_a_sentence() -> None:
    known = {(c.format, c.style, level) for c in COMBINATIONS for level in c.levels}
    for form, style, level, platform in itertools.product(Format, Style, Level, Platform):
        given = {
            "format": str(form),
            "optimization_style": str(style),
            "optimization_level": str(level),
            "target_platform": str(platform),
        }
        if (form, style, level) in known:
            assert job_of(given).format is form
            continue
        with pytest.raises(OptionError) as refused:
            job_of(given)
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"embed": True}, "embed is for format context only, not ort"),
        (
            {"format": "onnx", "enable_type_reduction": True},
            "enable_type_reduction is for format ort only",
        ),
        ({"format": "tflite"}, "format is 'tflite'; it must be one of ort, onnx, context"),
        ({"optimization_level": "99"}, "optimization_level is '99'"),
    ],
)
def test_what_does_not_go_together_is_refused(given: dict[str, object], says: str) -> None:
    with pytest.raises(OptionError, match=says):
        job_of(given)


def test_a_job_is_what_its_json_says() -> None:
    job = job_of({"format": "context", "embed": True, "feature_level": 4, "exclude": "Add"})
    assert job_of(job.to_json()) == job


def test_the_old_spelling() -> None:
    assert aware_of("extended") == aware_of(None) == "nnapi-aware"
    assert aware_of("basic") == "basic"  # it fuses nothing that NNAPI would take
    with pytest.raises(OptionError, match="one CPU"):
        aware_of("all")


def kept(path: Path, **options: object) -> set[str]:
    return {n for c in ep_nnapi.check(path, **options).clusters for n in c.nodes}


def ops_of(path: Path, folder: Path) -> dict[str, str]:
    """Operators by node name in an .ort file, as plain ONNX Runtime reads it."""
    chosen = onnxruntime.SessionOptions()
    chosen.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    chosen.optimized_model_filepath = str(folder / "seen.onnx")
    chosen.add_session_config_entry("session.save_model_format", "ONNX")
    onnxruntime.InferenceSession(str(path), chosen, providers=CPU)
    return {n.name: n.op_type for n in onnx.load(folder / "seen.onnx").graph.node}


@pytest.mark.parametrize("exclude", ["", "MaxPool", "Relu"])
def test_nnapi_aware_keeps_what_a_session_claims(exclude: str, tmp_path: Path) -> None:
    """And fuses in the rest what ONNX Runtime fuses there."""
    source = Path(zoo.__file__).parent / "digits.onnx"
    options = {"exclude": exclude} if exclude else {}
    ep_nnapi.prepare(source, tmp_path / "a.ort", verify=False, **options)
    claimed = kept(source, **options)
    assert claimed == kept(tmp_path / "a.ort", **options)
    ops = ops_of(tmp_path / "a.ort", tmp_path)
    assert claimed <= ops.keys()
    assert not any(ops[name] == "FusedConv" for name in claimed)


def test_nnapi_aware_fuses_what_is_left(tmp_path: Path) -> None:
    source = Path(zoo.__file__).parent / "digits.onnx"
    ep_nnapi.prepare(source, tmp_path / "a.ort", verify=False, exclude="Conv,Relu")
    assert "FusedConv" in ops_of(tmp_path / "a.ort", tmp_path).values()
