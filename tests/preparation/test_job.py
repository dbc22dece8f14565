"""Combinations of options of `prepare`: accepted, or refused with the flag's name."""

import itertools
import json
from pathlib import Path

import pytest

from ep_nnapi.cli.main import main
from ep_nnapi.nnapi.errors import OptionError
from ep_nnapi.options.target import RuleSet
from ep_nnapi.preparation import batch as fleet
from ep_nnapi.preparation.batch import Preparation
from ep_nnapi.preparation.job import (
    COMBINATIONS,
    Format,
    Job,
    Level,
    Platform,
    Style,
    job_of,
    level_with_nnapi,
)
from tests.preparation.test_batch import tiny


def belongs(form: Format, style: Style, level: Level, extras: set[str]) -> bool:
    rows = [c for c in COMBINATIONS if (c.format, c.style) == (form, style) and level in c.levels]
    return any(extras <= {c.extra} for c in rows)


@pytest.mark.parametrize("level", Level)
@pytest.mark.parametrize("style", Style)
@pytest.mark.parametrize("form", Format)
def test_what_is_in_no_combination_is_refused_in_a_sentence(form, style, level):
    for platform, rules, reduced, embed in itertools.product(
        Platform, RuleSet, (False, True), (False, True)
    ):
        given = {
            "format": str(form),
            "optimization_style": str(style),
            "optimization_level": str(level),
            "target_platform": str(platform),
            "target": str(rules),
            "enable_type_reduction": reduced,
            "embed": embed,
        }
        switches = {"enable_type_reduction": reduced, "embed": embed}
        if belongs(form, style, level, {name for name, on in switches.items() if on}):
            job = job_of(given)
            assert (job.format, job.platform, job.options.target) == (form, platform, rules)
            continue
        with pytest.raises(OptionError) as refused:
            job_of(given)
        said = str(refused.value)
        assert "\n" not in said
        assert any(name in said for name in given)  # which of them stands in the way


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"embed": True}, "embed is for format context only, not ort"),
        (
            {"format": "onnx", "enable_type_reduction": True},
            "enable_type_reduction is for format ort only",
        ),
        ({"format": "pb"}, "format is 'pb'; it must be one of ort, onnx, context, tflite"),
        ({"optimization_level": "99"}, "optimization_level is '99'"),
    ],
)
def test_what_does_not_go_together_is_refused(given: dict[str, object], says: str) -> None:
    with pytest.raises(OptionError, match=says):
        job_of(given)


def test_a_job_is_what_its_json_says() -> None:
    job = job_of({"format": "context", "embed": True, "feature_level": 4, "exclude": "Add"})
    assert job_of(job.to_json()) == job


@pytest.mark.parametrize(("provider", "feature_level"), [("NNAPI", 4), ("CPU", None)])
def test_settings_give_level_and_options(tmp_path: Path, provider: str, feature_level: int | None):
    """The level that is given takes precedence; the CPU needs no options of NNAPI."""
    data = {"format": "ep-nnapi settings", "version": 1, "provider": provider}
    path = tmp_path / "s.json"
    rest = {"optimization_level": "extended", "options": {"feature_level": 4}}
    path.write_text(json.dumps({**data, **rest}))
    job = job_of({"settings": path})
    assert (job.level, job.options.feature_level) == (Level.EXTENDED, feature_level)
    assert job_of({"settings": path, "optimization_level": "basic"}).level is Level.BASIC


def test_the_old_spelling() -> None:
    assert level_with_nnapi("extended") == level_with_nnapi(None) == "nnapi-aware"
    assert level_with_nnapi("basic") == "basic"  # it fuses nothing that NNAPI would take
    with pytest.raises(OptionError, match="one CPU"):
        level_with_nnapi("all")


OLD = ["--use_nnapi", "--optimization_level", "extended"]


@pytest.mark.parametrize(
    ("arguments", "job"),
    [
        ([], {"optimization_level": "nnapi-aware"}),
        (OLD, {"optimization_level": "nnapi-aware"}),
        (["--use-nnapi"], {"optimization_level": "nnapi-aware"}),
        (["--use_nnapi", "--optimization_level", "basic"], {"optimization_level": "basic"}),
        (["--optimization-level", "extended"], {"optimization_level": "extended"}),
        ([*OLD, "--target_platform", "amd64"], {"target_platform": "amd64"}),
        (["--optimization_style", "Runtime"], {"optimization_style": "runtime"}),
        (["--optimization-style", "fixed"], {"optimization_style": "fixed"}),
        (["--enable_type_reduction"], {"enable_type_reduction": True}),
    ],
    ids=" ".join,
)
def test_the_command_line_understands(arguments, job, tmp_path, monkeypatch):
    given: dict[str, object] = {}

    def prepare(model: str, out: str, **options: object) -> Preparation:
        given.update(options)
        return Preparation((), Path(out))

    monkeypatch.setattr(fleet, "prepare", prepare)
    assert main(["prepare", str(tmp_path), "-o", str(tmp_path / "out"), *arguments]) == 0
    names = Job().to_json().keys()
    asked = job_of({name: value for name, value in given.items() if name in names})
    assert asked.to_json().items() >= job.items()


def test_the_old_spelling_prepares(tmp_path: Path) -> None:
    tiny(tmp_path / "in" / "sub" / "a.onnx")
    out = tmp_path / "out"
    more = [
        "--target_platform",
        "amd64",
        "--enable_type_reduction",
        "--optimization_style",
        "Runtime",
    ]
    assert main(["prepare", str(tmp_path / "in"), "-o", str(out), *OLD, *more]) == 0
    assert (out / "sub" / "a.with_runtime_opt.ort").is_file()
    assert (out / "required_operators_and_types.with_runtime_opt.config").is_file()


@pytest.mark.parametrize(
    "arguments",
    [
        ["--optimization-level", "99"],
        ["--format", "context", "--optimization-level", "all"],
        ["--format", "onnx", "--enable-type-reduction"],
        ["--use_nnapi", "--optimization_level", "all"],
        ["--target-platform", "riscv"],
        ["--embed"],
    ],
    ids=" ".join,
)
def test_the_command_line_refuses(arguments: list[str], tmp_path, capsys):
    path = tiny(tmp_path / "a.onnx")
    assert main(["prepare", str(path), "-o", str(tmp_path / "out"), *arguments]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("ep-nnapi: ")
    assert said.err.count("\n") == 1
    assert "<" not in said.err  # values by their names
    assert not (tmp_path / "out").exists()
