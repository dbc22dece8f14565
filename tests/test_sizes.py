"""Files and functions stay as small as a reader takes in at once."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("ep_nnapi", "partitioner", "tests", "models", "bench")
OPERATORS = ROOT / "ep_nnapi" / "operators"
TABLES = [ROOT / name for name in ("ep_nnapi/nnapi/spec.py", "ep_nnapi/sizes/symbolic.py")]
TABLES.append(ROOT / "tests/capi/table.py")  # these are read by row

FILE_LINES = 450  # a file ends where its subject does; beyond this it has two
FUNCTION_LINES = 40  # with its signature, without its docstring
OPERATOR_LINES = 30  # of a function in operators/, after its docstring

FILES = {path: path.read_text() for f in FOLDERS for path in sorted((ROOT / f).rglob("*.py"))}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def too_long(text: str, *, operators: bool = False) -> Iterator[str]:
    """The functions of a file that are beyond the limits, with their lines."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, Function):
            signature, body = lines(node)
            if signature + body > FUNCTION_LINES or (operators and body > OPERATOR_LINES):
                yield f"{node.name}: {signature} + {body} lines"


def lines(function: Function) -> tuple[int, int]:
    """Those of the signature and those of the body; of a docstring none."""
    first = function.body[0]
    begin = first.end_lineno + 1 if ast.get_docstring(function) is not None else first.lineno
    return first.lineno - function.lineno, function.end_lineno - begin + 1


def written(statements: int, docstring: str) -> str:
    return "def f(\n    x\n):\n" + docstring + "    x()\n" * statements


@pytest.mark.parametrize("docstring", ["", '    """One line."""\n', '    """One\n\n    two."""\n'])
def test_what_counts(docstring: str):
    """A signature of three lines leaves 37 of 40; a docstring is free."""
    assert not list(too_long(written(37, docstring)))
    assert list(too_long(written(38, docstring))) == ["f: 3 + 38 lines"]
    assert not list(too_long(written(30, docstring), operators=True))
    assert list(too_long(written(31, docstring), operators=True)) == ["f: 3 + 31 lines"]


def test_files():
    counts = {path: len(text.splitlines()) for path, text in FILES.items() if path not in TABLES}
    found = [f"{path.relative_to(ROOT)}: {n}" for path, n in counts.items() if n > FILE_LINES]
    assert not found, f"more than {FILE_LINES} lines; divide by what belongs together: {found}"


def test_functions():
    found = [
        f"{path.relative_to(ROOT)}: {function}"
        for path, text in FILES.items()
        for function in too_long(text, operators=path.is_relative_to(OPERATORS))
    ]
    assert not found, f"over {FUNCTION_LINES} lines, or {OPERATOR_LINES} in operators/: {found}"
