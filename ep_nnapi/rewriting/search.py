"""Search for rewrites of a model that gain nodes for NNAPI or save clusters."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import onnx
from onnx import ModelProto

from ep_nnapi.diagnostics.check import check
from ep_nnapi.graph.onnx_io import EXTERNAL_DATA_THRESHOLD
from ep_nnapi.nnapi.errors import ModelError
from ep_nnapi.options.table import OptionKeywords
from ep_nnapi.preparation.job import Format, Job, Level
from ep_nnapi.preparation.ort_export import save_onnx
from ep_nnapi.preparation.ort_names import rename_generated
from ep_nnapi.report.report import Report

Rewrite: TypeAlias = Callable[[ModelProto, Collection[str]], ModelProto | None]
"""Rewrites the named nodes where it can; returns None if it changes nothing."""

_MAX_ROUNDS = 3
"""Rounds in which a rewrite may also rewrite what it has made: definitions of definitions."""


@dataclass(frozen=True, slots=True)
class Step:
    """One rewrite that gains nodes or saves clusters, with the reports before and after it."""

    name: str
    before: Report
    after: Report

    def to_json(self) -> dict[str, object]:
        """Returns plain data for JSON."""
        return {"rewrite": self.name, "before": _counts(self.before), "after": _counts(self.after)}


class Search:
    """The model so far, its report, and the steps that led to it."""

    model: ModelProto
    report: Report

    def __init__(self, folder: Path, options: OptionKeywords) -> None:
        self.steps: list[Step] = []
        self.useless: list[str] = []
        self._folder = folder
        self._options = options

    def start(self, name: str, before: Report, first: ModelProto) -> None:
        """Begins with the optimized model, which is a step if it is better than the original."""
        self.model, self.report = first, self._checked(first)
        if _better(self.report, before):
            self.steps.append(Step(name, before, self.report))

    def attempt(self, name: str, rewrite: Rewrite) -> None:
        """Applies a rewrite to the refused nodes, and keeps the result if it is better.

        Nodes of one operator type are rewritten at a time.
        """
        possible = kept = False
        for op_type in self._refused_types():
            for model, report in self._rounds(rewrite, op_type):
                possible = True
                if _better(report, self.report):
                    self.steps.append(Step(f"{name} ({op_type})", self.report, report))
                    self.model, self.report, kept = model, report, True
                    break
        if possible and not kept:
            self.useless.append(name)

    def gains(self, rewrite: Rewrite) -> bool:
        """True if a rewrite of the refused nodes of some operator type is better; keeps nothing."""
        return any(
            _better(report, self.report)
            for op_type in self._refused_types()
            for _, report in self._rounds(rewrite, op_type)
        )

    def _refused_types(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(r.op_type for r in self.report.rejections))

    def _rounds(self, rewrite: Rewrite, op_type: str) -> Iterator[tuple[ModelProto, Report]]:
        """Yields the rewritten model with its report, then that with its new nodes rewritten too.

        Ends where nothing is left to rewrite, or ONNX Runtime has no kernel for the result.
        """
        model, report = self.model, self.report
        types = {op_type}
        for _ in range(_MAX_ROUNDS):
            names = {r.node for r in report.rejections if r.op_type in types}
            known = {n.op_type for n in model.graph.node}
            rewritten = rewrite(model, names)
            if rewritten is None:
                return
            try:
                model = self.optimized(rewritten)
            except ModelError:
                return
            types |= {n.op_type for n in model.graph.node} - known
            report = self._checked(model)
            yield model, report

    def optimized(self, model: ModelProto) -> ModelProto:
        """Returns the model after ONNX Runtime's basic optimization, as providers see it."""
        given, saved = self._folder / "given.onnx", self._folder / "optimized.onnx"
        save(model, given)
        save_onnx(given, saved, Job(Level.BASIC, Format.ONNX))
        rename_generated(saved)
        optimized = onnx.load(str(saved))
        for node in optimized.graph.node:  # reports call a node without a name by its first output
            node.name = node.name or node.output[0]
        return optimized

    def saved(self) -> Path:
        """Returns the path of the model so far."""
        path = self._folder / "fixed.onnx"
        save(self.model, path)
        return path

    def _checked(self, model: ModelProto) -> Report:
        path = self._folder / "checked.onnx"
        save(model, path)
        return check(path, **self._options)


def save(model: ModelProto, path: Path) -> None:
    """Writes the model to a path, its weights beside it if they are large."""
    large = model.ByteSize() > EXTERNAL_DATA_THRESHOLD
    onnx.save_model(model, str(path), save_as_external_data=large, location=f"{path.stem}.weights")


def _better(report: Report, than: Report) -> bool:
    """True if fewer nodes are left to the CPU provider, or as many with fewer clusters."""
    left, before = report.nodes - report.taken, than.nodes - than.taken
    return (left, len(report.clusters)) < (before, len(than.clusters))


def _counts(report: Report) -> dict[str, int]:
    left = report.nodes - report.taken
    return {"nodes": report.nodes, "left_to_cpu": left, "clusters": len(report.clusters)}
