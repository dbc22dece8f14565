"""Memory left by sessions that are created, run and dropped, in a process of its own.

    python -m tests.end_to_end.growth WAY MODEL

prints a line of JSON. What other tests of a process have left in its heap would make the figure
depend on their order.
"""

import ctypes
import gc
import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from ep_nnapi.ort import plugin
from tests.end_to_end.sessions import ROOT, WAYS, quiet

SESSIONS, WARM = 100, 40


@dataclass(frozen=True)
class Growth:
    """After SESSIONS, against what there was after WARM of them.

    resident  bytes
    objects   that the plugin keeps alive for ONNX Runtime
    """

    resident: int
    objects: int


def grown(way: str, model: Path) -> Growth:
    """Of sessions with `model` made in one of WAYS."""
    command = [sys.executable, "-m", "tests.end_to_end.growth", way, str(model)]
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return Growth(**json.loads(done.stdout))


def _now() -> Growth:
    gc.collect()
    if hasattr(libc := ctypes.CDLL(None), "malloc_trim"):
        libc.malloc_trim(0)  # glibc keeps what was freed; that is no leak
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return Growth(pages * 4096, len(plugin.live_objects))


def _use(way: str, model: str) -> None:
    session = WAYS[way](model, quiet())
    (taken,) = session.get_inputs()
    session.run(None, {taken.name: np.zeros(taken.shape, np.float32)})


def main(way: str, model: str) -> None:
    """Prints the growth."""
    for _ in range(WARM):
        _use(way, model)
    before = _now()
    for _ in range(SESSIONS - WARM):
        _use(way, model)
    after = _now()
    found = Growth(after.resident - before.resident, after.objects - before.objects)
    sys.stdout.write(json.dumps(asdict(found)))


if __name__ == "__main__":
    main(*sys.argv[1:])
