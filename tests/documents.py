"""Parts of Markdown documents that tests run."""

import re
from collections.abc import Mapping
from pathlib import Path


def blocks(path: Path, language: str) -> list[str]:
    """The fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", path.read_text(), re.M | re.S)


def commands(path: Path) -> list[tuple[str, str]]:
    """Each `$ command` of the console blocks with the lines up to the next."""
    found = []
    for block in blocks(path, "console"):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, _, output = part.partition("\n")
            found.append((command, output))
    return found


def calls(path: Path) -> list[str]:
    """The lines that call `ep-nnapi` in blocks of sh, or indented, whose output is not shown."""
    shell = "".join(blocks(path, "sh"))
    found = re.findall(r"^    (ep-nnapi .*)$", path.read_text(), re.M)
    return [line for line in shell.splitlines() if line.startswith("ep-nnapi ")] + found


def replaced(text: str, stand_ins: Mapping[str, object]) -> str:
    """The text with what is here in place of what a reader has."""
    for said, here in stand_ins.items():
        text = text.replace(said, str(here))
    return text


def without_noise(text: str) -> str:
    """Rounding errors depend on the processor's BLAS: only that they are small is promised.

    Times, and how many runs fit into half a second, depend on the machine.
    """
    text = re.sub(r"[\d.e+]+ ms", "TIME ms", text)
    text = re.sub(r"median of \d+ and \d+ runs", "median of so many runs", text)
    return re.sub(r"\d\.?\d*e-0[5-9] *", "SMALL ", text)
