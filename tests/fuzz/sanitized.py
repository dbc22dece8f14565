"""The C parts built with gcc's sanitizers, in a folder of their own, and what runs on them.

    python -m tests.fuzz.sanitized --seconds 60

copies the package, builds its libraries with AddressSanitizer and UndefinedBehaviorSanitizer, and
runs random calls of the C API and the tests of both plugins. Python's own allocations are not
looked at for leaks, because it keeps much until it ends.
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("setup.py", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE")
FOLDERS = ("ep_nnapi", "native", "partitioner", "release", "tests", "models", "docs", "examples")
FLAGS = "-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -g"
PLUGIN = (
    *("-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", "tests/ort"),
    *("tests/native/test_plugin.py", "tests/native/test_faults.py"),  # the one in C
    *("tests/native/test_c_program.py", "tests/native/test_forged_models.py"),
    *("-m", "not long and not torch and not web"),
    # programs of their own, built without sanitizers
    *("--ignore=tests/ort/test_build.py", "--ignore=tests/ort/test_hosts.py"),
    # workers of prepare limit their address space, of which AddressSanitizer takes terabytes
    *("-k", "not prepare"),
    # onnxruntime's own threads read a string of its own that is freed while the process exits
    "--deselect=tests/ort/test_plugin.py::test_registering_by_path_imports_the_package",
)
"""Arguments of Python for the tests of both plugins."""


def runtime() -> str | None:
    """The library to preload; None where gcc has no AddressSanitizer.

    C++'s library must be there, too, for the sanitizer to find how exceptions are thrown.
    """
    if shutil.which("gcc") is None:
        return None
    found = []
    for name in ("libasan.so", "libstdc++.so.6"):
        command = ["gcc", f"-print-file-name={name}"]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
        found.append(Path(said))
    return " ".join(str(p.resolve()) for p in found) if found[0].is_absolute() else None


def build(folder: Path) -> None:
    """A copy of the package whose libraries look at every access."""
    for name in COPIED:
        shutil.copy(ROOT / name, folder)
    ignored = shutil.ignore_patterns("*.so", "__pycache__")
    for name in FOLDERS:
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    subprocess.run(
        [sys.executable, "setup.py", "-q", "build_ext", "--inplace"],
        check=True,
        cwd=folder,
        env={**os.environ, "CC": "gcc", "CFLAGS": FLAGS, "LDFLAGS": FLAGS},
    )


def run(folder: Path, library: str, *arguments: str) -> int:
    """The exit status of Python in the copy; a sanitizer's finding ends it with 99."""
    environment = {
        **os.environ,
        "LD_PRELOAD": library,
        "PYTHONMALLOC": "malloc",  # else Python's objects share blocks, whose insides nobody checks
        "PYTHONPATH": str(folder),
        "ASAN_OPTIONS": "detect_leaks=0:exitcode=99:abort_on_error=0:allocator_may_return_null=1",
        "UBSAN_OPTIONS": "print_stacktrace=1:exitcode=99",
    }
    command = [sys.executable, *arguments]
    return subprocess.run(command, check=False, cwd=folder, env=environment).returncode


def main() -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(31))
    asked = parser.parse_args()
    library = runtime()
    if library is None:
        sys.stdout.write("gcc has no AddressSanitizer here: nothing is run\n")
        return 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build(folder)
        where = f"import ep_nnapi as e; raise SystemExit(not e.__file__.startswith({name!r}))"
        calls = ["-m", "tests.capi.fuzz", f"--seconds={asked.seconds}", f"--seed={asked.seed}"]
        return max(run(folder, library, *each) for each in (["-c", where], calls, PLUGIN))


if __name__ == "__main__":
    sys.exit(main())
