"""Where compilations run whose client names no device, and safety from the surroundings."""

import os
import subprocess
from pathlib import Path

import pytest

from ep_nnapi.nnapi.capi.compilation import COMPILATIONS
from ep_nnapi.nnapi.capi.device import default_devices, runtime
from ep_nnapi.nnapi.work import work
from ep_nnapi.ort_devices.device import LARGE
from tests.capi.programs import LIBRARY, compiled
from tests.capi.test_process import EXAMPLE, LOAD, needs_cc, python
from tests.capi.world import World
from tests.nnapi.test_work import convolution
from tests.programs import ran


def test_large_models_are_tried_on_host_cpu_first() -> None:
    every = runtime().devices()
    names = [[d.name for d in default_devices(m, every)] for m in (convolution(19), convolution(5))]
    assert work(convolution(18)) < LARGE < work(convolution(19))
    assert names == [["host-cpu", "nnapi-reference"], ["nnapi-reference", "host-cpu"]]
    assert default_devices(None, every) == every


def test_compilations_without_a_device_run_where_their_work_belongs(world: World) -> None:
    chosen = []
    for size in (2, LARGE):
        compilation = world.ready(model=world.finished(dims=(size,)), for_device=False)
        chosen.append(COMPILATIONS[compilation]._compiled[0].name)
    assert chosen == ["nnapi-reference", "host-cpu"]


PLANTED = """
#include <stdio.h>
__attribute__((constructor)) static void loaded(void) { puts("planted code ran"); fflush(stdout); }
"""


NAMING = {
    "libpython": {"EP_NNAPI_LIBPYTHON": "{folder}/planted.so"},
    "startup file of Python": {"PYTHONPATH": "{folder}"},
    "provider": {"EP_NNAPI_PROVIDERS": "{folder}/planted.so", "EP_NNAPI_DEVICES": "ort:Planted"},
}
"""Environment variables by which a user names code."""


@needs_cc
@pytest.mark.parametrize("named", NAMING)
def test_a_set_id_program_does_not_load_code_that_its_user_names(named: str, build: Path, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root can give a program to another group")
    (tmp_path / "planted.c").write_text(PLANTED)
    planted = ["-o", tmp_path / "planted.so", tmp_path / "planted.c"]
    subprocess.run(["cc", "-shared", "-fPIC", *planted], check=True)
    (tmp_path / "sitecustomize.py").write_text("print('planted code ran', flush=True)")
    program = compiled(build, EXAMPLE, "cc", f"-Wl,-rpath,{LIBRARY.parent}")
    variables = {name: value.format(folder=tmp_path) for name, value in NAMING[named].items()}
    environment = {**os.environ, **variables, "PYTHON" + 5000 * "X": "a long name"}

    def output() -> str:
        done = ran(program, status=None, env=environment, timeout=60)
        return done.stdout + done.stderr

    assert "planted code ran" in output()
    os.chown(program, -1, 65534)
    program.chmod(0o2755)
    if os.statvfs(program).f_flag & os.ST_NOSUID:
        pytest.skip("the temporary directory is mounted without set-id programs")
    assert "planted code ran" not in output()


def test_a_long_list_is_not_read_through_a_descriptor(tmp_path: Path) -> None:
    """All descriptors that the library has opened are closed and their numbers used again."""
    (tmp_path / "other").write_bytes(bytes(1 << 16))
    done = python(
        f"{LOAD}\n"
        "import os\n"
        "class Type(ctypes.Structure):\n"
        "    _fields_ = [('type', ctypes.c_int32), ('count', ctypes.c_uint32),\n"
        "                ('dims', ctypes.POINTER(ctypes.c_uint32)),\n"
        "                ('scale', ctypes.c_float), ('zero', ctypes.c_int32)]\n"
        "def add(n):\n"
        "    dims = (ctypes.c_uint32 * n)(*[1] * n)\n"
        "    kind = Type(3, n, dims, 0.0, 0)\n"
        "    return nn.ANeuralNetworksModel_addOperand(model, ctypes.byref(kind))\n"
        "model = ctypes.c_void_p()\n"
        "assert nn.ANeuralNetworksModel_create(ctypes.byref(model)) == 0\n"
        "first = add(100)\n"
        f"taken = [os.open({str(tmp_path / 'other')!r}, os.O_RDONLY) for _ in range(3)]\n"
        "for number in range(3, 64):\n"
        "    try: os.dup2(taken[0], number)\n"
        "    except OSError: pass\n"
        "print(first, add(100))"
    )
    assert done.stderr == ""
    first, second = done.stdout.split()
    assert (first, second) == ("0", "0")
