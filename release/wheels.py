"""Writes dist/: the sdist, a wheel for each processor, and ep-nnapi-android where an NDK is given.

    python -m release.wheels [--out DIR]

zig compiles for every processor against the glibc of manylinux_2_28, so that the machine's own
compiler and C library are not used. Each wheel is built twice from the sdist, in folders of
different names, and must have the same digest; then release.audit looks into it. With the path of
Android's NDK in ANDROID_NDK, the C parts for phones become the wheel ep-nnapi-android. So that
`pip install dist/*.whl` works, a wheel for another processor is in a folder of its name.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from pathlib import Path
from platform import machine

from release import android, audit

ROOT = Path(__file__).parents[1]
GLIBC = "2.28"
PROCESSORS = ("x86_64", "aarch64")


class Unfit(Exception):
    """A file of the release is not what it has to be."""


def run(*command: object, cwd: Path = ROOT, **environment: str) -> str:
    """Runs a command; returns what it prints. Raises Unfit with its output if it fails."""
    done = subprocess.run(
        [str(part) for part in command],
        check=False,
        cwd=cwd,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        umask=0o022,  # part of a wheel's bytes
    )
    if done.returncode:
        raise Unfit(f"{' '.join(map(str, command))} failed:\n{done.stdout}")
    return done.stdout


def epoch() -> str:
    """Returns SOURCE_DATE_EPOCH, or the time of the last commit: the time of all files."""
    return os.environ.get("SOURCE_DATE_EPOCH") or run("git", "log", "-1", "--format=%ct").strip()


def reproducible(time: str) -> dict[str, str]:
    """Returns the variables with which a build says nothing of where and when it ran."""
    return {"SOURCE_DATE_EPOCH": time, "PYTHONHASHSEED": "0"}


def export(folder: Path) -> None:
    """Copies the files that git knows to the new folder, as they are now."""
    listed = run("git", "ls-files", "-z").split("\0")
    for name in filter(None, listed):
        if (ROOT / name).exists():  # else deleted, and not committed yet
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)


def build(source: Path, out: Path, *arguments: str, **environment: str) -> Path:
    """Runs `build` in the source folder; returns the one file that it writes to the new folder."""
    command = (sys.executable, "-m", "build", "--no-isolation", "--outdir", out)
    run(*command, *arguments, cwd=source, **environment)
    (built,) = out.iterdir()
    return built


def build_sdist(source: Path, work: Path, time: str) -> Path:
    """Returns the sdist of the source folder."""
    made = build(source, work / "made", "--sdist", **reproducible(time))
    return normalized(made, work / made.name, int(time))


def normalized(made: Path, plain: Path, time: int) -> Path:
    """Writes an archive anew: its files in order, of one time, with no user's name and mask."""
    with (
        tarfile.open(made) as old,
        plain.open("wb") as file,
        gzip.GzipFile("", "wb", 9, file, mtime=time) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for member in sorted(old.getmembers(), key=lambda member: member.name):
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.mtime, member.pax_headers = time, {}
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            new.addfile(member, old.extractfile(member) if member.isfile() else None)
    return plain


def compiler(work: Path, processor: str) -> dict[str, str]:
    """Returns the variables that make setuptools compile for a processor with zig."""
    target = f"{processor}-linux-gnu.{GLIBC}"
    program = work / f"cc-{processor}"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m ziglang cc -target {target} "$@"\n')
    program.chmod(0o755)
    flags = "-g0"
    debian = Path("/usr/include", sysconfig.get_config_var("MULTIARCH") or "", "python3")
    headers = debian.with_name(f"python{sysconfig.get_python_version()}")
    if headers.is_dir():  # Debian's Python.h includes <PROCESSOR-linux-gnu/.../pyconfig.h>
        place = work / "include" / f"{processor}-linux-gnu"
        place.mkdir(parents=True, exist_ok=True)
        (place / headers.name).symlink_to(headers)
        flags += f" -I{work}/include"
    return {
        "CC": str(program),
        "CFLAGS": flags,
        "LDSHARED": f"{program} -shared -s",
        "_PYTHON_HOST_PLATFORM": f"linux-{processor}",
    }


def digest(path: Path) -> str:
    """Returns the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def build_wheel(sdist: Path, work: Path, processor: str, time: str) -> Path:
    """Returns the wheel for a processor. Raises Unfit if a second build differs from the first."""
    tag = f"manylinux_{GLIBC.replace('.', '_')}_{processor}"
    environment = reproducible(time) | compiler(work, processor)
    wheels = []
    for folder in (work / processor / "first", work / processor / "a-second-time"):
        with tarfile.open(sdist) as archive:
            archive.extractall(folder, filter="data")
        (source,) = folder.iterdir()
        option = f"-C--build-option=--plat-name={tag}"
        wheels.append(build(source, folder / "out", "--wheel", option, **environment))
    return same(*wheels)


def build_android(source: Path, work: Path, ndk: Path, time: str) -> Path:
    """Returns the wheel ep-nnapi-android. Raises Unfit if a second build differs."""
    wheels = []
    for folder in (work / "android" / "first", work / "android" / "a-second-time"):
        try:
            android.lay_out(source, ndk, folder / "package")
        except (FileNotFoundError, subprocess.CalledProcessError) as error:
            raise Unfit(str(error)) from None
        out = folder / "out"
        wheels.append(build(folder / "package", out, "--wheel", **reproducible(time)))
    return same(*wheels)


def place(file: Path, out: Path) -> Path:
    """Returns the folder of a file: out, or one in it for what another processor runs."""
    name = next((p for p in PROCESSORS if file.stem.endswith(f"_{p}")), machine())
    return out if name == machine() else out / name


def same(first: Path, second: Path) -> Path:
    """Returns the first of two builds. Raises Unfit if they differ."""
    if digest(first) != digest(second):
        raise Unfit(f"two builds of {first.name} differ")
    return first


def main() -> int:
    """Builds and audits everything; prints each file with its size and digest."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="folder (default: dist)")
    out: Path = parser.parse_args().out
    time = epoch()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        export(work / "source")
        files = [build_sdist(work / "source", work, time)]
        files += [build_wheel(files[0], work, processor, time) for processor in PROCESSORS]
        ndk = os.environ.get("ANDROID_NDK")
        if ndk:
            files.append(build_android(work / "source", work, Path(ndk), time))
        else:
            print("ANDROID_NDK is not set: no ep-nnapi-android")
        for file in files:
            print(f"{digest(file)}  {file.stat().st_size:>9,} bytes  {file.name}", flush=True)
            for line in audit.findings(file, secrets=(folder, str(ROOT), str(Path.home()))):
                print(f"    {line}")
        shutil.rmtree(out, ignore_errors=True)
        for file in files:
            place(file, out).mkdir(parents=True, exist_ok=True)
            shutil.copy(file, place(file, out))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (Unfit, audit.Finding) as error:
        sys.exit(f"make wheels: {error}")
