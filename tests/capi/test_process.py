"""The library in processes of its own: fresh Pythons, C programs, forks, and how they end."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ep_nnapi.nnapi.capi.header import headers
from ep_nnapi.nnapi.codes import ResultCode
from ep_nnapi.nnapi.functions import FUNCTIONS
from tests.capi.programs import LIBRARY, SOURCES, compiled, run
from tests.capi.world import World
from tests.programs import Done, ran

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "exclusive_or.c"
LOAD = f"import ctypes; nn = ctypes.CDLL({str(LIBRARY)!r})"
MODEL_CREATE = (
    "handle = ctypes.c_void_p(); code = nn.ANeuralNetworksModel_create(ctypes.byref(handle))"
)
needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


def python(program: str, *flags: str, **environment: str) -> Done:
    command, env = (sys.executable, *flags, "-c", program), {**os.environ, **environment}
    return ran(*command, status=None, timeout=60, cwd="/", env=env)


def test_a_fresh_python_needs_nothing_but_the_path() -> None:
    """Nothing is imported before, the package is not on the path, the SONAME finds it again."""
    done = python(
        f"{LOAD}\nimport sys\n"
        "assert not any(name.startswith('ep_nnapi') for name in sys.modules)\n"
        f"{MODEL_CREATE}\n"
        "again = ctypes.CDLL('libneuralnetworks.so')\n"
        "again.ANeuralNetworksModel_free.argtypes = [ctypes.c_void_p]\n"
        "again.ANeuralNetworksModel_free(handle)\n"
        "print(code, bool(handle.value), 'onnxruntime' in sys.modules, 'onnx' in sys.modules)"
    )
    assert (done.stdout, done.stderr) == ("0 True False False\n", "")


def test_the_first_calls_may_come_from_eight_threads() -> None:
    done = python(
        f"{LOAD}\nimport threading\n"
        "codes, start = [], threading.Barrier(8)\n"
        "def work():\n"
        "    start.wait()\n"
        "    for _ in range(100):\n"
        f"        {MODEL_CREATE}\n"
        "        codes.append((code, handle.value))\n"
        "threads = [threading.Thread(target=work) for _ in range(8)]\n"
        "[t.start() for t in threads]; [t.join() for t in threads]\n"
        "print(len({h for _, h in codes}), {c for c, _ in codes})"
    )
    assert (done.stdout, done.stderr) == ("800 {0}\n", "")


def test_calls_while_python_goes_down_do_no_harm() -> None:
    """Objects that free their handles last, as extension modules do."""
    done = python(
        f"{LOAD}\nimport atexit\n"
        f"{MODEL_CREATE}\n"
        "nn.ANeuralNetworksModel_free.argtypes = [ctypes.c_void_p]\n"
        "class Last:\n"
        "    def __del__(self, free=nn.ANeuralNetworksModel_free, handle=handle): free(handle)\n"
        "import builtins; builtins.last = Last()\n"
        "atexit.register(nn.ANeuralNetworksModel_free, handle)"
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_without_the_package_every_call_fails_with_one_message(tmp_path: Path) -> None:
    """The library alone, copied away."""
    alone = tmp_path / "a" / "b" / "c"
    alone.mkdir(parents=True)
    shutil.copy(LIBRARY, alone)
    names = [f.c_name for f in FUNCTIONS if f.returns == "int"]
    done = python(
        f"import ctypes; nn = ctypes.CDLL({str(alone / LIBRARY.name)!r})\n"
        f"print({{getattr(nn, name)() for name in {names}}})\n"
        "nn.ANeuralNetworksModel_free(None)",
        "-S",  # no site-packages, so no package
        "-E",
    )
    assert done.stdout == f"{{{ResultCode.OP_FAILED:d}}}\n"
    assert done.stderr == (
        "libneuralnetworks.so: the Python package ep_nnapi cannot be used: No module named "
        "'ep_nnapi'; calls return ANEURALNETWORKS_OP_FAILED\n"
    )


def test_the_log_says_why_a_call_was_refused() -> None:
    program = f"{LOAD}; nn.ANeuralNetworksModel_create(None)"
    assert python(program).stderr == ""
    said = python(program, EP_NNAPI_LOG="info").stderr
    assert said == "ANeuralNetworksModel_create returns UNEXPECTED_NULL: model is null\n"


def test_exports_are_the_75_functions() -> None:
    if shutil.which("nm") is None:
        pytest.skip("no nm")
    listing = ran("nm", "-D", "--defined-only", LIBRARY).stdout
    assert {line.split()[-1] for line in listing.splitlines()} == {f.c_name for f in FUNCTIONS}


@needs_cc
def test_the_example_in_c(build: Path) -> None:
    done = run(compiled(build, EXAMPLE, "cc", "-std=c11"))
    assert done.stdout == (
        "device nnapi-reference, feature level code 1000008\n"
        "0 xor 0 = 0\n0 xor 1 = 1\n1 xor 0 = 1\n1 xor 1 = 0\n"
    )
    assert done.returncode == 0


@needs_cc
def test_a_program_without_a_libpython_gets_one_message(build: Path) -> None:
    done = run(compiled(build, EXAMPLE, "cc"), EP_NNAPI_LIBPYTHON="/nowhere/libpython.so")
    assert done.returncode == 1
    assert done.stderr.splitlines()[0].startswith("libneuralnetworks.so: no shared libpython")
    assert done.stderr.splitlines()[1] == "ANeuralNetworksModel_create(&model) returned 5"


OLDER_PYTHON = """
#include <android/NeuralNetworks.h>
#include <stdio.h>

int Py_IsInitialized(void) { return 1; }
void Py_InitializeEx(int signals) { (void)signals; }

int main(void) {
    ANeuralNetworksModel *model = NULL;
    int first = ANeuralNetworksModel_create(&model), second = ANeuralNetworksModel_create(&model);
    printf("%d %d\\n", first, second);
    return 0;
}
"""


@needs_cc
def test_a_program_with_a_python_that_lacks_functions(build: Path) -> None:
    """It is not used, by the second call either."""
    source = build / "older.c"
    source.write_text(OLDER_PYTHON, encoding="utf-8")
    done = run(
        compiled(build, source, "cc", "-rdynamic"), EP_NNAPI_LIBPYTHON="/nowhere/libpython.so"
    )
    assert (done.stdout, done.returncode) == ("5 5\n", 0)
    assert done.stderr.startswith("libneuralnetworks.so: no shared libpython was found")


DESCRIPTORS = """
#include <android/NeuralNetworks.h>
#include <stdio.h>
#include <sys/resource.h>

int main(void) {
    ANeuralNetworksModel *model = NULL;
    struct rlimit whole, few = {8, 8};
    getrlimit(RLIMIT_NOFILE, &whole);
    few.rlim_max = whole.rlim_max;
    setrlimit(RLIMIT_NOFILE, &few);
    int first = ANeuralNetworksModel_create(&model), second = ANeuralNetworksModel_create(&model);
    setrlimit(RLIMIT_NOFILE, &whole);
    printf("%d %d %d\\n", first, second, ANeuralNetworksModel_create(&model));
    return model == NULL;
}
"""
FEW = (
    "libneuralnetworks.so: too few file descriptors are free to start Python; "
    "calls return ANEURALNETWORKS_OP_FAILED\n"
)


@needs_cc
def test_a_first_call_without_descriptors_is_not_the_last(build: Path) -> None:
    source = build / "descriptors.c"
    source.write_text(DESCRIPTORS, encoding="utf-8")
    done = run(compiled(build, source, "cc"))
    assert (done.stdout, done.stderr, done.returncode) == ("5 5 0\n", FEW, 0)


def test_a_first_call_without_descriptors_in_python() -> None:
    done = python(
        f"{LOAD}\nimport os, resource\n"
        "whole = resource.getrlimit(resource.RLIMIT_NOFILE)\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (8, whole[1]))\n"
        f"{MODEL_CREATE}; print(code)\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, whole)\n"
        f"{MODEL_CREATE}; print(code)"
    )
    assert (done.stdout, done.stderr) == ("5\n0\n", FEW)


@needs_cc
def test_a_lower_level_may_be_asked_for(build: Path) -> None:
    done = run(compiled(build, EXAMPLE, "cc"), EP_NNAPI_FEATURE_LEVEL="3")
    assert done.stdout.startswith("device nnapi-reference, feature level code 29\n")


THREADS = """
#include <android/NeuralNetworks.h>
#include <pthread.h>
#include <stdio.h>

static void *work(void *unused) {
    long wrong = 0;
    for (int i = 0; i < 200; i++) {
        ANeuralNetworksModel *model = NULL;
        wrong += ANeuralNetworksModel_create(&model) != ANEURALNETWORKS_NO_ERROR;
        wrong += ANeuralNetworksModel_finish(model) != ANEURALNETWORKS_BAD_DATA;
        ANeuralNetworksModel_free(model);
        wrong += ANeuralNetworksModel_finish(model) != ANEURALNETWORKS_BAD_DATA;
    }
    (void)unused;
    return (void *)wrong;
}

int main(void) {
    pthread_t threads[8];
    long wrong = 0;
    for (int i = 0; i < 8; i++) pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < 8; i++) {
        void *result;
        pthread_join(threads[i], &result);
        wrong += (long)result;
    }
    printf("%ld\\n", wrong);
    return 0;
}
"""


@needs_cc
def test_eight_threads_of_c_make_the_first_call(build: Path) -> None:
    source = build / "threads.c"
    source.write_text(THREADS, encoding="utf-8")
    assert run(compiled(build, source, "cc")).stdout == "0\n"


@needs_cc
@pytest.mark.parametrize(("compiler", "standard"), [("gcc", "c99"), ("g++", "c++17")])
def test_the_header_is_c_and_cpp(build: Path, compiler: str, standard: str) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}")
    source = build / ("a.c" if compiler == "gcc" else "a.cc")
    source.write_text("#include <android/NeuralNetworks.h>\n", encoding="utf-8")
    flags = [f"-std={standard}", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"]
    subprocess.run([compiler, *flags, f"-I{build}", source], check=True, timeout=60)


def test_the_header_has_every_function_and_code() -> None:
    text = "".join(headers().values())
    assert all(f"{f.prototype};" in text for f in FUNCTIONS)
    for code in (
        "ANEURALNETWORKS_ADD = 0,",
        "ANEURALNETWORKS_REVERSE = 105,",
        "ANEURALNETWORKS_MODEL = 15,",
        "ANEURALNETWORKS_FUSED_RELU6 = 3,",
        "ANEURALNETWORKS_PREFER_SUSTAINED_SPEED = 2,",
        "ANEURALNETWORKS_PRIORITY_DEFAULT = 100,",
        "ANEURALNETWORKS_FEATURE_LEVEL_8 = 1000008,",
        "ANEURALNETWORKS_DEAD_OBJECT = 14,",
        "ANEURALNETWORKS_FENCED_DURATION_IN_DRIVER = 3,",
        "ANEURALNETWORKS_BYTE_SIZE_OF_CACHE_TOKEN = 32,",
    ):
        assert code in text


LARGE_SUM = """
import ctypes, os, sys
import numpy as np
from ep_nnapi.nnapi.capi import libneuralnetworks_path
from ep_nnapi.nnapi.capi.compilation import COMPILATIONS
from tests.capi.client import Library
from tests.capi.world import World

world = World(Library(libneuralnetworks_path()))
a, out = np.ones(1_000_000, np.float32), np.zeros(1_000_000, np.float32)
compilation = world.ready(model=world.finished(dims=a.shape), for_device=False)
assert COMPILATIONS[compilation]._compiled[0].name == "host-cpu"

def ready():
    return world.bind(world.execution(compilation), a, a, out=out)

def run():
    out[:] = 0
    world.check("Execution_compute", ready())
    assert (out == 2).all()

run()
"""
"""A process that adds large tensors on the device that the runtime chooses."""


def in_process(program: str) -> Done:
    return ran(sys.executable, "-c", LARGE_SUM + program, status=None, timeout=120)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("end", ["sys.exit(0)", "ctypes.CDLL(None).exit(0)", "os._exit(0)"])
def test_a_forked_child_computes_and_exits(end: str) -> None:
    done = in_process(
        "import signal\n"
        "child = os.fork()\n"
        f"if not child: signal.alarm(60); run(); {end}\n"
        "status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])\n"
        "run(); print(status)"
    )
    assert (done.stdout, done.stderr, done.returncode) == ("0\n", "", 0)


@pytest.mark.parametrize("end", ["sys.exit(0)", "ctypes.CDLL(None).exit(0)"])
def test_a_process_ends_while_executions_run(end: str) -> None:
    done = in_process(f"for _ in range(4): world.make('Execution_startCompute', ready())\n{end}")
    assert done.returncode == 0
    assert "terminate called" not in done.stderr


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_programs_in_c_fork_and_exit(build: Path) -> None:
    program = compiled(build, SOURCES / "large_sum.c", "cc", "-std=gnu11")
    for what in ("", "fork", "leave"):
        done = run(program, what)
        assert (what, done.stdout, done.stderr, done.returncode) == (what, "", "", 0)


def test_a_child_is_told_that_its_parents_execution_does_not_end(world: World) -> None:
    compilation = world.ready()
    execution = world.set_all(world.execution(compilation))
    with world.slow(compilation) as go:
        event = world.make("Execution_startCompute", execution)
        child = os.fork()
        if not child:
            signal.alarm(60)
            code = world.nn.Event_wait(event)
            os._exit(code if world.nn.Execution_compute(execution) == ResultCode.BAD_STATE else 99)
        status = os.waitpid(child, 0)[1]
        go.set()
        world.check("Event_wait", event)
    assert os.waitstatus_to_exitcode(status) == ResultCode.DEAD_OBJECT
    assert world.out.tolist() == [11, 22]
