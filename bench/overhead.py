"""Overhead of the plugin in each call of a one-node cluster, and its parts.

From ONNX Runtime's call of Compute to its return, without the time the engine itself takes: the
engine here does nothing but ask for its output buffer. A C function put in front of Compute reads
the same clock that Python's perf_counter_ns reads.
"""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Sequence
from statistics import median
from time import perf_counter_ns
from types import ModuleType

import cffi
import numpy as np
import onnxruntime
from onnx import TensorProto, helper

from ep_nnapi.graph.graph import Graph
from ep_nnapi.lowering.border import Allocate, Stop
from ep_nnapi.nnapi.array import Array
from ep_nnapi.ort import plugin
from ep_nnapi.ort._native import ffi
from ep_nnapi.ort.api import EP_NAME
from ep_nnapi.ort.compute import FusedNode
from ep_nnapi.ort.factory import NoNodesProvider
from ep_nnapi.ort.session import register
from ep_nnapi.report.report import Notice

CALLS = 20_000
SHAPE = (2, 3)
_TIMER = """
#include <stdint.h>
#include <time.h>
typedef void *(*Compute)(void *, void *, void *);
static Compute inner;
static int64_t entered, left;
static int64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}
static void *timed(void *info, void *state, void *context) {
  void *status;
  entered = now();
  status = inner(info, state, context);
  left = now();
  return status;
}
/* The struct is a version word and then CreateState, Compute, ReleaseState. */
static void wrap(uintptr_t info) {
  void **slots = (void **)info;
  inner = (Compute)slots[2];
  slots[2] = (void *)timed;
}
"""


class Idle(NoNodesProvider):
    """A provider, its one cluster and its runner: claims every node and computes nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.node_ids: tuple[int, ...] = ()
        self.marks = (0, 0)

    def plan(self, graph: Graph) -> Sequence[Idle]:
        """One cluster of the one node."""
        self.node_ids = graph.nodes[0].members
        return [self]

    def notice(self) -> Notice:
        """Returns a line of no content."""
        return Notice("")

    def bind(self, input_names: Sequence[str], output_names: Sequence[str]) -> Idle:
        """The runner."""
        return self

    def __call__(self, inputs: Sequence[Array], allocate: Allocate, stop: Stop) -> None:
        """Notes when it was entered and when it had its output."""
        entered = perf_counter_ns()
        allocate(0, SHAPE)
        self.marks = (entered, perf_counter_ns())


def timer(directory: str) -> ModuleType:
    """The compiled timer."""
    builder = cffi.FFI()
    builder.cdef("extern int64_t entered, left; void wrap(uintptr_t info);")
    builder.set_source("_overhead_timer", _TIMER)
    spec = importlib.util.spec_from_file_location("_overhead_timer", builder.compile(directory))
    if spec is None or spec.loader is None:
        raise ImportError("the compiled timer cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def one_node() -> onnxruntime.InferenceSession:
    """A session whose only node is the plugin's."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE) for name in "xy")
    graph = helper.make_graph([helper.make_node("Abs", ["x"], ["y"])], "one", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=[EP_NAME])


def fused_node() -> int:
    """The address of the only OrtNodeComputeInfo there is."""
    (struct,) = [s for s, (_, node) in plugin.live_objects.items() if isinstance(node, FusedNode)]
    return int(ffi.cast("uintptr_t", struct))


def measure() -> list[tuple[int, int, int]]:
    """Nanoseconds of each call: to the engine, in `allocate`, and back."""
    idle = Idle()
    plugin.factory.open_provider = lambda entries: idle
    register()
    session = one_node()
    x = {"x": np.ones(SHAPE, np.float32)}
    with tempfile.TemporaryDirectory() as directory:
        lib = timer(directory).lib
        lib.wrap(fused_node())
        parts = []
        for _ in range(CALLS):
            session.run(None, x)
            entered, had_output = idle.marks
            parts.append((entered - lib.entered, had_output - entered, lib.left - had_output))
        return parts


def main() -> None:
    """Prints one line."""
    parts = measure()
    total = median(map(sum, parts)) / 1000
    to_engine, output, back = (median(part) / 1000 for part in zip(*parts, strict=True))
    print(
        f"plugin, one-node cluster: {total:.1f} µs per call, median of {CALLS} "
        f"(inputs and entering Python {to_engine:.1f}, output buffer {output:.1f}, "
        f"leaving {back:.1f})"
    )


if __name__ == "__main__":
    main()
