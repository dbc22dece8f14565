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


NAMING = {
    "libpython": {"EP_NNAPI_LIBPYTHON": "{folder}/planted.so"},
    "startup file of Python": {"PYTHONPATH": "{folder}"},
    "provider": {"EP_NNAPI_PROVIDERS": "{folder}/planted.so", "EP_NNAPI_DEVICES": "ort:Planted"},
}
"""Environment variables by which a user names code."""


@needs_cc
@pytest.mark.parametrize("named", NAMING)
def test_a_set_id_program_does_not_load_code_that_its_user_names(
    named: str, build: Path, tmp_path: Path
) -> None:
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
        ran = subprocess.run(
            [program], env=environment, capture_output=True, text=True, check=False, timeout=60
        )
        return ran.stdout + ran.stderr

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
