"""Programs that host ONNX Runtime without Python, built against the wheel's own library."""

import subprocess
import sys
from pathlib import Path

import onnxruntime
import pytest

import ep_nnapi
from tests.programs import Done, ran

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "examples"
HOST, ENVIRONMENT = (Path(__file__).parent / name for name in ("host.c", "environment.py"))
PLUGIN = ep_nnapi.get_library_path()


def wheels_library() -> Path:
    """The C library of the installed onnxruntime wheel."""
    found = [*Path(onnxruntime.__file__).parent.glob("capi/libonnxruntime.so.*")]
    if not found:
        pytest.skip("this onnxruntime wheel has no libonnxruntime.so")
    return found[0]


def compiled(folder: Path, source: Path, *command: str) -> Path:
    """The program made of a source, linked with the wheel's library by its SONAME."""
    library, program = folder / "libonnxruntime.so.1", folder / f"{source.stem}-{source.suffix[1:]}"
    if not library.exists():
        library.symlink_to(wheels_library())
    warnings = ("-Wall", "-Wextra", "-Werror")
    files = [f"-I{EXAMPLES}", source, library, f"-Wl,-rpath,{folder}", "-lpthread", "-o", program]
    subprocess.run([*command, *warnings, *files], check=True, timeout=60)
    return program


def run(*command: object, text: str = "", timeout: int = 120, **environment: str) -> Done:
    """The command in an environment that says nothing about Python, in another folder."""
    return ran(*command, status=None, input=text, timeout=timeout, cwd="/", env=environment)


def base_python() -> str:
    """The Python executable that this environment is made of, which has no ep_nnapi."""
    return str(Path(sys.base_prefix, "bin", f"python3.{sys.version_info.minor}"))
