"""Writing the page about a model: checks it, compares levels, and measures if asked to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Unpack

from ep_nnapi.diagnostics.check import checked, feature_levels, partitioned, with_sources
from ep_nnapi.diagnostics.fixed_model import fixed_model
from ep_nnapi.diagnostics.inspect_context import contents, phones
from ep_nnapi.diagnostics.measured_times import MeasuredTimes, measured_times
from ep_nnapi.diagnostics.model_sources import ModelSource, ProgressCallback
from ep_nnapi.diagnostics.session_runs import source
from ep_nnapi.html_report.boxes import Variant
from ep_nnapi.html_report.page import Findings, page
from ep_nnapi.nnapi.errors import NnapiError
from ep_nnapi.nnapi.files import digest_of, write_output
from ep_nnapi.nnapi.listing import listing
from ep_nnapi.options.parameters import checked_arguments
from ep_nnapi.options.table import OptionKeywords, Options, parse
from ep_nnapi.preparation.job import Level
from ep_nnapi.preparation.ort_export import checked_at
from ep_nnapi.report.report import Report


@checked_arguments
def write_report(
    model: ModelSource,
    output: str | Path,
    *,
    levels: bool = True,
    measure: bool = False,
    advance: ProgressCallback | None = None,
    **options: Unpack[OptionKeywords],
) -> Report:
    """Writes one HTML file about `model` to `output`, whole or not at all; returns its report.

    model    as for `check`
    levels   compare all feature levels, and ONNX Runtime's optimization levels
    measure  run the model with random inputs, for the times of clusters and nodes
    Raises as `check`; RuntimeFailure if a device fails in a measured run; OptionError if the
    file cannot be written.
    """
    return write_findings(
        model, output, levels=levels, measure=measure, advance=advance, **options
    ).report


def write_findings(
    model: ModelSource,
    output: str | Path,
    *,
    levels: bool = True,
    measure: bool = False,
    advance: ProgressCallback | None = None,
    **options: Unpack[OptionKeywords],
) -> Findings:
    """Writes the file as `write_report`; returns all that it shows."""
    chosen, given = parse(options), source(model)
    name = "model" if isinstance(given, bytes) else Path(given).name
    with fixed_model(given, chosen) as (static, rest):
        found = _findings(name, static, (levels, measure), advance, rest)
    found = replace(found, report=replace(found.report, digest=digest_of(given)))
    write_output(Path(output), page(found))
    return found


def _findings(
    called: str,
    model: str | bytes,
    asked: tuple[bool, bool],
    advance: ProgressCallback | None,
    options: Options,
) -> Findings:
    """Returns what the page shows of a model; `asked`: whether of levels, and of measured times."""
    levels, measure = asked
    provider = partitioned(model, options)
    clusters = partitioned(model, options, fast=False).clusters  # those of `listing`
    wanted = list(_variants(model, options)) if levels else []
    compared: dict[str, list[Variant]] = {"feature": [], "optimization": []}
    for done, (kind, name, report) in enumerate(wanted):
        if advance is not None:
            advance(done, len(wanted) + measure)
        try:
            compared[kind].append(Variant(name, report()))
        except NnapiError as error:  # ONNX Runtime cannot save the model at this level
            compared[kind].append(Variant(name, None, str(error)))
    return Findings(
        called,
        with_sources(provider.report, model),
        tuple(listing(c.models[0], data=False) if c.models else "" for c in clusters),
        measured_times(model, options) if measure else MeasuredTimes(),
        tuple(compared["feature"]),
        tuple(compared["optimization"]),
        phones(model),
    )


def _variants(
    model: str | bytes, options: Options
) -> Iterator[tuple[str, str, Callable[[], Report]]]:
    """Yields kind and name of each level to compare, and a function that checks the model at it.

    A model that is compiled already has no optimization levels.
    """
    for at in feature_levels(options):
        yield "feature", str(at.feature_level), partial(checked, model, at)
    if not contents(model):
        for name in Level:
            yield "optimization", str(name), partial(checked_at, model, name, options)
