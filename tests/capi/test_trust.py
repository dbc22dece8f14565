"""The library is safe from its surroundings: environment variables, descriptors."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.capi.programs import LIBRARY, compiled
from tests.capi.test_process import EXAMPLE, LOAD, needs_cc, python

PLANTED = """
#include <stdio.h>
__attribute__((constructor)) static void loaded(void) { puts("planted code ran"); fflush(stdout); }
"""


@needs_cc
def test_a_set_id_program_does_not_load_the_libpython_that_its_user_names(build: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a program to another group")
    planted = build / "planted.so"
    (build / "planted.c").write_text(PLANTED)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", planted, build / "planted.c"], check=True)
    program = compiled(build, EXAMPLE, "cc", f"-Wl,-rpath,{LIBRARY.parent}")
    environment = {**os.environ, "EP_NNAPI_LIBPYTHON": str(planted)}

    def output() -> str:
        ran = subprocess.run(
            [program], env=environment, capture_output=True, text=True, check=False, timeout=60
        )
        return ran.stdout + ran.stderr

    assert "planted code ran" in output()
    os.chown(program, -1, 65534)
    program.chmod(0o2755)
    said = output()
    if "planted code ran" in said and "nosuid" in Path("/proc/mounts").read_text():
        pytest.skip("the temporary directory may be mounted without set-id programs")
    assert "planted code ran" not in said


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
