"""docs/capi.md names every function once, with what its implementation says of itself.

`python -m tests.capi.test_docs` writes the table anew.
"""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from ep_nnapi.nnapi.capi.device import DEVICES_VARIABLE, LEVEL_VARIABLE
from ep_nnapi.nnapi.capi.entry import LOG_VARIABLE, implementation
from ep_nnapi.nnapi.codes import ResultCode
from ep_nnapi.nnapi.functions import FUNCTIONS, Function, Parameter
from ep_nnapi.ort_devices.plugin import LIBRARIES_VARIABLE
from tests.capi.client import Library, is_handle, is_pointer, kind
from tests.capi.table import ROWS, Row
from tests.capi.world import World
from tests.cases import each

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs" / "capi.md"
HEAD = "| function | level | here |\n|---|---|---|\n"


def table() -> str:
    """A row for each function; what is always refused says so."""
    rows = []
    for function in FUNCTIONS:
        said = (implementation(function).__doc__ or "").splitlines()[0]
        rows.append(f"| `{function.c_name}` | {function.level} | {said} |\n")
    return HEAD + "".join(rows)


def split(text: str) -> tuple[str, str]:
    """The text before the table, and the table."""
    before, head, rows = text.partition(HEAD)
    return before, head + rows


def test_the_table_is_the_implementations() -> None:
    assert split(DOCS.read_text(encoding="utf-8"))[1] == table()


def test_what_is_refused_is_in_the_list_of_refusals() -> None:
    """Each function that always refuses has a row in "What a Linux host cannot do"."""
    before, rows = split(DOCS.read_text(encoding="utf-8"))
    refused = re.findall(r"\| `ANeuralNetworks(\w+)` \| \d \| Always", rows)
    words = {"Extension": "extensions", "HardwareBuffer": "AHardwareBuffer", "Fence": "sync fence"}
    listed = before.partition("## What a Linux host cannot do")[2]
    assert len(refused) == 9
    for name in refused:
        (word,) = (words[part] for part in words if part in name)
        assert word in listed


def test_every_environment_variable_is_named() -> None:
    source = (ROOT / "ep_nnapi" / "nnapi" / "interpreter.c").read_text()
    ours = {LOG_VARIABLE, LEVEL_VARIABLE, DEVICES_VARIABLE, LIBRARIES_VARIABLE}
    read = {*ours, *re.findall(r'getenv\("(\w+)"\)', source)}
    text = DOCS.read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(EP_NNAPI_\w+)` \|", text, re.MULTILINE)) == read


STATUS = [f for f in FUNCTIONS if f.returns == "int"]
KINDS = ("Model", "Compilation", "Execution", "Burst", "Event", "MemoryDesc", "Memory")


@each("row", ROWS)
def test_code(nn: Library, world: World, row: Row) -> None:
    given = row.arguments(world)
    assert ResultCode(getattr(nn, row.function)(*given)) is row.code


def test_every_function_that_returns_a_code_is_in_the_table() -> None:
    assert {row.function for row in ROWS} == {f.python_name for f in STATUS}


def fullest(function: Function) -> Row:
    """The row of `function` with the best code and the fewest nulls."""
    rows = [r for r in ROWS if r.function == function.python_name]
    return min(rows, key=lambda r: (r.code, "null" in r.state, "left out" in r.state))


def cases(wanted: Callable[[Function, Parameter], bool]) -> list[tuple[Function, int]]:
    """Parameters as (function, place)."""
    return [
        (function, place)
        for function in STATUS
        for place, parameter in enumerate(function.parameters)
        if wanted(function, parameter)
    ]


def must_not_be_null(function: Function, parameter: Parameter) -> bool:
    """An execution's types may be null (the model's own are meant), and an empty list."""
    optional = parameter.name == "type" and function.name.startswith("Execution")
    return is_pointer(parameter) and not optional and parameter.name != "dependencies"


def names_an_object(_: Function, parameter: Parameter) -> bool:
    return is_handle(parameter) and kind(parameter) != "AHardwareBuffer"


@each(("function", "place"), cases(must_not_be_null))
def test_null_is_unexpected(nn: Library, world: World, function: Function, place: int) -> None:
    given = list(fullest(function).arguments(world))
    given[place] = None
    assert getattr(nn, function.python_name)(*given) == ResultCode.UNEXPECTED_NULL


@each(("function", "place"), cases(names_an_object))
def test_a_handle_of_nothing_is_bad_data(nn: Library, world: World, function: Function, place: int):
    parameter = function.parameters[place]
    given = list(fullest(function).arguments(world))
    for wrong in (0xDEAD, 2**64 - 16, world.freed(kind(parameter)), world.other(kind(parameter))):
        given[place] = wrong
        assert getattr(nn, function.python_name)(*given) == ResultCode.BAD_DATA


@pytest.mark.parametrize("name", KINDS)
def test_freeing_twice_null_or_nothing_is_harmless(nn: Library, world: World, name: str) -> None:
    free = getattr(nn, f"{name}_free")
    for handle in (world.freed(name), None, 0xDEAD, 2**64 - 16, world.other(name)):
        free(handle)


if __name__ == "__main__":
    DOCS.write_text(split(DOCS.read_text(encoding="utf-8"))[0] + table(), encoding="utf-8")
