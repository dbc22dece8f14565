"""docs/capi.md names every function once, with what its implementation says of itself.

`python -m tests.capi.test_docs` writes the table anew.
"""

import re
from pathlib import Path

from ep_nnapi.nnapi.capi.device import DEVICES_VARIABLE, LEVEL_VARIABLE
from ep_nnapi.nnapi.capi.entry import LOG_VARIABLE, implementation
from ep_nnapi.nnapi.functions import FUNCTIONS
from ep_nnapi.ort_devices.plugin import LIBRARIES_VARIABLE

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


if __name__ == "__main__":
    DOCS.write_text(split(DOCS.read_text(encoding="utf-8"))[0] + table(), encoding="utf-8")
