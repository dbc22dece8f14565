"""A session on a library holds its weights once, and gives everything back when it is closed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest

import ep_nnapi
from ep_nnapi.sessions.cpu import session_of
from models import zoo
from tests.onnx_graph import parsed

LIBRARY = ep_nnapi.libneuralnetworks_path()
SELF = Path("/proc/self")

PROGRAM = """
import ctypes, gc, json, sys
import numpy as np
import onnxruntime as ort
import ep_nnapi

def session(path):
    options = ort.SessionOptions()
    options.enable_cpu_mem_arena = False
    chosen = {"runtime": sys.argv[2], "device": "nnapi-reference"}  # host-cpu packs weights anew
    ep_nnapi.append_execution_provider(options, **chosen)
    return ort.InferenceSession(path, options)

def megabytes():
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    lines = (line.split() for line in open("/proc/self/smaps_rollup"))
    sizes = {name: int(size) / 1024 for name, size, *_ in lines if name.startswith("Pss")}
    return {name: sizes[f"Pss_{name}:"] for name in ("Anon", "Shmem")}

digits = session("models/digits.onnx")  # what every session brings with it
digits.run(None, {"image": np.zeros((1, 1, 8, 8), np.float32)})
found = [megabytes()]
made = session(sys.argv[1])
image = np.zeros((1, 3, 224, 224), np.float32)
for _ in range(2):
    made.run(None, {"image": image})
found.append(megabytes())
del made
found.append(megabytes())
print(json.dumps(found))
"""


@pytest.mark.long
def test_resnet50_holds_its_weights_once(tmp_path: Path) -> None:
    """In shared memory; the rest of a session, with its activations, is far less.

    Proportional sizes: the library maps the same pages a second time.
    """
    path = tmp_path / "resnet50.onnx"
    onnx.save(zoo.MODELS["resnet50"](), path)
    weights = path.stat().st_size / 2**20
    command = [sys.executable, "-c", PROGRAM, str(path), LIBRARY]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=True)
    before, held, closed = json.loads(done.stdout)
    assert 0.9 * weights < held["Shmem"] - before["Shmem"] < 1.05 * weights
    assert held["Anon"] - before["Anon"] < 0.25 * weights
    assert closed["Shmem"] == before["Shmem"]
    assert closed["Anon"] - before["Anon"] < 0.15 * weights


def descriptors() -> int:
    return len(os.listdir(SELF / "fd"))


def maps() -> list[str]:
    """Mappings of the weights' file."""
    return [line for line in (SELF / "maps").read_text().splitlines() if "ep-nnapi weights" in line]


def test_closed_sessions_leave_no_descriptor_and_no_mapping() -> None:
    def cycle() -> ort.InferenceSession:
        chosen = ort.SessionOptions()
        ep_nnapi.append_execution_provider(chosen, runtime=LIBRARY)
        made = ort.InferenceSession("models/digits.onnx", chosen)
        made.run(None, {"image": np.zeros((1, 1, 8, 8), np.float32)})
        return made

    del (made := {"first": cycle()})["first"]  # what a process keeps of the first session
    before, mapped = descriptors(), maps()
    for _ in range(3):
        made["session"] = cycle()
        assert len(maps()) > len(mapped)
        del made["session"]
        assert descriptors() == before
        assert maps() == mapped


def shared_weight(size: int = 50_000) -> bytes:
    """Two clusters, on both sides of a node for the CPU, that add the same weight."""
    text = f"""(float[{size}] x) => (float[{size}] y) {{
        [first] a = Add (x, w) [between] b = Erf (a) [second] y = Add (b, w) }}"""
    return parsed(text, w=np.arange(size, dtype=np.float32)).SerializeToString()


def test_clusters_share_a_weight() -> None:
    chosen = ort.SessionOptions()
    ep_nnapi.append_execution_provider(chosen, runtime=LIBRARY, exclude="Erf")
    before = maps()
    made = ort.InferenceSession(shared_weight(), chosen)
    new = {line.split()[0] for line in maps()} - {line.split()[0] for line in before}
    sizes = [int(b, 16) - int(a, 16) for a, b in (r.split("-") for r in new)]
    assert set(sizes) == {-(-200_000 // 4096) * 4096}  # one weight, mapped here and by the library
    assert len(sizes) == 2
    x = np.linspace(-1, 1, 50_000, dtype=np.float32)
    want = session_of(shared_weight())
    got, expected = (s.run(None, {"x": x})[0] for s in (made, want))
    np.testing.assert_array_equal(got, expected)
