"""Installs a wheel into an empty environment without a compiler, and uses it there.

    python release/prove.py dist/WHEEL [--wheels DIR] [--onnxruntime PACKAGE] [TEST ...]

What runs: README's first snippets of Python with the output that it shows, the demo, and the tests
(default: a core of the suite), with nothing of ep_nnapi or partitioner but what is installed. It
needs the clone's files but the standard library only, so that any Python can be asked. With
--wheels nothing is downloaded: all that pip installs is in that folder. --onnxruntime names another
distribution of the module onnxruntime, which has to be the only one in the end.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CORE = (
    "tests/nnapi/host/test_runtime.py",
    "tests/nnapi/host/test_convolution.py",
    "tests/ort/test_reader.py",
    "tests/operators/test_elementwise.py",
    "tests/operators/test_convolution.py",
    "tests/nnapi/test_files.py",
)
FILES = ("README.md", "docs", "models", "pyproject.toml", "tests")
"""Of the clone, what the proofs read: no product."""

DEMO = (
    (("check", "models/digits.onnx"), "8 of 8 nodes"),
    (("run", "models/digits.onnx", "--input", "models/digits/samples.npz"), "19 of 20 right"),
)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
COMPILERS = ("cc", "gcc", "clang", "zig", "c99", "tcc")

READ = """# README's snippets
import contextlib, io, re, sys
text = open("README.md", encoding="utf-8").read()
def blocks(language): return re.findall(rf"^```{language}\\n(.*?)^```$", text, re.M | re.S)
space, printed = {}, []
for code in blocks("python"):
    with contextlib.redirect_stdout(io.StringIO()) as out: exec(code, space)
    printed.append(out.getvalue())
assert [p for p in printed if p] == blocks("output"), printed
print(len(printed), "snippets")
"""


ONE_PROVIDER = """# distributions of onnxruntime
import importlib.metadata, sys
providers = importlib.metadata.packages_distributions()["onnxruntime"]
assert set(providers) == {sys.argv[1]}, providers
print("onnxruntime is from", sys.argv[1])
"""


class Unproven(Exception):
    """Something that has to run does not."""


def run(*command: object, cwd: Path, tail: int = 3) -> str:
    """Runs a command with nothing but its own folder on the path; returns its output.

    Raises Unproven with its output if it fails.
    """
    words = [str(part) for part in command]
    home = Path(words[0]).parent
    if found := [name for name in COMPILERS if shutil.which(name, path=str(home))]:
        raise Unproven(f"{home} has a compiler: {', '.join(found)}")
    begun = time.monotonic()
    kept = {name: os.environ[name] for name in os.environ if name.startswith(("PIP_", "LANG"))}
    done = subprocess.run(
        words,
        check=False,
        cwd=cwd,
        env=kept | {"PATH": str(home), "HOME": str(cwd), "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        raise Unproven(f"{' '.join(words)} failed:\n{done.stdout}")
    shown = " ".join(word.partition("\n")[0] for word in words[1:])[:100]
    print(f"  {time.monotonic() - begun:6.0f} s  {Path(words[0]).name} {shown}", flush=True)
    for line in done.stdout.splitlines()[-tail:] if tail else ():
        print(f"            {line}", flush=True)
    return done.stdout


@contextmanager
def stage() -> Iterator[Path]:
    """Makes a folder with the files of the clone that proofs read."""
    with tempfile.TemporaryDirectory() as folder:
        for name in FILES:
            source, copy = ROOT / name, Path(folder, "clone", name)
            if source.is_dir():
                shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                copy.parent.mkdir(exist_ok=True)
                shutil.copy(source, copy)
        yield Path(folder)


def prove(wheel: Path, onnxruntime: str, wheels: Path | None, tests: Sequence[str]) -> None:
    """Raises Unproven if something does not run."""
    pip = ("-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--only-binary=:all:")
    offline = ("--no-index", "--find-links", wheels) if wheels else ()
    with stage() as folder:
        run(sys.executable, "-m", "venv", folder / "venv", cwd=folder)
        python, clone = folder / "venv" / "bin" / "python", folder / "clone"
        run(python, *pip, *offline, onnxruntime, cwd=folder)
        run(python, *pip, *offline, wheel, cwd=folder)  # alone, as by someone who has the other
        run(python, "-c", ONE_PROVIDER, re.split("[^\\w-]", onnxruntime)[0], cwd=folder)
        run(python, "-m", "pip", "check", cwd=folder)
        where = run(python, "-c", "import ep_nnapi; print(ep_nnapi.__file__)", cwd=clone)
        if not Path(where.strip()).is_relative_to(folder / "venv"):
            raise Unproven(f"ep_nnapi is imported from {where}")
        run(python.with_name("ep-nnapi"), "--version", cwd=clone)
        run(python, "-c", READ, cwd=clone, tail=1)
        for arguments, expected in DEMO:
            said = run(python.with_name("ep-nnapi"), *arguments, cwd=clone, tail=0)
            if expected not in said:
                raise Unproven(f"ep-nnapi {' '.join(arguments)} does not say {expected!r}: {said}")
        needed = [d for d in PROJECT["dependency-groups"]["test"] if re.match("pytest>|hypoth", d)]
        run(python, *pip, *offline, *needed, cwd=folder)
        run(python, "-m", "pytest", "-p", "no:cacheprovider", *tests, cwd=clone, tail=1)


def main() -> int:
    """Proves one wheel on this machine."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--wheels", type=Path, help="folder with all that pip needs")
    (own,) = PROJECT["project"]["optional-dependencies"]["onnxruntime"]
    parser.add_argument("--onnxruntime", default=own, help=f"distribution (default: {own})")
    parser.add_argument("tests", nargs="*", default=CORE)
    given = parser.parse_intermixed_args()
    print(f"{given.wheel.name} on {platform.machine()}, Python {platform.python_version()}")
    try:
        wheels = given.wheels and given.wheels.resolve()
        prove(given.wheel.resolve(), given.onnxruntime, wheels, given.tests)
    except Unproven as error:
        print(f"release/prove.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
