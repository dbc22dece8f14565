"""Who may import whom. A module may import from its own row's unit and from what the row lists.

A new edge is a decision about the design: it is made here first.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ep_nnapi.ops import FAMILIES

ROOT = Path(__file__).parents[1]
PACKAGES = ("ep_nnapi", "partitioner")

# The files of ops/ that declare no operators.
SHARED = sorted(
    f"ops.{path.stem}"
    for path in (ROOT / "ep_nnapi" / "ops").glob("[a-z]*.py")
    if path.stem not in {family.__name__.rpartition(".")[2] for family in FAMILIES}
)

# NNAPI as Android defines it, and the four files it shares with the rest.
NNAPI_WORLD = "nnapi files value target rejection numpy"

# Unit -> what it may import. A unit is a module or a package with all below it, by the longest name
# that fits; `x.*` makes each module of a package a unit, so that they do not import one another.
ALLOWED = {
    "rejection": "",
    "files": "rejection",
    "target": "rejection",
    "value": "rejection numpy",
    "option_values": "rejection target",
    "options": "option_values rejection target",
    "report": "rejection",
    "graph": "value",
    "context_names": "graph",
    "to_onnx": "graph value onnx",
    "ranges": "graph value numpy",
    # one node; what families share is not itself a family
    "ops.node": "graph nnapi.call rejection target value numpy",
    "ops.*": f"{' '.join(SHARED)} nnapi.call nnapi.codes nnapi.spec rejection value numpy",
    "ops": "ops",
    "groups": "graph ops.quantizing value",
    "qlinear": "graph value numpy",
    "qdq": "graph groups qlinear rejection value",
    "requantize": "ops.quantizing rewrite nnapi.call nnapi.spec rejection value numpy",
    "floats": "graph ops.quantizing nnapi.call nnapi.spec value",
    "consistency": "nnapi.call nnapi.shapes rejection value",
    "workspace": "consistency dag graph nnapi.call nnapi.scratch rejection value",
    "capability": "consistency dag floats graph qdq ranges requantize ops nnapi.call nnapi.operand"
    " rejection target value workspace",
    # one cluster
    "follow": "nnapi.call nnapi.signature nnapi.spec rejection value numpy",
    "rewrite": "nnapi.call nnapi.codes nnapi.spec value",
    "forms": "follow rewrite nnapi.call nnapi.spec rejection value numpy",
    "layout": "follow rewrite nnapi.call nnapi.spec rejection value networkx",
    "border": "rejection nnapi.runtime value numpy",
    "lowering": "border follow forms layout rewrite nnapi.call nnapi.codes nnapi.model"
    " nnapi.signature nnapi.spec rejection target value numpy",
    # one graph, one session
    "dag": "graph rejection value networkx",
    "runtimes": "options nnapi.codes nnapi.host nnapi.runtime rejection target",
    "customops": "rejection onnxruntime",
    "cpu": "customops numpy onnx onnxruntime",
    "submodel": "cpu nnapi.forks value onnx onnxruntime",
    "engine": "border lowering options report runtimes submodel nnapi.forks nnapi.model"
    " nnapi.runtime rejection value numpy",
    "sizes": "rejection value",
    "counterpart": "graph qlinear value onnx",
    "settling": "ceiling counterpart dag graph nnapi.operand to_onnx value numpy onnx",
    "assuming": "dag graph settling to_onnx value numpy onnxruntime",
    "sampling": "assuming binding graph sizes value",
    "binding": "dag graph settling sizes value",
    "builtin_checks": "ops.node rejection value",
    "builtin": "builtin_checks graph ops.node rejection target value",
    "encoding": "border nnapi.codes nnapi.model nnapi.spec value numpy",
    "context": "border encoding lowering nnapi.validate rejection value numpy",
    "seal": "rejection onnx",
    "prepared": "compiling context context_names dag engine graph lowering nnapi.model options"
    " rejection report seal",
    "costs": "dag graph value",
    "rates": "costs graph partitioner",
    "calibration": "costs files nnapi.runtime options rates rejection target",
    "choosing": "graph options rates networkx partitioner",
    "ceiling": "dag graph value",
    "late": "binding dag graph value",
    "declared": "ceiling dag graph settling value",
    "causes": "dag graph rejection",
    "isolating": "graph rejection",
    "progress": "",
    "judging": "binding builtin capability causes context_names dag declared graph isolating late"
    " options progress qdq ranges rejection sampling target",
    "compiling": "binding capability costs dag forms graph lowering nnapi.runtime ranges rejection"
    " sizes target value",
    "dynamic": "border compiling engine graph nnapi.forks nnapi.model options report submodel"
    " to_onnx value numpy",
    "planning": "binding choosing compiling context_names dag dynamic engine graph judging"
    " options prepared progress rates rejection report submodel to_onnx value",
    "rounds": "context_names graph planning report",
    "provider": "calibration compiling graph nnapi.forks nnapi.runtime options planning prepared"
    " rejection report rounds runtimes",
    # ONNX Runtime
    "ort.contract": "graph value",
    "ort.plugin": "ort graph nnapi.interrupts provider",
    "ort.session": "ort nnapi.forks options rejection target onnxruntime",
    "ort._build": "cffi",
    "ort": "graph rejection value numpy",
    # what a user calls
    "job": "options rejection",
    "onnxfile": "onnx",
    "ortfile": "onnxruntime",
    "naming": "onnxfile ortfile onnx onnxruntime",
    "contents": "border context context_names onnxfile target google onnx",
    "keeping": "onnxfile ortfile report onnx onnxruntime",
    "staging": "checking contents customops job keeping naming onnxfile ort.names ort.session"
    " ortfile rejection report sources onnxruntime",
    "contextmodel": "checking context context_names encoding engine onnxfile options rejection"
    " report seal networkx onnx onnxruntime",
    "fixing": "job onnxfile rejection sizes staging value google onnx",
    "elsewhere": "onnxfile google onnx",
    "preparing": "checking contents contextmodel elsewhere fixing job misnamed onnxfile rejection"
    " report staging onnxruntime",
    "kinds": "value numpy",
    "verdict": "kinds value numpy",
    "wording": "verdict",
    "unrounded": "numpy onnx",
    "third": "checking cpu sources unrounded verdict value google numpy onnx onnxruntime",
    "traits": "kinds sources third unrounded onnx",
    "verifying": "checking cpu inputs job kinds onnxfile nnapi.runtime rejection running sizes"
    " traits value verdict numpy onnxruntime",
    "crew": "rejection",
    "worker": "crew customops job options preparing rejection verifying wording",
    "requirements": "",
    "manifest": "files rejection requirements",
    "publishing": "crew files job manifest rejection",
    "fleet": "crew files job manifest publishing rejection sources",
    "sources": "rejection value numpy onnx",
    "misnamed": "options rejection report sizes onnxruntime",
    "checking": "cpu customops misnamed options ort.names ort.session provider rejection report"
    " seal sources onnxruntime",
    "inputs": "rejection sizes sources value PIL numpy",
    "running": "checking contents cpu customops inputs kinds latency misnamed option_values"
    " options ort.names ort.session provider rejection report sources target third traits verdict"
    " nnapi.runtime value numpy onnxruntime",
    "probes": "costs dag graph qdq to_onnx value numpy",
    "calibrating": "calibration checking costs cpu options ort.names ort.session probes provider"
    " rates rejection running runtimes onnxruntime",
    "tables": "rejection rich",
    "report_printing": "rejection report tables",
    "latency": "",
    "printing": "calibration contents fleet latency manifest ops report report_printing running"
    " tables wording nnapi.runtime rich",
    "prepare_arguments": "fleet job rejection",
    "plain": "",
    "arguments": "job options rejection",
    "cli": "arguments calibrating checking contents ops options plain prepare_arguments printing"
    " rejection report_printing running runtimes staging tables nnapi.capi nnapi.listing",
    "__main__": "cli",
    "": "calibrating calibration checking fleet ops ort.session rejection report running runtimes"
    " target nnapi.capi",
    # NNAPI
    "nnapi.capi._build": "nnapi.capi.functions cffi setuptools",
    "nnapi.capi": NNAPI_WORLD,
    "nnapi.host": "files nnapi.codes nnapi.form nnapi.model nnapi.operand nnapi.runtime"
    " nnapi.scratch nnapi.shapes nnapi.signature nnapi.spec nnapi.validate rejection value numpy"
    " threadpoolctl",
    "nnapi.shapes": "nnapi.codes nnapi.signature nnapi.spec rejection value numpy",
    "nnapi": "value rejection numpy",
    # the other package
    "partitioner": "networkx",
}


def files() -> Iterator[Path]:
    for package in PACKAGES:
        yield from sorted((ROOT / package).rglob("*.py"))


def dotted(path: Path) -> str:
    """ep_nnapi/ops/node.py -> ep_nnapi.ops.node."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {dotted(path): path for path in files()}


def short(module: str) -> str:
    """The name in the table: ep_nnapi.x is x, all else is itself."""
    return module.removeprefix("ep_nnapi").removeprefix(".")


def imported(path: Path) -> set[str]:
    """Every module that a file imports, wherever in it, by its name in the table."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in MODULES else node.module)
        elif isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
    return {short(m) for m in found if m.split(".")[0] not in sys.stdlib_module_names}


def unit(module: str) -> str:
    """The longest name in the table that fits a module."""
    if module in ALLOWED:
        return module
    parts = module.split(".")
    for length in range(len(parts) - 1, 0, -1):
        package = ".".join(parts[:length])
        for name in (f"{package}.*", package):
            if name in ALLOWED:
                return name
    raise AssertionError(f"{module} is in no unit; add a row for it")


def within(module: str, name: str) -> bool:
    return module == name or module.startswith(f"{name}.")


def allowed(importer: str, module: str) -> bool:
    own = unit(importer)
    if not own.endswith(".*") and within(module, own) and own:
        return True
    return any(within(module, name) for name in ALLOWED[own].split())


@pytest.mark.parametrize("module", MODULES)
def test_imports_are_listed(module: str):
    importer = short(module)
    unlisted = {m for m in imported(MODULES[module]) if not allowed(importer, m)}
    assert not unlisted, f"{module} ({unit(importer) or 'ep_nnapi'} in ALLOWED) imports {unlisted}"


def test_rows_are_needed():
    """Every row is about a module that exists, every entry about something imported."""
    for name, entries in ALLOWED.items():
        importers = [m for m in MODULES if unit(short(m)) == name]
        assert importers, f"no module is in unit {name!r}"
        if name.startswith(("ops.", "nnapi")):
            continue  # these rows are rules, not descriptions
        used = {i for m in importers for i in imported(MODULES[m])}
        stale = {e for e in entries.split() if not any(within(m, e) for m in used)}
        assert not stale, f"unit {name!r} no longer imports {stale}"


def test_families_do_not_import_one_another():
    assert not allowed("ops.activation", "ops.elementwise")
    assert not allowed("ops.activation", "graph")
    assert allowed("ops.activation", "ops.node")


def test_nnapi_stays_apart():
    """No row of NNAPI reaches outside its world, whatever else the table says."""
    world = [*NNAPI_WORLD.split(), "cffi", "setuptools", "threadpoolctl"]
    for name, entries in ALLOWED.items():
        if within(name, "nnapi"):
            assert all(any(within(e, w) for w in world) for e in entries.split()), name


def loaded_by(statement: str) -> set[str]:
    """The top-level modules that a fresh process has after `statement`."""
    code = f"import sys\n{statement}\nprint(*sorted(sys.modules))"
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=120, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    return {name.split(".")[0] for name in done.stdout.split()}


@pytest.mark.parametrize(
    "statement",
    [
        "import ep_nnapi",
        "import ep_nnapi.nnapi",
        "import ep_nnapi.nnapi.host, ep_nnapi.nnapi.listing, ep_nnapi.nnapi.spec",
    ],
)
def test_nnapi_loads_neither_onnx_nor_onnxruntime(statement: str):
    assert not loaded_by(statement) & {"onnx", "onnxruntime", "networkx", "rich", "partitioner"}


def test_partitioner_loads_only_networkx():
    assert not loaded_by("import partitioner") & {"onnx", "onnxruntime", "rich", "ep_nnapi"}
