"""The C parts and their test programs, compiled when needed: plain, sanitized, for ARM64."""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from tempfile import NamedTemporaryFile

import pytest

ROOT = Path(__file__).resolve().parents[2]
NATIVE = ROOT / "native"
HERE = Path(__file__).parent
OBJECTS = ROOT / "build" / "test-objects"
SANITIZED = (
    *("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"),
    "-fno-omit-frame-pointer",
)
COMPILER = shutil.which("cc") or shutil.which("gcc")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="needs a C compiler")
DEFINED = ("-D_GNU_SOURCE=", "-D_FILE_OFFSET_BITS=64", '-DNNAPI_CONTEXT_RELEASE="test"')
WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror")
ARM64 = shutil.which("aarch64-linux-gnu-gcc")
ARM64_ROOT = "/usr/aarch64-linux-gnu"
EMULATOR = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
CLANG_ARM64 = ("clang", "--target=aarch64-linux-gnu")
COMPILERS = (("gcc",), ("clang",), ("aarch64-linux-gnu-gcc",), CLANG_ARM64)
"""Commands without files: for this machine, and for ARM64."""


def is_arm64(compiler: tuple[str, ...]) -> bool:
    """True for those that compile for ARM64 on another machine."""
    return "aarch64-linux-gnu" in compiler[-1]


def skip_without(compiler: tuple[str, ...]) -> None:
    """Skips the test where the compiler is not installed; clang takes the C library of gcc's."""
    if shutil.which(compiler[0]) is None or (is_arm64(compiler) and ARM64 is None):
        pytest.skip(f"{' '.join(compiler)} is not installed, or has no C library")


def starter(compiler: tuple[str, ...]) -> tuple[str, ...]:
    """What starts programs of a compiler here; skips the test without an emulator for ARM64."""
    if not is_arm64(compiler):
        return ()
    if EMULATOR is None:
        pytest.skip("needs qemu-aarch64")
    return (EMULATOR, "-L", ARM64_ROOT)


@dataclass(frozen=True)
class Build:
    """Programs and the stand-in library, built in a folder."""

    folder: Path
    compiler: str
    flags: tuple[str, ...] = ("-O2",)
    more: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Flags of one C file, by its name without a suffix."""

    def program(self, name: str) -> Path:
        """`nnapi_run`, `nnapi_agent`, or a test program of this folder."""
        (own,) = (path for path in (NATIVE / f"{name}.c", HERE / f"{name}.c") if path.is_file())
        shared = [p for p in sorted(NATIVE.glob("*.c")) if not p.stem.startswith("nnapi_")]
        return self.compiled(name, own, *shared)

    @cached_property
    def stand_in(self) -> Path:
        """The small NNAPI library."""
        return self.compiled("libneuralnetworks.so", HERE / "stand_in.c", "-shared", "-fPIC")

    def compiled(self, name: str, *words: object) -> Path:
        """A program or library of that name, of these C files and words for the linker."""
        out = self.folder / name
        given = [word if isinstance(word, str) else str(self._object(word)) for word in words]
        command = [self.compiler, *self.flags, *given, "-o", str(out), "-ldl", "-pthread"]
        subprocess.run(command, check=True, timeout=300)
        return out

    def _object(self, source: Path) -> Path:
        """The file compiled, for all tests until it, a header or the command changes."""
        flags = (*self.flags, *self.more.get(source.stem, ()))
        command = [self.compiler, "-std=c11", *DEFINED, *flags]
        command += [*WARNINGS, "-fvisibility=hidden", "-fPIC", f"-I{NATIVE}", "-c"]
        return made_once(command, source, ".o", sorted(NATIVE.glob("*.h")))


def made_once(
    command: Sequence[str], source: Path, suffix: str, includes: Sequence[Path] = ()
) -> Path:
    """What a compiler makes of the file, until what it reads or the command changes.

    Once for one compiler, which may be called `cc` as well as `gcc`.
    """
    compiler = os.path.realpath(shutil.which(command[0]) or command[0])
    digest = hashlib.sha256(repr([compiler, *command[1:]]).encode())
    for path in (source, *includes):
        digest.update(path.read_bytes())
    made = OBJECTS / f"{source.stem}-{digest.hexdigest()[:16]}{suffix}"
    if not made.exists():
        OBJECTS.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=OBJECTS, suffix=suffix, delete=False) as own:
            subprocess.run([*command, str(source), "-o", own.name], check=True, timeout=300)
        os.replace(own.name, made)
    return made


def sanitized(folder: Path) -> Build:
    """With AddressSanitizer and UndefinedBehaviorSanitizer; skips the test where gcc has none."""
    source = folder / "empty.c"
    source.write_text("int main(void) { return 0; }\n")
    command = [COMPILER or "cc", *SANITIZED, str(source), "-o", str(folder / "empty")]
    if subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("the compiler has no sanitizers")
    return Build(folder, COMPILER or "cc", SANITIZED)


def environment() -> dict[str, str]:
    """Sanitizers' findings end a program with 99."""
    return {
        **os.environ,
        "ASAN_OPTIONS": "exitcode=99:allocator_may_return_null=1:max_allocation_size_mb=2048",
        "UBSAN_OPTIONS": "print_stacktrace=1:exitcode=99",
    }
