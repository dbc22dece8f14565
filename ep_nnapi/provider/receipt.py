"""Receipts: what of a session ran where, as data; docs/receipts.md has the format."""

from __future__ import annotations

import atexit
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ep_nnapi.nnapi.errors import OptionError, module_logger
from ep_nnapi.nnapi.files import digest_of, write_output
from ep_nnapi.options.table import to_strings
from ep_nnapi.options.values import is_remote
from ep_nnapi.report.report import FallbackRuns

if TYPE_CHECKING:
    from ep_nnapi.provider.choice import Choice
    from ep_nnapi.provider.planner import PlannedCluster
    from ep_nnapi.provider.provider import Provider

logger = module_logger(__name__)
FORMAT, VERSION = "ep-nnapi receipt", 1

_living: dict[int, Provider] = {}
"""Providers of the sessions that exist, in order of creation."""
_originals: dict[str, str] = {}
"""Paths of models by those of their temporary copies; "" for a model that was no file."""


@contextmanager
def standing_for(model: str | bytes, copy: str) -> Iterator[None]:
    """Has receipts of sessions of the file `copy` name `model`."""
    _originals[copy] = model if isinstance(model, str) else ""
    try:
        yield
    finally:
        del _originals[copy]


@dataclass(slots=True)
class ModelFile:
    """The file that a session was made of, as it was then.

    path    "" for a model that was no file
    digest  SHA-256 in hex, computed when it is first needed; "" if the file is another one by then
    """

    path: str = ""
    _stamp: tuple[int, int] | None = None
    _digest: str | None = None

    @staticmethod
    def of(path: str, *, digested: bool) -> ModelFile:
        """Returns the file at `path` as it is now, with its digest or for later.

        It is the original if the file there is a copy, see `standing_for`.
        """
        path = _originals.get(path, path)
        found = ModelFile(path, _stamp_of(path) if path else None)
        if digested and path:
            _ = found.digest
        return found

    @property
    def digest(self) -> str:
        """The digest of the file as it was when the session was made."""
        if self._digest is None:
            try:
                found = digest_of(self.path) if self._stamp == _stamp_of(self.path) else ""
            except OSError:
                found = ""
            self._digest = found
        return self._digest

    def to_json(self) -> dict[str, object]:
        """Plain data for JSON."""
        if not self.path:
            return {"path": None, "sha256": None}
        return {"path": os.path.abspath(self.path), "sha256": self.digest or None}


def _stamp_of(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns


def receipts() -> list[dict[str, object]]:
    """Returns the receipts of the sessions that exist, in order of creation, as plain data.

    Without the option `receipt` of a session its runs are counted, but not timed. The digest of the
    model is None where its file has changed since.
    """
    return [receipt_of(provider) for provider in tuple(_living.values())]


def begin(provider: Provider, running: str) -> None:
    """Adds the provider of a session that has been made, on this version of ONNX Runtime."""
    provider.onnxruntime = running
    _living[id(provider)] = provider


def end(provider: Provider) -> None:
    """Removes the provider of a session that has ended, and writes its receipt."""
    if _living.pop(id(provider), None) is not None:
        _write_own(provider)


def _write_own(provider: Provider) -> None:
    """Writes the receipt of a session if its options name a file.

    A forked child has its parent's sessions, and writes none of their receipts.
    """
    path = provider.options.receipt
    if path is not None and os.getpid() == provider.process:
        try:
            write(provider, path)
        except OptionError as error:
            logger.warning("%s", error)


def write(provider: Provider, path: str) -> None:
    """Writes the receipt of a session to a file; raises OptionError if that fails."""
    try:
        write_output(Path(path), json.dumps(receipt_of(provider), indent=1) + "\n")
    except OptionError as error:
        raise OptionError(f"the receipt {error}") from None


def conclude(provider: Provider) -> None:
    """As `end`, for a session that runs no more; raises OptionError as `write`."""
    path = provider.options.receipt
    if _living.pop(id(provider), None) is not None and path is not None:
        write(provider, path)


@atexit.register
def _write_all() -> None:
    """Writes those of sessions that Python ends later than this package."""
    for provider in tuple(_living.values()):
        _write_own(provider)


def receipt_of(provider: Provider) -> dict[str, object]:
    """Returns the receipt of a session as it is now."""
    from importlib.metadata import version  # slow, and not needed before

    report, options = provider.report.to_json(), provider.options
    versions = {"ep_nnapi": version("ep-nnapi"), "onnxruntime": provider.onnxruntime}
    if is_remote(options.runtime):
        from ep_nnapi.remote.runtime import remote_runtime

        versions["agent"] = remote_runtime(options.runtime).about  # what it says of itself
    level = provider.target.feature_level
    return {
        "format": FORMAT,
        "version": VERSION,
        "versions": versions,
        "model": provider.model.to_json(),
        "options": {k: v for k, v in to_strings(options).items() if k != "receipt"},
        "nodes": report["nodes"],
        "taken": report["taken"],
        "clusters": [
            {"name": f"cluster {i}", **_cluster(cluster, options.runtime, level)}
            for i, cluster in enumerate(provider.clusters)
        ],
        "rejections": report["rejections"],
    }


def _cluster(cluster: PlannedCluster, runtime: str, feature_level: int) -> Mapping[str, object]:
    record, report = cluster.record, cluster.report
    chosen: Choice | None = getattr(cluster, "choice", None)
    by = record.substitutes
    device_runs, times = record.device_runs, record.times()
    return {
        "nodes": list(report.nodes),
        "runtime": runtime,
        "device": report.intended_device,
        "feature_level": feature_level,
        "compiled": record.compiled.to_json() if record.compiled else None,
        "runs": device_runs + sum(by.values()),
        "device_runs": device_runs,
        "fallbacks": [{**each.to_json(), "runs": runs} for each, runs in by.items()],
        "milliseconds": times and {"total": times[0] / 1e6, "least": times[1] / 1e6},
        **(chosen.to_json() if chosen else {}),
    }


def fallbacks_of(provider: Provider) -> tuple[FallbackRuns, ...]:
    """Returns the runs of a session that something else than a cluster's device computed."""
    return tuple(
        FallbackRuns(number, each, runs)
        for number, cluster in enumerate(provider.clusters)
        for each, runs in cluster.record.substitutes.items()
    )
