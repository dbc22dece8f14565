"""The software bill of materials of a wheel: CycloneDX 1.6, in dist-info/sboms (PEP 770).

It lists the compiled libraries with their digests, and what of others was compiled into them. The
same build writes the same bytes: the serial number follows from the contents.

setup.py executes this file by path: it must not import the package.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping
from importlib.metadata import metadata, version
from pathlib import Path

COMPILED_IN = ("cffi",)
"""Distributions whose C code is part of the libraries: the header of cffi's modules."""


def sbom(name: str, release: str, folder: Path, tools: Mapping[str, str]) -> str:
    """Returns the bill of the wheel `name` of a release as JSON.

    folder  what the wheel is made from; its ELF files are listed
    tools   versions of what built it
    """
    product = f"pkg:pypi/{name}@{release}"
    foreign = [_distribution(part) for part in COMPILED_IN]
    libraries = [_file(path, folder) for path in sorted(folder.rglob("*")) if _is_elf(path)]
    bill: dict[str, object] = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "lifecycles": [{"phase": "build"}],
            "tools": {
                "components": [
                    {"type": "application", "name": tool, "version": of}
                    for tool, of in sorted(tools.items())
                ]
            },
            "component": {
                "type": "library",
                "bom-ref": product,
                "name": name,
                "version": release,
                "purl": product,
                "licenses": [{"expression": "MIT"}],
            },
        },
        "components": [*foreign, *libraries],
        "dependencies": [
            {"ref": product, "dependsOn": [part["bom-ref"] for part in (*foreign, *libraries)]}
        ],
    }
    content = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(bill, sort_keys=True))
    return json.dumps({**bill, "serialNumber": content.urn}, indent=1) + "\n"


def _distribution(name: str) -> dict[str, object]:
    purl = f"pkg:pypi/{name}@{version(name)}"
    about = metadata(name)
    return {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version(name),
        "purl": purl,
        "licenses": [{"expression": about["License-Expression"] or about["License"]}],
    }


def _file(path: Path, folder: Path) -> dict[str, object]:
    place = path.relative_to(folder).as_posix()
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return {
        "type": "file",
        "bom-ref": place,
        "name": place,
        "hashes": [{"alg": "SHA-256", "content": digest}],
    }


def _is_elf(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"
