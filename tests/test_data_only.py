"""The packages read data only: nothing that they import or call turns bytes into code."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BUILD = {"_build.py"}
"""Executed by setuptools on this source tree, and by nothing else."""
MODULES = [
    path
    for package in ("ep_nnapi", "partitioner")
    for path in sorted((ROOT / package).rglob("*.py"))
    if path.name not in BUILD
]
READERS = {
    *("pickle", "_pickle", "cPickle", "pickletools", "marshal", "shelve", "dbm", "copyreg"),
    *("dill", "cloudpickle", "joblib", "yaml", "multiprocessing", "xmlrpc", "runpy", "code"),
}
"""Modules that load objects or code, and those that load pickles on the way."""
FORKING = {"multiprocessing.get_context", "multiprocessing.connection.wait"}
"""What a server of workers needs, which forks them and waits for their ends: no file is read."""
ALLOWED = {"immutable.py": {"exec"}}
"""Made of numbers and kinds of fields, as the standard library makes its data classes."""
CALLS = {"eval", "exec", "compile", "__import__", "execfile"}


def unsafe(source: str) -> Iterator[str]:
    """Parts of a module's source that could execute data."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            given = {f"{node.module}.{alias.name}" for alias in node.names} - FORKING
            names = [node.module or "", *sorted(given)] if given else []
        else:
            names = []
        yield from (n for n in names if n.split(".")[0] in READERS or "ProcessPool" in n)
        if isinstance(node, ast.Call):
            called = node.func
            if isinstance(called, ast.Name) and called.id in CALLS:
                yield called.id
            if isinstance(called, ast.Attribute) and called.attr == "load" and _is_numpy(called):
                says = {k.arg: k.value for k in node.keywords}.get("allow_pickle")
                if not (isinstance(says, ast.Constant) and says.value is False):
                    yield "np.load without allow_pickle=False"


def _is_numpy(called: ast.Attribute) -> bool:
    return isinstance(called.value, ast.Name) and called.value.id in ("np", "numpy")


def test_no_module_turns_data_into_code() -> None:
    found = {path: {*unsafe(path.read_text())} - ALLOWED.get(path.name, set()) for path in MODULES}
    assert not {path: parts for path, parts in found.items() if parts}


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from marshal import loads",
        "import multiprocessing",
        "from multiprocessing import get_context, Manager",
        "from multiprocessing.connection import Client",
        "def f():\n    import shelve as s",
        "from concurrent.futures import ProcessPoolExecutor",
        "np.load(path)",
        "np.load(path, allow_pickle=True)",
        "eval(text)",
    ],
)
def test_what_would_is_seen(source: str) -> None:
    assert [*unsafe(source)]


def test_what_would_not_is_not_refused() -> None:
    source = "import re, json\nre.compile('x')\njson.load(f)\nnp.load(f, allow_pickle=False)"
    assert not [*unsafe("from multiprocessing import get_context")]
    assert not [*unsafe(source)]
