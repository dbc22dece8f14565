"""Every source module has its tests in the file of the same name in the mirrored folder.

`ep_nnapi/sizes/bind.py` has `tests/sizes/test_bind.py`, `partitioner/costs.py` has
`tests/partitioner/test_costs.py`. The exceptions are the tables below.
"""

import ast
from collections import Counter
from pathlib import Path

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
    # what needs many cases has a file
    "ep_nnapi/nnapi/shapes": "tests/nnapi/shapes",
}
"""Packages whose tests are in another folder, with files of other names."""

TESTED_BY = {
    "cli/test_check": "diagnostics/check",
    "cli/test_listing": "cli/report cli/lib",
    "cli/test_tables": "cli/ops cli/prepare",
    "capi/test_build": "nnapi/_embedding",
    "cli/test_run": "diagnostics/run_and_compare",
    "diagnostics/test_doctor": "diagnostics/doctor_worker",
    "epcontext/test_container": "epcontext/pool native/calls",
    "epcontext/test_contexts": "epcontext/composites",
    "graph/test_dag": "graph/graph",
    "provider/test_choice": "provider/alternative_runs",
    "provider/test_planner": "provider/outline",
    "provider/test_tracing": "provider/retracing",
    "diagnostics/test_inputs": "diagnostics/session_runs",
    "diagnostics/test_reference_run": "diagnostics/float64_decomposition",
    "nnapi/host/test_runtime": "nnapi/host/execution_plan nnapi/host/reference "
    "nnapi/host/prepared_graph",
    "nnapi/test_model": "nnapi/array",
    "nnapi/test_sizes": "nnapi/expressions",
    "preparation/test_worker_pool": "preparation/worker workers",  # client and server
    "graph/test_contributed": "graph/function_writer",
    "graph/test_onnx_io": "graph/ort_io",
    "native/test_headers": "native/_build",
    "lowering/test_layouts": "lowering/inner_transposes",
    "nnapi/profile/test_record": "nnapi/profile/device",
    "nnapi/profile/test_sample": "nnapi/profile/seeds nnapi/profile/variations",
    "nnapi/test_errors": "nnapi/codes",
    "provider/test_compiled_cluster": "provider/cluster_record provider/observed_cluster",
    "remote/test_runtime": "remote/agent",
    "sizes/test_bind": "sizes/ceil_mode sizes/symbols",
    "lowering/test_permutes": "lowering/reshapes",
    "partitioner/test_graph": "partitioner/tensors",
    "partitioner/test_merging": "partitioner/constraints",
}
"""Test files of modules that belong together, or that a command runs as Python does."""

ELSEWHERE = {
    name if name.startswith("partitioner/") else f"ep_nnapi/{name}": f"tests/{file}"
    for file, names in TESTED_BY.items()
    for name in names.split()
}


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


def test_a_module_has_tests_of_its_name() -> None:
    """A module without tests is shown with the file that should have them."""
    alone = [m for m in modules() if not m.startswith(tuple(f"{p}/" for p in FOLDERS))]
    wanted = {module: ELSEWHERE.get(module, expected_tests(module)) for module in alone}
    assert not {module: file for module, file in wanted.items() if not has_tests(file)}


def test_the_rule() -> None:
    assert expected_tests("ep_nnapi/sizes/bind") == "tests/sizes/test_bind"
    assert expected_tests("ep_nnapi/errors") == "tests/test_errors"
    assert expected_tests("ep_nnapi/ort/_build") == "tests/ort/test_build"
    assert expected_tests("partitioner/costs") == "tests/partitioner/test_costs"


def test_the_tables_name_what_is_there() -> None:
    assert ELSEWHERE.keys() <= set(modules())
    for package, folder in FOLDERS.items():
        assert (ROOT / package).is_dir()
        assert [p for p in (ROOT / folder).glob("test_*.py") if has_tests(f"{folder}/{p.stem}")]


def test_a_name_is_that_of_one_class() -> None:
    """Whether private to a module or not."""
    paths = (path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    nodes = (node for path in paths for node in ast.parse(path.read_text()).body)
    count = Counter(n.name.lstrip("_") for n in nodes if isinstance(n, ast.ClassDef))
    assert [name for name, times in count.items() if times > 1] == []
    assert count["Rejection"] == 1
