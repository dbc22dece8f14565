"""Contexts that were damaged or forged, each by its seed, through `check` and through a session.

Forged means that every checksum is right: whoever writes a file can write its checksums too.
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import onnx

from ep_nnapi.epcontext.container import split
from ep_nnapi.epcontext.contexts import add_placeholder, write_checksum
from ep_nnapi.nnapi.errors import ModelError
from ep_nnapi.preparation.job import job_of
from ep_nnapi.preparation.pipeline import save_prepared
from tests.epcontext.forging import forged
from tests.fuzz.trial import Ended, Result, limit_memory, on_nnapi
from tests.preparation.damage import damaged
from tests.random_graphs.trial import Subject, draw

DRAWS = 20


def attempt(seed: int) -> Result:
    """A prepared model, changed, must be refused in a sentence or compute."""
    limit_memory()
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        path, subject = _prepared(rng, Path(folder))
        if rng.random() < 0.3:
            path.write_bytes(damaged(path.read_bytes(), rng)[1])
        else:
            _forge(path, rng)
        model = str(path) if rng.random() < 0.5 else path.read_bytes()
        return on_nnapi(model, subject.feeds, {})


def alone(seed: int) -> Result:
    """Plain onnxruntime has no kernel for a context: what ends the process is ours."""
    return Result(Ended.REFUSED)


def _prepared(rng: random.Random, folder: Path) -> tuple[Path, Subject]:
    """A drawn graph that has something to compile, compiled; contexts in the file itself."""
    for _ in range(DRAWS):
        subject = draw(rng.getrandbits(31))
        source, out = folder / "a.onnx", folder / "a_ctx.onnx"
        onnx.save(subject.model, source)
        try:
            save_prepared(source, out, job_of({"format": "context", "embed": True}))
        except ModelError:
            continue
        return out, subject
    raise RuntimeError(f"none of {DRAWS} drawn graphs could be compiled")


def _forge(path: Path, rng: random.Random) -> None:
    """Changes the context of one node, or anything else of the model, and renews the checksums."""
    proto = onnx.load(path)
    nodes = [n for n in proto.graph.node if n.op_type == "EPContext"]
    if not nodes:
        return
    attribute = next(a for a in rng.choice(nodes).attribute if a.name == "ep_cache_context")
    _, program, weights = split(attribute.s)
    if weights and rng.random() < 0.2:
        attribute.s = program + damaged(weights, rng)[1] + b"."
    else:
        attribute.s = forged(attribute.s, rng)
    del proto.metadata_props[:]
    add_placeholder(proto)
    onnx.save(proto, path)
    write_checksum(path)
