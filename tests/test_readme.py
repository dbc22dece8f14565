"""Everything that README.md and CONTRIBUTING.md say is run or looked up.

`python -m tests.test_readme` writes the tables of README.md and of docs/ from the code.
"""

import argparse
import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import textwrap
from functools import cache
from pathlib import Path

import pytest

from ep_nnapi.cli.main import _parser, main
from ep_nnapi.nnapi import spec
from ep_nnapi.operators import operations
from ep_nnapi.options.table import OPTIONS
from ep_nnapi.options.target import NnapiFlag
from tests import oracle
from tests.documents import blocks, commands, without_noise
from tests.preparation import tables as preparing

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
TABLES = {
    README: ("verbs",),
    ROOT / "docs" / "options.md": ("options", "flags"),
    ROOT / "docs" / "prepare.md": ("combinations", "levels"),
}
MAKEFILE = (ROOT / "Makefile").read_text()

FLAGS = {
    NnapiFlag.USE_FP16: "float32 may be computed as float16 (relaxed, from feature level 2)",
    NnapiFlag.USE_NCHW: "convolutions and pools keep the layout of the model",
    NnapiFlag.CPU_DISABLED: "no device of type CPU",
    NnapiFlag.CPU_ONLY: "the device `nnapi-reference` alone",
}


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(
        f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines
    )


def verbs() -> dict[str, str]:
    """Each verb of the command line with its help."""
    (actions,) = (a for a in _parser()._actions if isinstance(a, argparse._SubParsersAction))
    return {a.dest: a.help or "" for a in actions._choices_actions}


@cache
def tables() -> dict[str, str]:
    """Each table by its mark. Those of preparing take sessions: made when first wanted."""
    return {
        "verbs": table(("verb", "what it does"), [(f"`{v}`", text) for v, text in verbs().items()]),
        "combinations": table(
            ("format", "style", "levels", "also", "what is written"), preparing.combinations()
        ),
        "levels": table(
            ("saved at", "target", "nodes", "clusters", "on the CPU"), preparing.levels()
        ),
        "options": table(
            ("option", "value", "meaning"), [(f"`{o.name}`", o.metavar, o.help) for o in OPTIONS]
        ),
        "flags": table(
            ("flag", "value", "meaning"),
            [(f"`{f.name}`", str(int(f)), FLAGS[f]) for f in NnapiFlag],
        ),
    }


def filled(text: str) -> str:
    """The text with its tables as the code has them."""
    for name, lines in tables().items():
        text = re.sub(
            rf"(<!-- {name} -->\n).*?(<!-- end -->)",
            lambda found, lines=lines: f"{found[1]}\n{lines}\n\n{found[2]}",
            text,
            flags=re.S,
        )
    return text


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.name)
def test_tables_are_those_of_the_code(path: Path):
    """If this fails: python -m tests.test_readme."""
    assert path.read_text() == filled(path.read_text())
    for name in TABLES[path]:
        assert f"<!-- {name} -->" in path.read_text()


def test_it_is_read_in_two_minutes():
    assert len(README.read_text().splitlines()) <= 220
    assert {name for names in TABLES.values() for name in names} == tables().keys()


def test_it_opens_with_what_this_is_and_the_two_commands():
    text = README.read_text()
    opening, _, rest = text.partition("```sh\n")
    assert opening.startswith("# ep-nnapi\n")
    assert len(opening.splitlines()) < 15
    commands = [line.split("#")[0].strip() for line in rest.partition("```")[0].splitlines()]
    assert commands == ["make demo", "make test"]
    for command in commands:
        assert re.search(rf"^{command.split()[1]}:", MAKEFILE, re.M)


def test_each_kind_of_user_finds_a_path_on_the_first_screen():
    screen = README.read_text().partition("## ")[0]
    assert len(screen.splitlines()) < 30
    for document in ("phone", "pytorch", "c", "hosts"):
        assert f"(docs/{document}.md)" in screen
    assert "`--target builtin-nnapi`" in screen


def test_python_runs_as_it_stands(monkeypatch: pytest.MonkeyPatch):
    """One block after another in one namespace; what they print is in the blocks `output`."""
    monkeypatch.chdir(ROOT)
    space: dict[str, object] = {}
    printed = []
    for code in blocks(README, "python"):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(code, "README.md", "exec"), space)
        printed.append(out.getvalue())
    assert [p for p in printed if p] == blocks(README, "output")


@pytest.mark.parametrize(("command", "output"), commands(README))
def test_commands_print_what_is_shown(command: str, output: str):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command,
        shell=True,
        check=False,
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "PATH": path},
    )
    shown = done.stdout + (f"[exit {done.returncode}]\n" if done.returncode else "")
    assert without_noise(shown) == without_noise(output)


@pytest.mark.parametrize("path", [README, ROOT / "docs" / "prepare.md"], ids=lambda p: p.name)
def test_preparing_works_as_shown(path: Path, tmp_path, monkeypatch, capfd):
    """Every line of shell that calls us, with what it writes elsewhere."""
    monkeypatch.chdir(ROOT)
    lines = [line for block in blocks(path, "sh") for line in block.splitlines()]
    calls = [shlex.split(line, comments=True) for line in lines if line.startswith("ep-nnapi ")]
    assert calls
    for _, *arguments in calls:
        assert main([a.replace("build/", f"{tmp_path}/") for a in arguments]) == 0
    assert "prepared" in capfd.readouterr().out


@pytest.mark.parametrize(
    "path", [README, CONTRIBUTING, *(ROOT / "docs").glob("*.md")], ids=lambda p: p.name
)
def test_links_lead_somewhere(path: Path):
    text = re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.M | re.S)
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert (path.parent / target).exists(), target


def test_what_contributors_are_shown_runs():
    """The indented Python of CONTRIBUTING.md, and both examples are operators that it yields."""
    found = re.findall(r"^   ```python\n(.*?)^   ```$", CONTRIBUTING.read_text(), re.M | re.S)
    namespace: dict[str, object] = {}
    for code in found:
        exec(textwrap.dedent(code), namespace)
    case = oracle.node("Elu", oracle.f32(2, 3), alpha=0.5)
    assert oracle.emitted(case, oracle.FL[8]) == ["ELU"]
    assert operations(namespace["elu"]) == [(1, spec.ELU)]
    assert operations(namespace["FLOOR_OF_ONNX"]) == [(0, spec.FLOOR)]


def test_files_and_targets_named_to_contributors_exist():
    text = CONTRIBUTING.read_text()
    named = set(re.findall(r"`([\w/.-]+\.(?:py|md|toml)|\w+(?:/\w+)*/)`", text))
    assert named
    for name in named:
        assert (ROOT / name).exists(), name
    for target in re.findall(r"make ([\w-]+)", text):
        assert re.search(rf"^{target}:", MAKEFILE, re.M), target


if __name__ == "__main__":
    for path in TABLES:
        path.write_text(filled(path.read_text()))
