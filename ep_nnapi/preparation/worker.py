"""Server process of the workers that prepare models step by step: it imports what they need."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path

from ep_nnapi.diagnostics.verdict import sentences
from ep_nnapi.nnapi.errors import ModelError, NnapiError, OptionError
from ep_nnapi.preparation.job import NO_VERIFY_ADVICE, Format, Verification, job_of
from ep_nnapi.preparation.pipeline import save_prepared
from ep_nnapi.preparation.tflite import EXPOSED, compare_flatbuffers
from ep_nnapi.preparation.verify import compare, record
from ep_nnapi.sessions.cpu import custom_ops
from ep_nnapi.workers import RESULT_FILE, JsonObject, serve, set_up_worker


def _save(task: JsonObject) -> JsonObject:
    """Prepares `model` and writes it to `out`."""
    model, out, scratch = (Path(task[name]) for name in ("model", "out", "scratch"))
    saved = save_prepared(model, out, job_of(task["job"]), scratch)
    return {
        "report": saved.report.to_json(),
        "level": str(saved.level),
        "operators": saved.operators,
        "compiled": saved.compiled and asdict(saved.compiled),
        "external_files": [str(p) for p in saved.external_files],
    }


def _record(task: JsonObject) -> JsonObject:
    """Records the original's outputs."""
    model, how = Path(task["model"]), Verification(**task["verification"])
    options = job_of(task["job"]).options
    exposed = Path(task["scratch"], EXPOSED)
    inner = exposed if exposed.is_file() else None
    try:
        recorded = Path(task["recorded"])
        return {"tolerance": record(model, how, options.fix, recorded, inner, options.sizes)}
    except (ModelError, OptionError) as error:
        raise type(error)(f"{error}; {NO_VERIFY_ADVICE}") from None


def _verify(task: JsonObject) -> JsonObject:
    """Compares the outputs of the prepared model `out` with the recorded ones."""
    job, out, recorded = job_of(task["job"]), Path(task["out"]), Path(task["recorded"])
    options = replace(job.options, fix=())  # `out` has these shapes already
    if job.format is Format.TFLITE:
        found = compare_flatbuffers(out.parent, recorded, options)
    else:
        found = compare(out, recorded, options)
    return {
        "differences": [d.to_json() for d in found.differences],
        "refused": " ".join(f"{said.removesuffix('.')}." for said in sentences(found))
        if found.negative
        else None,
    }


STEPS: Mapping[str, Callable[[JsonObject], JsonObject]] = {
    "save": _save,
    "record": _record,
    "verify": _verify,
}


def main() -> None:
    """Serves requests until the end of standard input."""
    serve(_work)


def _work(request: JsonObject) -> None:
    """Serves one request in the forked worker."""
    folder = Path(request["folder"])
    set_up_worker(folder, request["memory"])
    try:
        with custom_ops(_library(request["task"])):
            found = STEPS[request["step"]](request["task"])
    except NnapiError as error:
        found = {"error": str(error), "kind": type(error).__name__}
    (folder / RESULT_FILE).write_text(json.dumps(found))


def _library(task: JsonObject) -> str | None:
    """Returns the path of the custom operator library that a task's job names, if any."""
    return job_of(task["job"]).options.custom_ops_library if "job" in task else None
