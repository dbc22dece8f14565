"""Looks for what crafted input does: `python -m tests.fuzz --seconds 600 --seed 1`.

The kinds share the seconds: calls of the C API, models, single operators, special values, contexts.
A fault is printed with the seed that repeats it: `--only models --seed N --count 1`. Exit status 1
where there was one.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial

from tests.fuzz import contexts, models, nodes, values
from tests.fuzz.trial import FAULTS, Ended, Result, alone, attempt
from tests.onnx_backend.workers import Died, spread

Attempt = Callable[[int], Result]
KINDS: dict[str, tuple[Attempt, Attempt]] = {
    "models": (partial(attempt, models.made), partial(alone, models.made)),
    "nodes": (partial(attempt, nodes.made), partial(alone, nodes.made)),
    "values": (values.attempt, values.alone),
    "contexts": (contexts.attempt, contexts.alone),
}
"""By kind: a trial, and the same without ours."""
CAPI = "capi"
MANY = 10**9


def main() -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(31))
    parser.add_argument("--count", type=int, default=MANY, help="trials, at most")
    parser.add_argument("--only", choices=(CAPI, *KINDS))
    asked = parser.parse_args()
    kinds = [asked.only] if asked.only else [CAPI, *KINDS]
    seconds, failed = asked.seconds / len(kinds), False
    for kind in kinds:
        sys.stdout.write(f"{kind}: seed {asked.seed}\n")
        sys.stdout.flush()
        if kind == CAPI:
            failed |= calls(seconds, asked.seed)
        else:
            failed |= trials(kind, seconds, range(asked.seed, asked.seed + asked.count))
    return int(failed)


def calls(seconds: float, seed: int) -> bool:
    """True if random calls of the C API found a fault; in a process that it may end."""
    command = ["-m", "tests.capi.fuzz", "--seconds", str(seconds), "--seed", str(seed)]
    done = subprocess.run([sys.executable, *command], check=False)
    if done.returncode < 0:
        sys.stdout.write(f"capi: signal {-done.returncode} with seed {seed}\n")
    return done.returncode != 0


def trials(kind: str, seconds: float, seeds: range) -> bool:
    """True if a trial of one of the seeds found a fault before the time was over."""
    tried, without = KINDS[kind]
    if kind == "nodes":
        nodes.sources()  # once, before the processes are forked
    end, ended = time.monotonic() + seconds, Counter[str]()
    failed = False
    for index, found in spread(tried, seeds):
        seed = seeds[index]
        result = _judged(without, seed, found.how) if isinstance(found, Died) else found
        ended[str(result.ended)] += 1
        if result.ended in FAULTS:
            failed = True
            sys.stdout.write(f"{kind}: seed {seed} {result.ended}: {result.detail}\n")
            sys.stdout.flush()
        if time.monotonic() > end:
            break
    sys.stdout.write(f"{kind}: {ended.total()} trials, {dict(ended)}\n")
    return failed or not ended[str(Ended.COMPUTED)]


def _judged(without: Attempt, seed: int, how: str) -> Result:
    """A process that ended: ours, unless onnxruntime ends without ours as well."""
    ((_, found),) = spread(without, [seed], processes=1)
    return Result(Ended.CPU_DIED if isinstance(found, Died) else Ended.DIED, how)


if __name__ == "__main__":
    sys.exit(main())
