"""The command `check`: its arguments, the calls to the library, tables, baselines and folders."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from ep_nnapi.cli import advice_output, check_formats
from ep_nnapi.cli import report_tables as report_printing
from ep_nnapi.cli import tables as printing
from ep_nnapi.cli.arguments import options_of
from ep_nnapi.cli.terminal import DONE, NEGATIVE, line, print_json, table
from ep_nnapi.nnapi.errors import ModelError, NnapiError, OptionError
from ep_nnapi.nnapi.files import read_regular
from ep_nnapi.options.table import OptionKeywords, changed, parse
from ep_nnapi.preparation.job import Level

if TYPE_CHECKING:
    from ep_nnapi.report.report import Report

Baseline: TypeAlias = Mapping[str, object]
_ABOUT_ONE = ("levels", "advise", "format")
"""Arguments of which each is about one model, not a directory."""


def add(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments specific to `check`."""
    parser.add_argument("--strict", action="store_true", help="exit 1 unless NNAPI takes all nodes")
    parser.add_argument(
        "--levels", action="store_true", help="print one row for each feature level"
    )
    parser.add_argument(
        "--baseline",
        metavar="JSON",
        help="output of an earlier check --json; exit 1 for another model, fewer nodes on NNAPI, "
        "more clusters or border bytes, or new reasons",
    )
    parser.add_argument(
        "--optimization-level",
        choices=[str(x) for x in Level],
        help="check the model as prepare saves it at this level",
    )
    check_formats.add(parser)
    advice_output.add(parser)


def run(given: argparse.Namespace) -> int:
    """Prints the report on a model, or a row for each model of a directory."""
    options = options_of(given)
    check_formats.validate(given)
    if Path(given.model).is_dir():
        return _directory(given, options)
    if given.advise:
        return advice_output.run(given, options)
    if given.levels:
        return _levels(given, options)
    baseline = _baseline(given.baseline)
    report = _report(given.model, given, options)
    _print(given, report)
    regressions = [] if baseline is None else _regressions(report, baseline, given.baseline)
    for way in regressions:
        line(f"ep-nnapi: {way} since {given.baseline}", error=True)
    left = given.strict and report.taken < report.nodes
    return NEGATIVE if left or regressions else DONE


def _report(model: str, given: argparse.Namespace, options: OptionKeywords) -> Report:
    from ep_nnapi.diagnostics.check import check
    from ep_nnapi.preparation.ort_export import check_at

    if given.optimization_level is None:
        return check(model, **options)
    return check_at(model, given.optimization_level, **options)


def _print(given: argparse.Namespace, report: Report) -> None:
    from ep_nnapi.diagnostics.inspect_context import contents

    compiled = contents(given.model)
    if given.format is not None:
        check_formats.write(given, report)
    elif given.json:
        inside = {"contexts": [c.to_json() for c in compiled]} if compiled else {}
        print_json(report.to_json() | inside)
    else:
        report_printing.report(report)
        if compiled:
            printing.compiled(compiled)


def _directory(given: argparse.Namespace, options: OptionKeywords) -> int:
    """Prints a row for each .onnx file of a directory, or their reports as a JSON list."""
    from ep_nnapi.preparation.batch import models_in

    about_one = [f"--{name}" for name in _ABOUT_ONE if getattr(given, name)]
    if about_one:
        raise OptionError(f"{', '.join(about_one)} is about one model; give one .onnx or .ort file")
    folder, baseline = Path(given.model), _baseline(given.baseline)
    checked: dict[str, Report | NnapiError] = {}
    for path in models_in(folder):
        try:
            checked[str(path.relative_to(folder))] = _report(str(path), given, options)
        except ModelError as error:
            checked[str(path.relative_to(folder))] = error
    if given.json:
        print_json([_entry(name, found) for name, found in checked.items()])
    else:
        head = ("model", "nodes", "taken", "clusters", "border bytes")
        table(head, (_row(name, found) for name, found in checked.items()))
    for name, found in checked.items():
        if isinstance(found, NnapiError):
            line(f"ep-nnapi: {name}: {str(found).removeprefix(f'{folder / name}: ')}", error=True)
    regressions = [] if baseline is None else list(_of_models(checked, baseline, given.baseline))
    for way in regressions:
        line(f"ep-nnapi: {way} since {given.baseline}", error=True)
    reports = [found for found in checked.values() if not isinstance(found, NnapiError)]
    left = given.strict and any(r.taken < r.nodes for r in reports)
    return NEGATIVE if left or regressions or len(reports) < len(checked) else DONE


def _entry(name: str, found: Report | NnapiError) -> dict[str, object]:
    if isinstance(found, NnapiError):
        return {"model": {"path": name}, "error": str(found)}
    return found.to_json() | {"model": {"path": name, "sha256": found.digest}}


def _row(name: str, found: Report | NnapiError) -> tuple[str, ...]:
    if isinstance(found, NnapiError):
        return (name, *"----")
    sizes = (found.nodes, found.taken, len(found.clusters), found.boundary_bytes)
    return (name, *map(str, sizes))


def _of_models(
    checked: Mapping[str, Report | NnapiError], baseline: object, file: str
) -> Iterator[str]:
    """Yields the regressions of a directory's models; one without a baseline is one too."""
    if not isinstance(baseline, list):
        raise OptionError(f"{file}: not a report of check --json on a directory")
    try:
        before = {entry["model"]["path"]: entry for entry in baseline}
    except (KeyError, TypeError):
        raise OptionError(f"{file}: not a report of check --json on a directory") from None
    for name, found in checked.items():
        if name not in before:
            yield f"{name} is new"
        elif not isinstance(found, NnapiError) and "error" not in before[name]:
            ways = _regressions(found, before[name], file)
            yield from (f"{name}: {way}" for way in ways)
    yield from (f"{name} is gone" for name in before.keys() - checked.keys())


def _levels(given: argparse.Namespace, options: OptionKeywords) -> int:
    """Prints a report for each feature level, as old phones support less than the default one."""
    from ep_nnapi.diagnostics.check import check
    from ep_nnapi.provider.provider import planner_of

    for name in ("baseline", "strict", "optimization_level"):
        if getattr(given, name):
            flag = name.replace("_", "-")
            raise OptionError(f"--levels and --{flag} exclude each other; give one of them")
    if {"feature_level", "api_level"} & options.keys():
        raise OptionError("--levels shows every feature level; drop --feature-level, --api-level")
    levels = range(1, planner_of(parse(options)).compiler.target.feature_level + 1)
    reports = [check(given.model, **changed(options, feature_level=level)) for level in levels]
    if given.json:
        print_json([r.to_json() for r in reports])
    else:
        printing.levels(reports)
    return DONE


def _regressions(report: Report, baseline: object, file: str) -> list[str]:
    if not isinstance(baseline, dict):
        raise OptionError(f"{file}: not a report of check --json on one model")
    try:
        return report.regressions(baseline)
    except ModelError:
        raise OptionError(f"{file}: not a report of check --json") from None


def _baseline(path: str | None) -> object:
    if path is None:
        return None
    try:
        found: object = json.loads(read_regular(path))
    except FileNotFoundError:
        raise OptionError(f"{path}: no such baseline; write one with check --json") from None
    except OSError as error:
        raise OptionError(f"{path}: the baseline cannot be read: {error.strerror}") from None
    except (RecursionError, ValueError):
        raise OptionError(f"{path}: not a report of check --json") from None
    if not isinstance(found, dict | list):
        raise OptionError(f"{path}: not a report of check --json")
    return found
