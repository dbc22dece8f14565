"""Looks into the files of a release: what is in them, and what the libraries ask of a machine."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from release.android import API, COMPILERS

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile

LARGEST = 1_600_000
"""Bytes of a wheel."""

WANTED = re.compile(
    r"(ep_nnapi|partitioner)/([\w/]+/)?(\w+\.pyi?|py\.typed)"
    r"|ep_nnapi/html_report/assets/\w+\.(html|css|js)"
    r"|ep_nnapi/nnapi/profile/devices/[\w-]+\.json\.gz"
    r"|ep_nnapi/nnapi/capi/(include/android/\w+\.h|pkgconfig/\w+\.pc|cmake/\w+\.cmake)"
    r"|ep_nnapi/(native|ort|nnapi/capi)/\w+(\.abi3)?\.so"
    r"|ep_nnapi_android/(__init__\.py|py\.typed|[\w-]+/(lib\w+\.so|nnapi_\w+))"
    r"|ep_nnapi(_android)?-[\w.]+\.dist-info/"
    r"(METADATA|WHEEL|RECORD|entry_points\.txt|top_level\.txt|licenses/LICENSE|sboms/[\w.-]+\.json)"
)
"""Every file that a wheel may have."""

LIBRARIES = {
    "ep_nnapi/native/_native.abi3.so",
    "ep_nnapi/nnapi/capi/_native.abi3.so",
    "ep_nnapi/nnapi/capi/libneuralnetworks.so",
    "ep_nnapi/nnapi/capi/libonnxruntime_providers_nnapi_context.so",
    "ep_nnapi/ort/_native.abi3.so",
    "ep_nnapi/ort/libonnxruntime_providers_nnapi.so",
}
PROGRAMS = ("libonnxruntime_providers_nnapi_context.so", "nnapi_agent", "nnapi_run")
"""What a phone gets, for each ABI."""

MACHINES = {
    "arm64-v8a": "EM_AARCH64",
    "armeabi-v7a": "EM_ARM",
    "x86_64": "EM_X86_64",
    "x86": "EM_386",
    "aarch64": "EM_AARCH64",
}
PAGE = 16384
"""Bytes of a page on phones with large ones."""

_BUILD_ONLY = ("/_build.py", "/_embedding.py")


class Finding(Exception):
    """What is wrong with a file of a release."""


def findings(path: Path, secrets: Sequence[str]) -> Iterator[str]:
    """Yields what was found about an sdist or wheel, a line each; raises Finding if it is unfit.

    secrets   paths of this machine, which no file may name
    """
    contents = _contents(path)
    for name, data in contents.items():
        for secret in secrets:
            if len(secret) > 1 and re.search(re.escape(secret.encode()) + rb"(?![\w-])", data):
                raise Finding(f"{path.name}: {name} names {secret}")
    if path.suffix == ".whl":
        yield _listed(path, contents)
    if path.name.startswith("ep_nnapi_android-"):
        yield _phones(path.name, contents)
    yield _twine(path)
    if path.suffix == ".whl" and "-none-any" not in path.name:
        yield _bill(path.name, contents)
        yield _libraries(path.name, contents)
        yield _stable_abi(path)
        yield _platform_tag(path)


def _twine(path: Path) -> str:
    command = [sys.executable, "-m", "twine", "check", "--strict", str(path)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise Finding(f"twine check: {done.stdout}{done.stderr}")
    return "twine check --strict: passed"


def _contents(path: Path) -> dict[str, bytes]:
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as archive:
            return {name: archive.read(name) for name in archive.namelist()}
    with tarfile.open(path) as archive:
        files = [(m.name, archive.extractfile(m)) for m in archive.getmembers() if m.isfile()]
        return {name: file.read() for name, file in files if file is not None}


def _listed(path: Path, contents: dict[str, bytes]) -> str:
    """All files are wanted, the licence is among them, and the whole is small."""
    for name in contents:
        if WANTED.fullmatch(name) is None or name.endswith(_BUILD_ONLY):
            raise Finding(f"{path.name}: {name} is not needed")
    if not any(name.endswith(".dist-info/licenses/LICENSE") for name in contents):
        raise Finding(f"{path.name} has no licence")
    if path.stat().st_size > LARGEST:
        raise Finding(f"{path.name} has {path.stat().st_size:,} bytes, more than {LARGEST:,}")
    return f"{len(contents)} files, each of a kind that is needed; licence: MIT"


def _bill(wheel: str, contents: dict[str, bytes]) -> str:
    """The bill of materials is valid CycloneDX and tells the digest of every library."""
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    (bill,) = (data for name, data in contents.items() if "/sboms/" in name)
    wrong = JsonStrictValidator(SchemaVersion.V1_6).validate_str(bill.decode())
    if wrong is not None:
        raise Finding(f"{wheel}: its bill of materials is no CycloneDX 1.6: {wrong}")
    files = [c for c in json.loads(bill)["components"] if c["type"] == "file"]
    told = {c["name"]: c["hashes"][0]["content"] for c in files}
    elf = {n: hashlib.sha256(d).hexdigest() for n, d in contents.items() if d[:4] == b"\x7fELF"}
    if told != elf:
        raise Finding(f"{wheel}: its bill of materials does not have the libraries' digests")
    return f"CycloneDX 1.6: valid, {len(told)} libraries with their digests"


def _libraries(wheel: str, contents: dict[str, bytes]) -> str:
    """All libraries are there, for the wheel's processor, hardened and without debug data."""
    processor = wheel.split("2_28_")[1][:-4]
    found = {name: data for name, data in contents.items() if name.endswith(".so")}
    if found.keys() != LIBRARIES:
        raise Finding(f"{wheel}: its libraries are {sorted(found)}")
    for name, data in found.items():
        needed = _hardened(wheel, name, data, MACHINES[processor])[1]
        if any(library.startswith("libpython") for library in needed):
            raise Finding(f"{wheel}: {name} needs {needed}")
    return f"{len(found)} libraries for {processor}: hardened, stripped, without libpython"


def _phones(wheel: str, contents: dict[str, bytes]) -> str:
    """All is there for each ABI and runs on Android: its C library alone, pages of any size."""
    places = {f"ep_nnapi_android/{abi}/{name}": abi for abi in COMPILERS for name in PROGRAMS}
    found = {name: data for name, data in contents.items() if data[:4] == b"\x7fELF"}
    if found.keys() != places.keys():
        raise Finding(f"{wheel}: its programs and libraries are {sorted(found)}")
    for name, data in found.items():
        elf, needed = _hardened(wheel, name, data, MACHINES[places[name]])
        if not needed <= {"libc.so", "libdl.so", "libm.so"}:
            raise Finding(f"{wheel}: {name} needs {sorted(needed)}")
        least = min(segment["p_align"] for segment in elf.iter_segments("PT_LOAD"))
        if least % PAGE:
            raise Finding(f"{wheel}: {name} is aligned to {least} bytes, not {PAGE}")
        note = elf.get_section_by_name(".note.android.ident")
        level = int.from_bytes(note.data()[20:24], "little") if note else None
        if level != API:  # after the header of 12 bytes and the name "Android"
            raise Finding(f"{wheel}: {name} is for Android's API {level}, not {API}")
    return f"{len(found)} files for {len(COMPILERS)} ABIs: hardened, Android's libc, pages of 16 KB"


def _hardened(wheel: str, name: str, data: bytes, machine: str) -> tuple[ELFFile, set[str]]:
    """Returns a program or library and what it needs; raises Finding if it is unfit."""
    from elftools.elf.elffile import ELFFile

    elf = ELFFile(BytesIO(data))
    segments = {s["p_type"]: s["p_flags"] for s in elf.iter_segments()}
    entries = [e for s in elf.iter_segments("PT_DYNAMIC") for e in s.iter_tags()]
    tags = {entry.entry.d_tag: entry for entry in entries}
    bad = {
        f"is for {elf['e_machine']}": elf["e_machine"] != machine,
        "has debug data": elf.get_section_by_name(".debug_info") is not None,
        "has an executable stack": segments["PT_GNU_STACK"] & 1,
        "is not read-only after relocation": "PT_GNU_RELRO" not in segments,
        "binds lazily": not tags["DT_FLAGS"]["d_val"] & 8,  # DF_BIND_NOW
        "has no stack protector": b"__stack_chk_fail" not in data,
        "has a search path": tags.keys() & {"DT_RPATH", "DT_RUNPATH"},
    }
    for what, holds in bad.items():
        if holds:
            raise Finding(f"{wheel}: {PurePosixPath(name).name} {what}")
    return elf, {e.needed for e in entries if e.entry.d_tag == "DT_NEEDED"}


def _stable_abi(wheel: Path) -> str:
    """The libraries use what every CPython has that the wheel's tag names."""
    command = [sys.executable, "-m", "abi3audit", "--strict", "--report", str(wheel)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise Finding(f"abi3audit {wheel.name}: {done.stdout}{done.stderr}")
    (spec,) = json.loads(done.stdout)["specs"].values()
    versions = {library["result"]["computed"] for library in spec["wheel"]}
    return f"abi3audit: {len(spec['wheel'])} libraries for CPython {', '.join(versions)} or newer"


def _platform_tag(wheel: Path) -> str:
    """Says which tag auditwheel derives from the symbols; raises Finding if it is a newer one."""
    command = [sys.executable, "-m", "auditwheel", "show", str(wheel)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    text = " ".join(done.stdout.split())
    found = re.search(r'is consistent with the following platform tag: "manylinux_2_(\d+)_', text)
    claimed = re.search(r"manylinux_2_(\d+)_", wheel.name)
    if found is None or claimed is None or int(found[1]) > int(claimed[1]):
        raise Finding(f"auditwheel show {wheel.name}: {text}{done.stderr}")
    versions = re.search(r"constrains the platform tag to .*?\.", text)
    return f"auditwheel: manylinux_2_{found[1]} or newer, by its symbols" + (
        f" ({versions[0]})" if versions else ""
    )
