"""libLiteRt.so through its C API: which libraries it takes, what runs, in which threads."""

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from ep_nnapi.litert.library import Accelerator, Compiling, Library, LiteRtError, load
from ep_nnapi.litert.to_tflite import convert
from ep_nnapi.nnapi.errors import ModelError, OptionError
from tests.litert.needs import LITERT
from tests.litert.test_flat_graph import relu_of_sum
from tests.native.build import COMPILER, needs_compiler
from tests.ort_devices.networks import chain, feed
from tests.programs import in_child


def relu() -> bytearray:
    graph, inputs, outputs = relu_of_sum()
    return graph.build(inputs, outputs)


@LITERT
def test_from_bytes_and_files(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(relu())
    for given in (relu(), bytes(relu()), path):
        found = load(given)
        assert found.inputs == ("x",)
        assert found.run({"x": np.array([0, 1], np.float32)})["y"].tolist() == [1.0, 2.0]


@LITERT
def test_results_survive_the_next_run() -> None:
    found = load(relu())
    first = found.run({"x": np.array([0, 1], np.float32)})["y"]
    found.run({"x": np.array([5, 5], np.float32)})
    assert first.tolist() == [1.0, 2.0]


@LITERT
def test_what_is_no_flatbuffer_is_refused() -> None:
    with pytest.raises(ModelError, match=r"LiteRT does not load it: .*: no valid \.tflite"):
        load(b"no flatbuffer")


@LITERT
@pytest.mark.parametrize("given", [np.zeros(2, np.int32), np.zeros(3, np.float32)])
def test_inputs_of_another_type_or_shape_are_refused(given: np.ndarray) -> None:
    with pytest.raises(ModelError, match=r"LiteRT cannot run it: input x is float32 \[2\]"):
        load(relu()).run({"x": given})


# The library


def test_a_library_that_is_not_there_is_one_sentence() -> None:
    with pytest.raises(OptionError, match=r"runtime: LiteRT: /no/libLiteRt.so: .*No such file"):
        Library("/no/libLiteRt.so")


@needs_compiler
@pytest.mark.parametrize(
    ("exported", "reason"),
    [
        ((), "is no LiteRT library: it lacks LiteRtCreateEnvironment"),
        (("CreateEnvironment",), "is older than LiteRT 2.1.6; install 2.1.6 or newer"),
        (
            ("CreateEnvironment", "CreateModelFromFd"),
            "is of another version of LiteRT: it lacks LiteRtDestroyModel",
        ),
    ],
)
def test_versions_are_told_by_symbols(tmp_path: Path, exported: tuple[str, ...], reason: str):
    source, path = tmp_path / "l.c", tmp_path / f"libLiteRt{len(exported)}.so"
    source.write_text("int x;" + "".join(f"int LiteRt{n}(void) {{ return 0; }}" for n in exported))
    subprocess.run([COMPILER, "-shared", "-fPIC", source, "-o", path], check=True)
    with pytest.raises(OptionError, match=reason):
        Library(str(path))


@LITERT
@pytest.mark.skipif("VK_DRIVER_FILES" in os.environ, reason="there is a Vulkan")
@pytest.mark.parametrize("accelerator", [Accelerator.GPU, Accelerator.NPU])
def test_what_would_be_computed_by_the_cpu_in_silence_is_declined(accelerator: Accelerator) -> None:
    name = f"LiteRT's {accelerator.name}"
    with pytest.raises(LiteRtError, match=f"{name}: LiteRtCreateCompiledModel|{name} needs"):
        Library().compile(relu(), Compiling(accelerator))


# Runs


@LITERT
@pytest.mark.parametrize("offset", [0, 4])
def test_callers_memory_may_lie_anywhere(offset: int) -> None:
    """At multiples of 64 LiteRT uses it itself, elsewhere a copy."""
    compiled = Library().compile(relu(), Compiling())
    memory = np.zeros(512, np.uint8)
    start = -memory.ctypes.data % 64 + offset
    x, y = (memory[start + at : start + at + 8].view(np.float32) for at in (0, 128))
    for number in (1, 2):
        x[:] = number, -5
        assert compiled.run([x], [y])[0] is y
        assert y.tolist() == [number + 1, 0]
    assert not memory[start + 136 :].any()


@LITERT
@pytest.mark.parametrize("threads", [1, 2])
def test_bits_are_those_of_litert_s_own_interpreter(threads: int) -> None:
    from ai_edge_litert.interpreter import Interpreter

    model = chain()
    content, (x,) = bytes(convert(model)), feed(model)
    own = Interpreter(model_content=content, num_threads=threads)
    own.allocate_tensors()
    wanted = own.get_signature_runner()(i0=x)["o0"]
    (found,) = Library().compile(content, Compiling(threads=threads)).run([x])
    assert found.tobytes() == wanted.tobytes()


@LITERT
@pytest.mark.parametrize("instances", [1, 3])
def test_eight_threads_run_one_model(instances: int) -> None:
    """LiteRT's compiled models compute nonsense when two threads run one at a time."""
    model = chain()
    compiled = Library().compile(convert(model), Compiling(instances=instances))
    (x,) = feed(model)
    feeds = [(x + n).astype(x.dtype) for n in range(8)]
    wanted = [compiled.run([fed])[0] for fed in feeds]

    def runs(n: int) -> bool:
        return all((compiled.run([feeds[n]])[0] == wanted[n]).all() for _ in range(200))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(runs, range(8)))


@LITERT
def test_forked_children_run_it() -> None:
    """With two threads, which they do not inherit."""
    model = chain()
    compiled = Library().compile(convert(model), Compiling(threads=2))
    (x,) = feed(model)
    (wanted,) = compiled.run([x])
    assert in_child(lambda: not (compiled.run([x])[0] == wanted).all()) == 0
    assert (compiled.run([x])[0] == wanted).all()
