"""Runs of `prepare` that are killed: nothing partial, nothing left, and the next one completes."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import ep_nnapi
from ep_nnapi.sessions.cpu import session_of
from tests.preparation.test_batch import tiny

ROOT = Path(__file__).parents[2]
Files = dict[str, bytes]
LEFT_OVER = ".ep-nnapi-"  # in the names of what is not done


def models(folder: Path, seed: int) -> Path:
    for i in range(2):
        tiny(folder / "sub" / f"{i}.onnx", seed + i)
    return folder


def files(folder: Path) -> Files:
    """All that is there, by name, but what is about all of it."""
    return {
        str(path.relative_to(folder)): content(path)
        for path in folder.rglob("*")
        if path.is_file() and path.suffix not in (".json", ".config")
    }


def content(path: Path) -> bytes:
    """The bytes; of an .ort file, in which ONNX Runtime orders some of them anew, its answers."""
    if path.suffix != ".ort" or LEFT_OVER in str(path):
        return path.read_bytes()
    session = session_of(str(path))
    feeds = {x.name: np.ones(x.shape, np.float32) for x in session.get_inputs()}
    return b"".join(y.tobytes() for y in session.run(None, feeds))


@dataclass(frozen=True)
class Fleet:
    """Two generations of the same models, and what they become when nothing happens."""

    folder: Path
    form: str
    made: tuple[Files, Files]
    seconds: float

    def source(self, generation: int) -> Path:
        return self.folder / f"in{generation}"


def fleet(folder: Path, form: str) -> Fleet:
    made, seconds = [], 0.0
    for generation in (0, 1):
        source = models(folder / f"in{generation}", 10 * generation)
        began = time.monotonic()
        done = ep_nnapi.prepare(source, folder / f"out{generation}", verify=False, format=form)
        seconds = time.monotonic() - began
        assert not done.failed
        made.append(files(folder / f"out{generation}"))
    return Fleet(folder, form, (made[0], made[1]), seconds)


def killed_after(seconds: float, source: Path, out: Path, form: str, *, group: bool) -> None:
    """Starts `prepare` and kills it, with all its processes or alone."""
    command = [sys.executable, "-m", "ep_nnapi", "prepare", str(source), "-o", str(out)]
    command += ["--no-verify", "--format", form]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(
        command, cwd=ROOT, stdout=quiet, stderr=quiet, start_new_session=True
    ) as process:
        time.sleep(seconds)
        if group:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


def completes(source: Path, out: Path, form: str) -> None:
    """The next run, which takes away what is left of the killed one."""
    deadline = time.monotonic() + 30
    while True:
        assert not ep_nnapi.prepare(source, out, verify=False, format=form).failed
        if not list(out.rglob(".*")):
            return
        # a worker that outlives its parent by a moment still holds its folder
        assert time.monotonic() < deadline
        time.sleep(0.2)


def survives(fleet: Fleet, moments: int, seed: int) -> None:
    rng, out = random.Random(seed), fleet.folder / "out"
    before, after = fleet.made
    for moment in range(moments):
        shutil.rmtree(out, ignore_errors=True)
        replacing = moment % 2 == 0
        if replacing:
            shutil.copytree(fleet.folder / "out0", out)
        seconds, group = rng.uniform(0.2, 1.5 + fleet.seconds), rng.random() < 0.7
        killed_after(seconds, fleet.source(1), out, fleet.form, group=group)
        whole = {n for made in fleet.made for n in made.items()}
        found = {n: data for n, data in files(out).items() if LEFT_OVER not in n}
        assert found.items() <= whole
        if replacing:  # at any moment there is one or the other
            main = {n for n in before if n.endswith((".onnx", ".ort"))}
            assert main <= found.keys()
        completes(fleet.source(1), out, fleet.form)
        assert files(out) == after


@pytest.mark.parametrize("form", ["context"])
def test_killed_runs_leave_nothing_partial(form: str, tmp_path: Path) -> None:
    survives(fleet(tmp_path, form), 2, 7)


@pytest.mark.long
@pytest.mark.parametrize("form", ["context", "ort"])
def test_killed_at_fifty_moments(form: str, tmp_path: Path) -> None:
    survives(fleet(tmp_path, form), 25, 11)
