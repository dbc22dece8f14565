"""Who may import whom. A module may import from its own row's unit and from what the row lists.

A new edge is a decision about the design: it is made here first.
"""

import ast
import functools
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import networkx as nx
import pytest

import ep_nnapi
from tests.programs import ran

ROOT = Path(__file__).parents[1]
ARCHITECTURE = ROOT / "docs" / "architecture.md"
PACKAGES = ("ep_nnapi", "partitioner")

# Unit -> what it may import. A unit is a module or a package with all below it, by the longest name
# that fits; `x.*` makes each module of a package a unit, so that they do not import one another.
ALLOWED = {
    # the ground floor
    "nnapi": "numpy threadpoolctl",
    "partitioner": "networkx",
    # the root
    "errors": "nnapi",
    "collection": "",
    "installed": "nnapi onnxruntime",
    "workers": "nnapi",
    "options": "nnapi",
    "native": "nnapi",
    # devices
    "sessions": "nnapi numpy onnx onnxruntime",
    "ort_devices": "nnapi sessions numpy onnx onnxruntime",
    "litert": "native nnapi ort_devices numpy",
    # a graph and what is known of it
    "graph": "errors nnapi google networkx numpy onnx onnxruntime",
    "quantization": "graph nnapi operators numpy",
    "sizes": "errors graph nnapi quantization numpy onnx",
    # one node; families do not import one another, only what they share
    "operators.*": "graph lowering nnapi operators.lib numpy",
    "operators.lib": "graph lowering nnapi options numpy",
    "operators": "nnapi operators",
    "capability": "epcontext errors graph lowering nnapi operators options quantization sizes"
    " numpy",
    # one cluster
    "lowering": "graph nnapi options networkx numpy",
    "epcontext": "graph lowering native nnapi numpy onnx",
    "remote": "epcontext lowering nnapi numpy",
    "costs": "graph nnapi operators options partitioner",
    "report": "errors graph nnapi onnx",
    # one session
    "provider": "capability costs epcontext errors graph litert lowering native nnapi options"
    " ort_devices remote report sessions sizes networkx numpy onnx onnxruntime partitioner",
    "ort": "collection epcontext graph installed lowering nnapi options provider report"
    " sessions numpy onnxruntime",
    # what a user calls
    "diagnostics": "costs epcontext errors graph litert lowering nnapi options ort provider"
    " quantization report sessions sizes workers PIL google numpy onnx onnxruntime",
    "preparation": "diagnostics epcontext graph installed litert lowering nnapi options"
    " ort_devices provider report sessions workers google networkx numpy onnx onnxruntime",
    "bundling": "diagnostics epcontext graph nnapi options remote numpy onnx",
    "tuning": "diagnostics nnapi options ort preparation provider report sessions onnxruntime",
    "rewriting": "diagnostics errors graph nnapi operators.lib options preparation report sessions"
    " numpy onnx",
    "html_report": "diagnostics errors nnapi options preparation report networkx",
    "cli": "bundling costs diagnostics errors html_report installed nnapi operators options"
    " preparation provider remote report rewriting tuning argcomplete rich",
    "torch": "diagnostics errors graph installed nnapi options preparation provider report"
    " sessions torch",
    "__main__": "cli",
    "": "bundling collection costs diagnostics errors html_report installed nnapi operators options"
    " ort preparation provider report rewriting tuning",
    # _build and _embedding of any package, executed by setuptools
    "*._build": "nnapi cffi setuptools",
}


def files() -> Iterator[Path]:
    for package in PACKAGES:
        yield from sorted((ROOT / package).rglob("*.py"))


def dotted(path: Path) -> str:
    """ep_nnapi/operators/lib/node.py -> ep_nnapi.operators.lib.node."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {dotted(path): path for path in files()}


def short(module: str) -> str:
    """The name in the table: ep_nnapi.x is x, all else is itself."""
    return module.removeprefix("ep_nnapi").removeprefix(".")


@functools.cache
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
    if module.endswith(("._build", "._embedding")):
        return "*._build"
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


def test_imports_are_listed():
    """An unlisted import is shown with its module and the row of ALLOWED that is about it."""
    edges = [(short(name), m) for name, path in MODULES.items() for m in imported(path)]
    assert not [(importer, unit(importer), m) for importer, m in edges if not allowed(importer, m)]


def test_rows_are_needed():
    """Every row is about a module that exists, every entry about something imported."""
    for name, entries in ALLOWED.items():
        importers = [m for m in MODULES if unit(short(m)) == name]
        assert importers, f"no module is in unit {name!r}"
        if name.startswith("operators."):
            continue  # these rows are rules, not descriptions
        used = {i for m in importers for i in imported(MODULES[m])}
        stale = {e for e in entries.split() if not any(within(m, e) for m in used)}
        assert not stale, f"unit {name!r} no longer imports {stale}"


def test_packages_import_one_another_one_way():
    """The packages and the files of the root have an order from top to bottom."""
    edges = nx.DiGraph()
    for module, path in MODULES.items():
        importer = short(module).partition(".")[0]
        imports = {m.partition(".")[0] for m in imported(path) if f"ep_nnapi.{m}" in MODULES}
        # the package itself says where its public names are
        edges.add_edges_from((importer, m) for m in imports if importer and m not in (importer, ""))
    assert nx.is_directed_acyclic_graph(edges), nx.find_cycle(edges)


def test_a_modules_first_line_says_what_it_is():
    docs = {m: ast.get_docstring(ast.parse(p.read_text())) or "" for m, p in MODULES.items()}
    questions = {"What", "Whether", "How", "Where", "Which", "Why"}
    assert not [module for module, doc in docs.items() if doc.split(" ")[0] in questions]


def test_families_do_not_import_one_another():
    assert not allowed("operators.activation", "operators.elementwise")
    assert allowed("operators.activation", "operators.lib.node")


STAND_ALONE = """
import importlib, pkgutil, sys, types
package = types.ModuleType("ep_nnapi")
package.__path__ = [sys.argv[1]]
sys.modules["ep_nnapi"] = package
import ep_nnapi.nnapi
for found in pkgutil.walk_packages(ep_nnapi.nnapi.__path__, "ep_nnapi.nnapi."):
    last = found.name.split(".")[-1]
    if not last.startswith(("_build", "_embedding", "__main__", "libn", "libo")):
        importlib.import_module(found.name)
print(*(n for n in sys.modules if n.startswith("ep_nnapi.") and not n.startswith("ep_nnapi.nnapi")))
"""


def test_nnapi_stands_alone(tmp_path: Path):
    """All its modules can be imported where nothing else of ep_nnapi is."""
    (tmp_path / "nnapi").symlink_to(ROOT / "ep_nnapi" / "nnapi")
    command = [sys.executable, "-c", STAND_ALONE, str(tmp_path)]
    done = ran(*command, status=None, timeout=120)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr


def documented() -> str:
    """The table of the packages, as docs/architecture.md has it."""
    lines = ["| package | what it holds | may import |", "| --- | --- | --- |"]
    for name, entries in ALLOWED.items():
        path = MODULES.get(f"ep_nnapi.{name}") or MODULES.get(name)
        if not name or path is None or name.startswith("_"):
            continue
        first = (ast.get_docstring(ast.parse(path.read_text())) or "").partition("\n")[0]
        what = first.replace("|", "\\|")
        lines.append(f"| `{name}` | {what} | {', '.join(f'`{e}`' for e in entries.split())} |")
    return "\n".join(lines)


def with_table(text: str) -> str:
    """The document with the table as it is now."""
    before, _, rest = text.partition("<!-- imports -->\n")
    after = rest.partition("<!-- end -->")[2]
    return f"{before}<!-- imports -->\n\n{documented()}\n\n<!-- end -->{after}"


def test_the_architecture_document_has_the_table():
    """`python -m tests.test_imports` writes it."""
    assert ARCHITECTURE.read_text() == with_table(ARCHITECTURE.read_text())


def test_files_named_in_the_architecture_document_exist():
    named = re.findall(r"\b((?:[a-z_]+/)+[a-z_]+)\b(?![-./])", ARCHITECTURE.read_text())
    places = [ROOT, ROOT / "ep_nnapi"]
    missing = {
        n for n in named if not any((p / n).exists() or (p / f"{n}.py").exists() for p in places)
    }
    assert not missing


def loaded_by(statement: str) -> set[str]:
    """The modules that a fresh process has after `statement`."""
    code = f"import sys\n{statement}\nprint(*sorted(sys.modules))"
    command = [sys.executable, "-c", code]
    done = ran(*command, timeout=120)
    return set(done.stdout.splitlines()[-1].split())


def _command(flag: str) -> str:
    return f"from ep_nnapi.cli.main import main\ntry: main([{flag!r}])\nexcept SystemExit: pass"


@pytest.mark.parametrize(
    "statement",
    [
        "import ep_nnapi.nnapi",
        "import ep_nnapi.nnapi.host, ep_nnapi.nnapi.listing, ep_nnapi.nnapi.spec",
    ],
)
def test_nnapi_loads_neither_onnx_nor_onnxruntime(statement: str):
    assert not loaded_by(statement) & {"onnx", "onnxruntime", "networkx", "rich", "partitioner"}


_SESSION = (
    "import onnxruntime, ep_nnapi; options = onnxruntime.SessionOptions();"
    "ep_nnapi.append_execution_provider(options);"
    "onnxruntime.InferenceSession('models/digits.onnx', options)"
)
_SLOW = {"numpy", "onnx", "onnxruntime", "networkx", "rich", "importlib.metadata", "difflib"}


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import ep_nnapi", {*_SLOW, "ep_nnapi.errors", "ep_nnapi.nnapi.errors"}),
        (_command("--help"), _SLOW),
        (_command("--version"), _SLOW - {"importlib.metadata"}),
        (
            "import ep_nnapi; ep_nnapi.register()",
            {"onnx", "networkx", "ep_nnapi.provider.provider"},
        ),
        (
            _SESSION.rpartition(";")[0],  # the options are checked without a planner
            {"onnx", "ep_nnapi.provider.planner", "ep_nnapi.operators"},
        ),
        (
            _SESSION,  # what a session on host-cpu neither lists nor runs
            {
                "rich",
                "ep_nnapi.diagnostics",
                "ep_nnapi.epcontext.container",
                "ep_nnapi.nnapi.host.kernels.table",
                "ep_nnapi.nnapi.library",
                "ep_nnapi.nnapi.profile",
            },
        ),
    ],
    ids=["import", "--help", "--version", "register", "append", "session"],
)
def test_what_is_not_needed_is_not_imported(statement: str, absent: set[str]):
    assert not loaded_by(statement) & absent


def test_the_package_knows_its_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert ep_nnapi.__version__ == project["version"]


def test_partitioner_loads_only_networkx():
    assert not loaded_by("import partitioner") & {"onnx", "onnxruntime", "rich", "ep_nnapi"}


if __name__ == "__main__":
    ARCHITECTURE.write_text(with_table(ARCHITECTURE.read_text()))
