"""Every source module has its tests in the file of the same name in the mirrored folder.

`ep_nnapi/sizes/bind.py` has `tests/sizes/test_bind.py`, `partitioner/costs.py` has
`tests/partitioner/test_costs.py`. The exceptions are the tables below.
"""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("ep_nnapi", "partitioner")

FOLDERS = {
    # tested as C clients call it, across its modules: one file for each kind of behaviour
    "ep_nnapi/nnapi/capi": "tests/capi",
    # tested operation by operation; operations that share code share a file
    "ep_nnapi/nnapi/host/kernels": "tests/nnapi/host",
    # tested operation by operation too: conversions of a family through the device host-cpu
    "ep_nnapi/ort_devices/lowering": "tests/ort_devices",
    "ep_nnapi/litert/lowering": "tests/litert",
}
"""Packages whose tests are in another folder, with files of other names."""

TESTED_BY = {
    "ep_nnapi/cli/device_tables": "tests/cli/test_devices",
    "ep_nnapi/cli/prepare_arguments": "tests/preparation/test_job",  # each with its job
    "ep_nnapi/diagnostics/check": "tests/cli/test_check",  # the verb calls what Python calls
    "ep_nnapi/diagnostics/device_support": "tests/cli/test_devices",  # the verb prints it
    "ep_nnapi/diagnostics/device_times": "tests/cli/test_devices",
    "ep_nnapi/diagnostics/run_and_compare": "tests/cli/test_run",
    "ep_nnapi/nnapi/_embedding": "tests/capi/test_build",
    "ep_nnapi/nnapi/array": "tests/nnapi/test_model",  # a type alias
    "ep_nnapi/nnapi/host/cache_folder": "tests/nnapi/host/test_cache",
    "ep_nnapi/nnapi/host/device": "tests/nnapi/host/test_runtime",
    "ep_nnapi/nnapi/host/execution_plan": "tests/nnapi/host/test_runtime",
    "ep_nnapi/nnapi/host/fingerprint": "tests/nnapi/host/test_lookup_projection",  # its one kernel
    "ep_nnapi/nnapi/host/philox": "tests/nnapi/host/test_lookup_sampling",  # its one kernel
    "ep_nnapi/nnapi/host/prepared_graph": "tests/nnapi/host/test_runtime",
    "ep_nnapi/nnapi/host/reference": "tests/nnapi/host/test_runtime",
    "ep_nnapi/nnapi/host/run": "tests/nnapi/host/test_runtime",
    "ep_nnapi/ort/_slots": "tests/native/test_headers",  # the header that is generated from it
    "ep_nnapi/ort/callbacks": "tests/ort/test_plugin",
    "ep_nnapi/preparation/worker": "tests/preparation/test_worker_pool",  # client and server
}
"""Modules that are tested with another one."""


def modules() -> list[str]:
    """The source modules without suffix, except for `__init__` and `__main__`."""
    paths = (p for package in PACKAGES for p in (ROOT / package).rglob("*.py"))
    return sorted(
        p.relative_to(ROOT).with_suffix("").as_posix() for p in paths if not p.stem.startswith("__")
    )


def expected_tests(module: str) -> str:
    """The test file of a module by the rule: without suffix."""
    folder, _, name = module.rpartition("/")
    inner = folder.removeprefix("ep_nnapi").strip("/")
    return "/".join(filter(None, ("tests", inner, f"test_{name.lstrip('_')}")))


def has_tests(path: str) -> bool:
    file = ROOT / f"{path}.py"
    return file.is_file() and "\ndef test_" in file.read_text(encoding="utf-8")


@pytest.mark.parametrize("module", modules())
def test_a_module_has_tests_of_its_name(module: str) -> None:
    if any(module.startswith(f"{package}/") for package in FOLDERS):
        return
    wanted = TESTED_BY.get(module, expected_tests(module))
    assert has_tests(wanted), f"{module}.py has no tests in {wanted}.py"


def test_the_rule() -> None:
    assert expected_tests("ep_nnapi/sizes/bind") == "tests/sizes/test_bind"
    assert expected_tests("ep_nnapi/report") == "tests/test_report"
    assert expected_tests("ep_nnapi/ort/_build") == "tests/ort/test_build"
    assert expected_tests("partitioner/costs") == "tests/partitioner/test_costs"


def test_the_tables_name_what_is_there() -> None:
    assert TESTED_BY.keys() <= set(modules())
    for package, folder in FOLDERS.items():
        assert (ROOT / package).is_dir()
        assert [p for p in (ROOT / folder).glob("test_*.py") if has_tests(f"{folder}/{p.stem}")]
