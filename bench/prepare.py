"""What preparing ResNet-50 costs, beside ONNX Runtime's own conversion: seconds and peak memory.

Each is one command in a process of its own, its children included, the fastest of a few runs.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from time import perf_counter

RUNS = 3
LIMITS = {"--no-verify": (2.0, 2.0), "verified": (4.0, 2.0)}


def cost(*command: str) -> tuple[float, float]:
    """Seconds and the largest process's megabytes."""
    start = perf_counter()
    silent = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_WRONLY, 0) for fd in (1, 2)]
    child = os.posix_spawn(sys.executable, command, os.environ, file_actions=silent)
    _, status, usage = os.wait4(child, 0)
    if status:
        raise SystemExit(f"{' '.join(command)} failed")
    return perf_counter() - start, usage.ru_maxrss / 1024


def main() -> None:
    """Prints a row for each."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "in")
        module = (sys.executable, "-m")
        # in another process: a child's peak begins with its parent's
        cost(*module, "models.zoo", str(source), "resnet50")
        tool = "onnxruntime.tools.convert_onnx_models_to_ort"
        to = ("--optimization_style", "Fixed", "--output_dir", str(source / "theirs"), str(source))
        theirs = min(cost(*module, tool, *to) for _ in range(RUNS))
        print(f"{'onnxruntime':12} {theirs[0]:6.2f} s {theirs[1]:6.0f} MB")
        for name, (slower, larger) in LIMITS.items():
            given = ("--no-verify",) if name == "--no-verify" else ()
            out = tempfile.mkdtemp(dir=folder)
            command = (*module, "ep_nnapi", "prepare", str(source / "resnet50.onnx"), "-o")
            # a new place each time, or the second run would have nothing to do
            ours = min(cost(*command, f"{out}/{i}", *given) for i in range(RUNS))
            times, sizes = ours[0] / theirs[0], ours[1] / theirs[1]
            print(
                f"{name:12} {ours[0]:6.2f} s {ours[1]:6.0f} MB: {times:.2f}x and {sizes:.2f}x "
                f"(at most {slower:g}x and {larger:g}x)"
            )
