import hashlib
import json
from importlib.metadata import version
from pathlib import Path

import pytest

from release.sbom import sbom

ELF = b"\x7fELF and more"


def test_it_lists_the_libraries_and_what_is_compiled_into_them(tmp_path: Path):
    (tmp_path / "ep_nnapi").mkdir()
    (tmp_path / "ep_nnapi" / "lib.so").write_bytes(ELF)
    (tmp_path / "ep_nnapi" / "module.py").write_bytes(b"")
    text = sbom("ep-nnapi", "1.2.3", tmp_path, {"zig": "0.17.1"})
    assert text == sbom("ep-nnapi", "1.2.3", tmp_path, {"zig": "0.17.1"})
    bill = json.loads(text)
    assert bill["metadata"]["component"]["purl"] == "pkg:pypi/ep-nnapi@1.2.3"
    cffi, library = bill["components"]
    assert cffi["purl"] == f"pkg:pypi/cffi@{version('cffi')}"
    assert cffi["licenses"][0]["expression"].startswith("MIT")
    assert library["name"] == "ep_nnapi/lib.so"
    assert library["hashes"][0]["content"] == hashlib.sha256(ELF).hexdigest()
    (tmp_path / "ep_nnapi" / "lib.so").write_bytes(ELF + b".")
    other = json.loads(sbom("ep-nnapi", "1.2.3", tmp_path, {"zig": "0.17.1"}))
    assert other["serialNumber"] != bill["serialNumber"]


def test_it_is_valid(tmp_path: Path):
    reason = "`make wheels` installs cyclonedx-python-lib and does the same"
    validation = pytest.importorskip("cyclonedx.validation.json", reason=reason)
    schema = pytest.importorskip("cyclonedx.schema")
    strict = validation.JsonStrictValidator(schema.SchemaVersion.V1_6)
    assert strict.validate_str(sbom("ep-nnapi", "1.2.3", tmp_path, {})) is None
