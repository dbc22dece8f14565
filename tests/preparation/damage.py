"""Damages files at random and says what becomes of each, in workers that may die of it.

    python -m tests.preparation.damage TASK FILE SEED FIRST LAST FOLDER

damages FILE in one way for each number from FIRST up to LAST and prints a line of JSON for each:
how it was damaged, and what was refused, computed, or how its worker died. The workers are forks of
a process that has loaded everything, and each does many files: one that dies is replaced.
"""

import json
import os
import random
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

from ep_nnapi.diagnostics import check as checking
from ep_nnapi.epcontext import contexts  # noqa: F401  (loaded before the workers are forked)
from ep_nnapi.nnapi.errors import NnapiError
from ep_nnapi.options.table import Options
from ep_nnapi.preparation.job import Verification, job_of
from ep_nnapi.preparation.pipeline import save_prepared
from ep_nnapi.preparation.verify import compare, record

ROOT = Path(__file__).parents[2]
SECONDS = 60  # for one file; usual are hundredths
MEMORY = 8 << 30
Outcome = dict[str, object]


def damaged(data: bytes, rng: random.Random) -> tuple[str, bytes]:
    """The way, and other bytes than `data`."""
    while True:
        way = rng.choice(sorted(WAYS))
        changed = WAYS[way](data, rng)
        if changed != data:
            return way, changed


def _block(data: bytes, rng: random.Random) -> tuple[int, int]:
    """Begin and end of a block: of a few bytes as often as of many."""
    size = min(len(data), round(2 ** rng.uniform(0, 12)))
    start = rng.randrange(len(data) - size + 1)
    return start, start + size


def _flipped(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _truncated(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data))]


def _zeroed(data: bytes, rng: random.Random) -> bytes:
    start, end = _block(data, rng)
    return data[:start] + bytes(end - start) + data[end:]


def _duplicated(data: bytes, rng: random.Random) -> bytes:
    start, end = _block(data, rng)
    return data[:end] + data[start:end] + data[end:]


def _spliced(data: bytes, rng: random.Random) -> bytes:
    """A block in the place of another, which need not be as long."""
    (start, end), (at, to) = _block(data, rng), _block(data, rng)
    return data[:at] + data[start:end] + data[to:]


WAYS: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "flipped": _flipped,
    "truncated": _truncated,
    "zeroed": _zeroed,
    "duplicated": _duplicated,
    "spliced": _spliced,
}


def prepared(bad: Path) -> Outcome:
    """Largest difference of the prepared model from plain onnxruntime, as `prepare` measures it."""
    out, recorded = bad.with_name("out.ort"), bad.with_name("out.npz")
    save_prepared(bad, out, job_of({}))
    record(bad, Verification(), (), recorded)
    found = compare(out, recorded, Options())
    return {"worst": found.worst}


def checked(bad: Path) -> Outcome:
    """Output of `check` for a prepared context."""
    return {"clusters": len(checking.check(bad).clusters)}


STEPS = {"prepared": prepared, "checked": checked}


def outcomes(task: str, path: Path, numbers: tuple[int, int, int], folder: Path) -> list[Outcome]:
    """Outcomes of files damaged with a seed, from a first number to a last; two workers of many."""
    seed, first, last = numbers
    cuts = (first, (first + last) // 2, last) if last - first > 100 else (first, last)
    parts = []
    for part, (a, b) in enumerate(pairwise(cuts)):
        home = folder / f"part{part}"
        home.mkdir()
        command = [sys.executable, "-m", "tests.preparation.damage", task, path, seed, a, b, home]
        parts.append(
            subprocess.Popen(
                [str(word) for word in command],
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        )
    said = [p.communicate()[0] for p in parts]
    assert {p.returncode for p in parts} == {0}
    return [json.loads(line) for text in said for line in text.splitlines()]


def main(task: str, path: str, seed: str, first: str, last: str, folder: str) -> None:
    """Prints the outcomes."""
    data, number = Path(path).read_bytes(), int(first)
    while number < int(last):
        for line in _forked(task, Path(path), data, (int(seed), number, int(last)), Path(folder)):
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
            number += 1


def _forked(
    task: str, path: Path, data: bytes, numbers: tuple[int, int, int], folder: Path
) -> Iterator[str]:
    """Lines of a worker; where it dies, one more that says of what."""
    seed, first, last = numbers
    reading, writing = os.pipe()
    worker = os.fork()
    if worker == 0:
        os.dup2(2, 1)  # ONNX Runtime prints
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        for number in range(first, last):
            signal.alarm(SECONDS)
            found = _one(task, path, data, random.Random(f"{seed} {number}"), folder)
            os.write(writing, f"{json.dumps(found)}\n".encode())
        os._exit(0)
    os.close(writing)
    done = 0
    with os.fdopen(reading) as lines:
        for line in lines:
            done += 1
            yield line.rstrip("\n")
    _, status = os.waitpid(worker, 0)
    if first + done < last:
        code = os.waitstatus_to_exitcode(status)
        died = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        yield json.dumps({"number": first + done, "died": died})


def _one(task: str, path: Path, data: bytes, rng: random.Random, folder: Path) -> Outcome:
    way, changed = damaged(data, rng)
    bad = folder / f"bad{path.suffix}"
    bad.write_bytes(changed)
    try:
        found = STEPS[task](bad)
    except NnapiError as error:
        found = {"refused": str(error), "kind": type(error).__name__}
    except Exception as error:
        found = {"bug": repr(error)}
    return {"way": way, **found}


if __name__ == "__main__":
    main(*sys.argv[1:])
