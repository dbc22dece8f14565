"""What a process pays before its first run, beside what it would pay without this package.

Stages of a fresh process: `import` of onnxruntime, onnx and networkx, which are other people's;
`register()`; `append_execution_provider`; the first session. Processor seconds, of which the least
of several processes count, with compiled bytecode as an installation has it. The command line is
timed as a whole, less an interpreter that does nothing.

`python -m bench cold_start` prints milliseconds and fails where they are above the limits.
"""

from __future__ import annotations

import compileall
import json
import os
import subprocess
import sys
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

import ep_nnapi

ROUNDS = 9
OWN_MS = 150
"""Most for register(), append_execution_provider and the first session together."""
COMMAND_MS = 150
"""Most for `ep-nnapi --version` and `--help`."""
MODEL = Path("models/digits.onnx")
_STAGES = f"""
import json, time
stages = {{}}
def stage(name):
    now = time.thread_time()
    stages[name] = now - stage.then
    stage.then = now
stage.then = time.thread_time()
import numpy, onnxruntime; stage("onnxruntime")
import onnx; stage("onnx")
import networkx; stage("networkx")
import ep_nnapi; ep_nnapi.register(); stage("register")
options = onnxruntime.SessionOptions()
ep_nnapi.append_execution_provider(options); stage("append")
onnxruntime.InferenceSession({str(MODEL)!r}, options); stage("session")
print(json.dumps(stages))
"""
_OWN = ("register", "append", "session")


def stages() -> dict[str, float]:
    """Milliseconds of each stage in the process in which the package's own took the shortest."""
    rounds: list[dict[str, float]] = []
    for _ in range(ROUNDS):
        done = subprocess.run(
            [sys.executable, "-c", _STAGES], check=True, capture_output=True, text=True
        )
        rounds.append({name: 1e3 * s for name, s in json.loads(done.stdout).items()})
    return min(rounds, key=lambda found: sum(found[name] for name in _OWN))


def command(*arguments: str) -> float:
    """Milliseconds of `python` with these arguments, less those of an interpreter alone."""
    return min(_seconds(arguments) - _seconds(("-c", "")) for _ in range(ROUNDS)) * 1e3


def _seconds(arguments: tuple[str, ...]) -> float:
    before = getrusage(RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
    after = getrusage(RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Prints the table; exits 1 if a limit is exceeded."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    compileall.compile_dir(Path(ep_nnapi.__file__).parents[1] / "ep_nnapi", quiet=1)
    found = stages()
    for name, milliseconds in found.items():
        print(f"{name:14} {milliseconds:6.0f} ms")
    own = sum(found[name] for name in _OWN)
    print(f"{'own, together':14} {own:6.0f} ms (at most {OWN_MS})")
    commands = {flag: command("-m", "ep_nnapi", flag) for flag in ("--version", "--help")}
    for flag, milliseconds in commands.items():
        print(f"{flag:14} {milliseconds:6.0f} ms (at most {COMMAND_MS})")
    if own > OWN_MS or max(commands.values()) > COMMAND_MS:
        sys.exit(1)


if __name__ == "__main__":
    main()
