"""The command line for tests: files to give it, what it exits with, a process of its own."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import onnx

from tests.onnx_graph import model_of, nodes_of
from tests.programs import Done, ran

ROOT = Path(__file__).parents[2]
DIGITS = str(ROOT / "models" / "digits.onnx")
SAMPLES = str(ROOT / "models" / "digits" / "samples.npz")
DONE, NEGATIVE, UNUSABLE, FAILED, INTERRUPTED = 0, 1, 2, 3, 130


def process(*arguments: str, **environment: str) -> Done:
    command = [sys.executable, "-m", "ep_nnapi", *arguments]
    env = {**os.environ, **environment}
    return ran(*command, status=None, timeout=120, env=env)


def saved(
    folder: Path,
    nodes: Sequence[onnx.NodeProto] | str,
    shape: tuple[int | str, ...] = (2, 3),
    output: str = "y",
) -> Path:
    """A model of nodes, or of their text, from x to y, which may have another name in the file."""
    nodes = nodes_of(nodes) if isinstance(nodes, str) else nodes
    for node in nodes:
        node.output[:] = [output if name == "y" else name for name in node.output]
    path = folder / "model.onnx"
    onnx.save(model_of(nodes, {"x": shape}, {output: shape}, opset=21), path)
    return path
