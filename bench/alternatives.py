"""Prepared models with all alternatives against the same with one: bytes, and time to load.

Both files of a network have the same first NNAPI program, which sessions of both choose. They take
turns in one process; of several sessions the least times count: elapsed and of the processor for
the creation alone, and of the processor with two runs, of which the first one is the trial.
"first": with weights that are new to the process, so that their digest is computed; "later": with
those that it knows.

The libraries are a stand-in whose functions do next to nothing, on which the time is that of the
provider and of ONNX Runtime, and this project's. LiteRT is an alternative where it is installed.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter, process_time, sleep

import numpy as np
import onnx
import onnxruntime

import ep_nnapi
from bench.prepared import DIGITS, NAME, PROVIDERS, ROOT, Create, Libraries, compiled
from models.zoo import MODELS, sample_inputs

NETWORKS = ("mlp", "digits", "kws_dscnn", "denoiser_lstm", "segmentation", "mobilenet_v2")
ROUNDS = 15
MOST_TIME, MOST_BYTES, MOST_MORE = 1.1, 0.03, 1024
Times = tuple[float, float, float]


def prepared(model: onnx.ModelProto, alternatives: str, folder: Path) -> Path:
    """Returns the path of a model with these alternatives."""
    folder.mkdir(parents=True)
    source = folder / "model.onnx"
    onnx.save(model, source)
    ep_nnapi.prepare(
        source, folder / "out", format="context", alternatives=alternatives, verify=False
    )
    return folder / "out" / "model_ctx.onnx"


def size(model: Path) -> int:
    """Bytes of a prepared model and its weights."""
    return sum(p.stat().st_size for p in model.parent.iterdir() if p.suffix != ".json")


def loaded(
    create: Create, model: Path, options: dict[str, str], feeds: Mapping[str, np.ndarray]
) -> Times:
    """Milliseconds for a session: elapsed, of the processor, and of that with two runs."""
    start, begin = perf_counter(), process_time()
    session = create(model, options)
    elapsed, made = perf_counter() - start, process_time() - begin
    for _ in range(2):
        session.run(None, dict(feeds))
    return elapsed * 1e3, made * 1e3, (process_time() - begin) * 1e3


def least(
    create: Create,
    files: tuple[Path, Path],
    options: dict[str, str],
    feeds: Mapping[str, np.ndarray],
    new: bool,
) -> list[Times]:
    """The least times of both files; `new`: with weights that are new each time."""
    weights = [w for file in files for w in file.parent.glob("*.weights")]
    if not new:
        sleep(3.1)  # the digest of a file that was written just now is not remembered
    found: list[list[Times]] = [[], []]
    for number in range(ROUNDS):
        for file in weights if new else ():
            os.utime(file)
        for i in (0, 1) if number % 2 else (1, 0):
            found[i].append(loaded(create, files[i], options, feeds))
    return [(min(a), min(b), min(c)) for a, b, c in (zip(*t[1:], strict=True) for t in found)]


def measure(name: str, folder: Path, libraries: Libraries) -> None:
    """Prints a row for the bytes of a network, and one for each library, provider and state."""
    model = onnx.load(DIGITS) if name == "digits" else MODELS[name]()
    one, every = (prepared(model, a, folder / a.replace(":", "")) for a in ("nnapi:8", "auto"))
    before, more = size(one), size(every) - size(one)
    fits = "" if more <= MOST_BYTES * before + MOST_MORE else " (more than 3 % and 1 KB)"
    print(f"{name}: {before} bytes, {more} more ({more / before:.1%}){fits}", flush=True)
    feeds = sample_inputs(model)
    for library, options in libraries.items():
        for create in PROVIDERS:
            for state in ("first", "later"):
                alone, all_ = least(create, (one, every), options, feeds, state == "first")
                ratios = [b / a for a, b in zip(alone, all_, strict=True)]
                fits = "" if max(ratios) <= MOST_TIME else f" (more than {MOST_TIME})"
                times = " ".join(
                    f"{a:8.2f} {b:8.2f} {r:5.2f}"
                    for a, b, r in zip(alone, all_, ratios, strict=True)
                )
                print(f"  {library:10} {create.__name__:15} {state:6} {times}{fits}", flush=True)


def main() -> None:
    """Prints times with one and all alternatives, and their ratio: each of the three."""
    onnxruntime.register_execution_provider_library(NAME, ep_nnapi.context_library_path())
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        source = ROOT / "tests" / "native" / "stand_in.c"
        stand_in = str(compiled(folder, "libneuralnetworks.so", source))
        libraries = {
            "a stand-in": {"runtime": stand_in, "device": "stand-in"},
            "own": {"runtime": ep_nnapi.libneuralnetworks_path(), "device": "host-cpu"},
        }
        for name in NETWORKS:
            measure(name, folder / name, libraries)


if __name__ == "__main__":
    main()
