"""Each journey in docs/ is made as a reader makes it: in a fresh clone, after a plain install.

`python -m tests.test_journeys` makes all of them, or those of the documents that are named, and
writes what their commands print into the documents.
"""

import os
import re
import shutil
import sys
import sysconfig
import tempfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.documents import blocks, commands, without_noise
from tests.programs import ran

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
MARK = "==== exit code "
TORCH = "pytorch.md"
TOOLS = {"c.md": ("cc", "pkg-config", "cmake"), "hosts.md": ("cc", "g++")}
JOURNEYS = [
    pytest.param("phone.md", marks=pytest.mark.long),
    pytest.param("c.md", marks=pytest.mark.long),
    pytest.param("hosts.md", marks=pytest.mark.long),
    pytest.param(TORCH, marks=pytest.mark.torch),
]


def run(*command: object, **options: object) -> str:
    """Standard output of the command."""
    done = ran(*command, timeout=600, **options)
    return done.stdout


def environment(folder: Path) -> dict[str, str]:
    """The variables of a shell in which this virtual environment is active and no other."""
    ours = ("PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "VIRTUAL_ENV")
    kept = {name: value for name, value in os.environ.items() if name not in ours}
    return kept | {"PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"}


def installed(folder: Path, *, torch: bool) -> dict[str, str]:
    """A clone below `folder`, installed in an environment of its own; the variables to use it.

    PyTorch is that of the Python that runs the tests: its packages are on the path of the new one.
    """
    run("git", "clone", "--quiet", ROOT, folder / "clone")
    run(sys.executable, "-m", "venv", folder / "venv")
    python = folder / "venv" / "bin" / "python"
    variables = environment(folder / "venv")
    if torch:
        code = "import sysconfig; print(sysconfig.get_path('purelib'))"
        packages = Path(run(python, "-c", code, env=variables).strip())
        (packages / "torch.pth").write_text(sysconfig.get_path("purelib"))
    run(
        python,
        "-m",
        "pip",
        "install",
        "--quiet",
        ".[onnxruntime]",
        cwd=folder / "clone",
        env=variables,
    )
    return variables


def made(folder: Path, document: Path, *, torch: bool) -> list[str]:
    """Standard output of each command of the document, all of them in one shell."""
    variables = installed(folder, torch=torch)
    script = "".join(f"{command}\necho '{MARK}'$?\n" for command, _ in commands(document))
    said = run("bash", "-c", script, cwd=folder / "clone", env=variables)
    outputs = re.split(rf"^{MARK}(\d+)\n", said, flags=re.M)
    assert set(outputs[1::2]) == {"0"}, said
    return outputs[:-1:2]


def promised(text: str) -> str:
    """The text without what depends on the processor or on where the clone is."""
    text = re.sub(r"\S+ of its spread", "SMALL of its spread", without_noise(text))
    return re.sub(r"/\S*/clone/", "", text)


@pytest.mark.parametrize("name", JOURNEYS)
def test_commands_print_what_is_shown(tmp_path: Path, name: str):
    """If this fails with good reason: python -m tests.test_journeys NAME."""
    for tool in ("git", *TOOLS.get(name, ())):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    if not (ROOT / ".git").exists():
        pytest.skip("these sources are not a git work tree")
    if name == TORCH and find_spec("torch") is None:
        pytest.skip("PyTorch is not installed")
    shown = [output for _, output in commands(DOCS / name)]
    outputs = made(tmp_path, DOCS / name, torch=name == TORCH)
    assert [promised(o) for o in outputs] == [promised(s) for s in shown]


@pytest.mark.parametrize(
    ("name", "language", "file"),
    [("c.md", "cmake", "examples/CMakeLists.txt"), (TORCH, "python", "examples/torch_*.py")],
)
def test_what_is_shown_of_a_file_stands_there(name: str, language: str, file: str):
    shown = blocks(DOCS / name, language)
    assert shown
    written = [path.read_text() for path in ROOT.glob(file)]
    for block in shown:
        assert any(block in text for text in written)


def rewrite(name: str) -> None:
    """Writes what the commands of a document print into it."""
    path = DOCS / name
    with tempfile.TemporaryDirectory() as folder:
        outputs = made(Path(folder), path, torch=name == TORCH)
    text = path.read_text()
    for (command, old), new in zip(commands(path), outputs, strict=True):
        text = text.replace(
            f"$ {command}\n{old}", f"$ {command}\n{re.sub('/[^ ]*/clone/', '', new)}"
        )
    path.write_text(text)


if __name__ == "__main__":
    for document in sys.argv[1:] or [journey.values[0] for journey in JOURNEYS]:
        rewrite(document)
