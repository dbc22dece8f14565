"""The verb `check`: which nodes NNAPI takes, and why not the others."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ep_nnapi.cli import arguments
from ep_nnapi.cli.terminal import DONE, NEGATIVE, line, print_json, print_result, table
from ep_nnapi.errors import ADVICE, FIX_ADVICE, SHAPE_ADVICE, TRIED, Rejection, by_kind, kind_row
from ep_nnapi.nnapi.errors import ModelError, NnapiError, OptionError, Reason
from ep_nnapi.options.settings import read_json
from ep_nnapi.options.table import Options, parse
from ep_nnapi.preparation.job import Level
from ep_nnapi.report.html import CLUSTER_COLUMNS

if TYPE_CHECKING:
    from ep_nnapi.diagnostics.advice import OtherRuntime
    from ep_nnapi.diagnostics.inspect_context import Content, Phone
    from ep_nnapi.report.report import Report

HELP = "which nodes NNAPI takes, and why not"
_NO_REPORT = "not a report of check --json"
_FORMATS = ("model-explorer", "netron")
_SOURCES = 3  # source lines that a row names


def add(parser: arguments.Parser) -> None:
    """Adds the arguments."""
    arguments.add_model(parser, "an .onnx or .ort file, or a directory of .onnx files")
    parser.takes("--strict", "exit 1 unless NNAPI takes all nodes")
    parser.takes("--levels", "print one row for each feature level")
    parser.takes(
        "--baseline JSON",
        "output of an earlier check --json; exit 1 for another model, fewer nodes on NNAPI, "
        "more clusters or border bytes, or new reasons",
    )
    parser.takes(
        "--optimization-level",
        "check the model as prepare saves it at this level",
        choices=Level,
    )
    parser.takes(
        "--format",
        "write the report for another tool: a graph and node data of Google's Model Explorer, "
        "or an .onnx file for Netron with the decision in each node's metadata",
        choices=_FORMATS,
    )
    parser.takes("-o --output FILE", "the file that --format writes")
    parser.takes(
        "--advise", "what CPU, XNNPACK, WebGPU, QNN and LiteRT take of the model, and the commands"
    )
    arguments.add_json(parser)


def run(given: argparse.Namespace) -> int:
    """Prints the report on a model, or a row for each model of a directory."""
    options = parse(arguments.options_of(given))
    _check_format(given)
    if given.model and Path(given.model).is_dir():
        return _directory(given, options)
    if given.advise:
        return _advise(given, options)
    if given.levels:
        return _levels(given, options)
    baseline = _baseline(given.baseline)
    report = _report(given.model, given, options)
    _print(given, report)
    regressions = [] if baseline is None else _regressions(report, baseline, given.baseline)
    return _code(given, [report], regressions)


def _code(given: argparse.Namespace, reports: Sequence[Report], regressions: Sequence[str]) -> int:
    """Prints the regressions; returns the exit code."""
    for way in regressions:
        line(f"ep-nnapi: {way} since {given.baseline}", error=True)
    left = given.strict and any(r.taken < r.nodes for r in reports)
    return NEGATIVE if left or regressions else DONE


def _flags(given: argparse.Namespace, *names: str) -> str:
    """The flags that are given of arguments of these names, with commas between them."""
    return ", ".join(f"--{name.replace('_', '-')}" for name in names if getattr(given, name))


def _report(model: str, given: argparse.Namespace, options: Options) -> Report:
    from ep_nnapi.diagnostics.check import checked
    from ep_nnapi.preparation.ort_export import checked_at

    if given.optimization_level is None:
        return checked(model, options)
    return checked_at(model, Level(given.optimization_level), options)


def _print(given: argparse.Namespace, report: Report) -> None:
    from ep_nnapi.diagnostics.inspect_context import contents, phones

    compiled = contents(given.model)
    if given.format is not None:
        _write(given, report)
        return
    found = phones(given.model)
    if given.json:
        inside = {"contexts": compiled, "phones": found} if compiled else {}
        print_json(report.to_json() | inside)
    else:
        show_report(report)
        if compiled:
            _compiled(compiled, found)


def _directory(given: argparse.Namespace, options: Options) -> int:
    """Prints a row for each .onnx file of a directory, or their reports as a JSON list."""
    from ep_nnapi.preparation.batch import models_in

    about_one = _flags(given, "levels", "advise", "format")
    if about_one:
        raise OptionError(f"{about_one} is about one model; give one .onnx or .ort file")
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
        table(("model", *_SIZES), ((name, *_sizes(found)) for name, found in checked.items()))
    for name, found in checked.items():
        if isinstance(found, NnapiError):
            line(f"ep-nnapi: {name}: {str(found).removeprefix(f'{folder / name}: ')}", error=True)
    regressions = [] if baseline is None else list(_of_models(checked, baseline, given.baseline))
    reports = [found for found in checked.values() if not isinstance(found, NnapiError)]
    code = _code(given, reports, regressions)
    return code if len(reports) == len(checked) else NEGATIVE


def _entry(name: str, found: Report | NnapiError) -> dict[str, object]:
    if isinstance(found, NnapiError):
        return {"model": {"path": name}, "error": str(found)}
    return found.to_json() | {"model": {"path": name, "sha256": found.digest}}


_SIZES = ("nodes", "taken", "clusters", "border bytes")


def _sizes(found: Report | NnapiError) -> tuple[int | None, ...]:
    """The cells of a table below `_SIZES`."""
    if isinstance(found, NnapiError):
        return (None,) * len(_SIZES)
    return found.nodes, found.taken, len(found.clusters), found.boundary_bytes


def _of_models(
    checked: Mapping[str, Report | NnapiError], baseline: object, file: str
) -> Iterator[str]:
    """Yields the regressions of a directory's models; one without a baseline is one too."""
    given: list[Any] = baseline if isinstance(baseline, list) else [None]
    try:
        before = {entry["model"]["path"]: entry for entry in given}
    except (KeyError, TypeError):
        raise OptionError(f"{file}: {_NO_REPORT} on a directory") from None
    for name, found in checked.items():
        if name not in before:
            yield f"{name} is new"
        elif not isinstance(found, NnapiError) and "error" not in before[name]:
            ways = _regressions(found, before[name], file)
            yield from (f"{name}: {way}" for way in ways)
    yield from (f"{name} is gone" for name in before.keys() - checked.keys())


def _levels(given: argparse.Namespace, options: Options) -> int:
    """Prints a report for each feature level, as old phones support less than the default one."""
    from ep_nnapi.diagnostics.check import checked, feature_levels

    others = _flags(given, "baseline", "strict", "optimization_level")
    if others:
        raise OptionError(f"--levels and {others} exclude each other; give one of them")
    if options.feature_level is not None:
        raise OptionError("--levels shows every feature level; drop --feature-level, --api-level")
    reports = [checked(given.model, each) for each in feature_levels(options)]
    print_result(given.json, lambda: [r.to_json() for r in reports], _show_levels, reports)
    return DONE


def _regressions(report: Report, baseline: object, file: str) -> list[str]:
    if not isinstance(baseline, dict):
        raise OptionError(f"{file}: {_NO_REPORT} on one model")
    try:
        return report.regressions(baseline)
    except ModelError:
        raise OptionError(f"{file}: {_NO_REPORT}") from None


def _baseline(path: str | None) -> object:
    if path is None:
        return None
    missing = "no such baseline; write one with check --json"
    found = read_json(path, "baseline", missing, _NO_REPORT)
    if not isinstance(found, dict | list):
        raise OptionError(f"{path}: {_NO_REPORT}")
    return found


def require_both(given: argparse.Namespace) -> None:
    """Raises OptionError for one of the two arguments without the other."""
    if (given.format is None) != (given.output is None):
        raise OptionError("--format and --output go together: give both or neither")


def _check_format(given: argparse.Namespace) -> None:
    """Raises OptionError as `require_both`, and for what contradicts the arguments."""
    require_both(given)
    if given.format and (given.levels or given.json or given.optimization_level):
        raise OptionError(
            "--format writes one report of the model as it is; drop --levels, --optimization-level "
            "and --json"
        )


def _write(given: argparse.Namespace, report: Report) -> None:
    """Writes the files and prints a line about each."""
    from ep_nnapi.report.formats import ReportFormat, write_format

    files = write_format(ReportFormat(given.format), Path(given.model), report, Path(given.output))
    line(f"{report.summary}.")
    for path in files:
        line(str(path))


def _advise(given: argparse.Namespace, options: Options) -> int:
    """Prints the alternatives to NNAPI and returns the exit code.

    Raises OptionError with arguments of other reports.
    """
    from ep_nnapi.diagnostics.advice import advise

    others = _flags(given, "levels", "baseline", "optimization_level", "format", "strict")
    if others:
        raise OptionError(f"--advise is about the model as it is; drop {others}")
    found = advise(given.model, options)
    print_result(given.json, lambda: found, _show_advice, found)
    return DONE


def _show_advice(found: Sequence[OtherRuntime]) -> None:
    table(("runtime", "nodes it takes", "not taken"), map(_advice_row, found))
    for each in found:
        line()
        line(f"{each.name}: {'; '.join(each.notes)}")
        line(f"  {each.command}")
        line(f"  {each.source}")


def _advice_row(each: OtherRuntime) -> tuple[str, ...]:
    taken = "not listed" if each.taken is None else f"{each.taken} of {each.nodes}"
    left = ", ".join(f"{n} {op}" for op, n in each.left.items()) or "-"
    return each.name, taken, left


def _compiled(clusters: Sequence[Content], found: Sequence[Phone]) -> None:
    """Prints one row for each cluster compiled ahead of time, its alternatives and their phones."""
    from ep_nnapi.diagnostics.inspect_context import takers

    line()
    line("Compiled ahead of time:")
    head = ("node", "level", "operations", "inputs", "outputs", "weights", "from")
    table(head, (c.row for c in clusters))
    if any(c.alternatives for c in clusters):
        line()
        line("Alternatives, of which a session takes one; bytes are those that no other has:")
        rows = (
            (c.name, *each.row, takers(found, each.name, i))
            for i, c in enumerate(clusters)
            for each in c.alternatives
        )
        table(("node", "alternative", "kind", "operations", "bytes", "runs on", "taken by"), rows)
    for c in clusters:
        number, size = c.of_two_types
        if number:
            of = "1 constant" if number == 1 else f"{number} constants"
            line(f"{c.name}: {of} as int8 and as uint8, {size} bytes more")
    show_phones(found)


def show_phones(found: Sequence[Phone]) -> None:
    """Prints one row for each phone, with its answer to each alternative; nothing without them."""
    from ep_nnapi.diagnostics.inspect_context import table_of

    if found:
        line()
        line("What phones take of it; virtual devices stand for them:")
        table(*table_of(found))


def _show_levels(reports: Sequence[Report]) -> None:
    """Prints one row for each feature level."""
    table(("level", *_SIZES), ((r.feature_level, *_sizes(r)) for r in reports))


def show_report(found: Report) -> None:
    """Prints clusters, notes on their nodes, and rejected nodes with reasons."""
    line(f"{found.summary}.")
    if found.clusters:
        line(f"{found.minimality}.")
        line()
        table(CLUSTER_COLUMNS, found.cluster_rows)
    for text in found.substitutes:
        line(text)
    if found.notes:
        line()
        line(f"Taken with a note: {_nodes(len(found.notes))}")
        table(("operator", "count", "nodes", "note"), map(kind_row, by_kind(found.notes)))
    if found.rejections:
        line()
        line(f"Left to the CPU: {_nodes(len(found.rejections))}")
        _rejections(found)


def _nodes(number: int) -> str:
    return f"{number} node" if number == 1 else f"{number} nodes"


def _rejections(found: Report) -> None:
    """Prints rejections by reason with advice, the most frequent reason first.

    Rejections that follow from the rejection of another node are only counted.
    """
    of_node = {r.node: r for r in found.rejections}
    causes = [r for r in found.rejections if not r.caused_by]
    follow = Counter(of_node[r.caused_by].reason for r in found.rejections if r.caused_by)
    counts = Counter(r.reason for r in causes)
    for reason, count in (counts + follow).most_common():
        of_reason = [r for r in causes if r.reason is reason]
        line()
        line(f"{reason} ({count}): {_advice(reason, of_reason, found.target)}")
        _table_of(of_reason)
        if follow[reason]:
            several = "follow" if follow[reason] > 1 else "follows"
            which = f"these {counts[reason]}" if counts[reason] > 1 else "this one"
            line(f"{follow[reason]} more {several} from {which}.")


def _table_of(found: Sequence[Rejection]) -> None:
    """Prints rejections by operator and kind; with source lines, if any of them has one."""
    sources = any(r.source for r in found)
    columns = ("operator", "count", "nodes", "detail", *(("source",) if sources else ()))
    rows = ((*kind_row(same), *((_sources(same),) if sources else ())) for same in by_kind(found))
    table(columns, rows)


def _sources(found: Iterable[Rejection]) -> str:
    """The first few distinct source lines, and the number of the others."""
    lines = list(dict.fromkeys(str(r.source) for r in found if r.source))
    more = f" and {len(lines) - _SOURCES} more" if len(lines) > _SOURCES else ""
    return ", ".join(lines[:_SOURCES]) + more


def _advice(reason: Reason, rejected: Sequence[Rejection], target: str) -> str:
    """Returns advice, and the name of another target that takes the nodes unchanged."""
    others = [r.accepted_by for r in rejected if r.accepted_by]
    if not others:
        return _shape_advice(rejected) if reason is Reason.SHAPE else ADVICE[reason]
    which = "it" if len(rejected) == 1 else "them"
    if len(others) < len(rejected):
        which = f"{len(others)} of them"
    advice = "replace the operator" if reason is Reason.OP else ADVICE[reason]
    return f"{advice} ({others[0]} takes {which}; {target} does not)"


def _shape_advice(rejected: Sequence[Rejection]) -> str:
    """Returns advice to fix input sizes, for those of the nodes that this would or may repair."""
    tried = any(r.detail.endswith(TRIED) for r in rejected)
    fixable = sum(r.detail.endswith((FIX_ADVICE, TRIED)) for r in rejected)
    if not fixable:
        return SHAPE_ADVICE
    repairs = f", which {'may repair' if tried else 'repairs'} {fixable} of them"
    return ADVICE[Reason.SHAPE] + (repairs if tried or fixable < len(rejected) else "")
