"""Documents: their programs and commands print what they say, their numbers are the code's."""

import json
import os
import re
import shlex
import shutil
import sys
import tomllib
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import ep_nnapi
import partitioner
from ep_nnapi.cli.main import main
from ep_nnapi.diagnostics import advice
from ep_nnapi.html_report.boxes import LIMIT
from ep_nnapi.installed import OLDEST_ONNXRUNTIME
from ep_nnapi.nnapi.library.binding import NEEDED
from ep_nnapi.options.settings import LEVELS, read_settings
from ep_nnapi.ort.api import EP_NAME
from ep_nnapi.preparation.job import Level
from tests.bundling.phone import ABI, needs_abi, phone
from tests.documents import blocks, calls, commands, replaced, without_noise
from tests.native.build import needs_compiler
from tests.programs import ran
from tests.runtimes import host_only

ROOT = Path(__file__).parents[1]
DOCS = {path.stem: path for path in (ROOT / "docs").glob("*.md")}
TEXT = {name: path.read_text(encoding="utf-8") for name, path in DOCS.items()}
MOST = 1.5
"""Largest ratio of torch.compile's time to eager PyTorch's."""


def without_numbers(text: str) -> str:
    """Errors depend on the order of sums in the processor's BLAS, and so do widths of columns."""
    text = re.sub(r"\b\d+(\.\d+)?(e[+-]\d+)?\b", "N", text)
    return re.sub(r" +", " ", text)


def lines(text: str) -> list[str]:
    """The lines without the spaces that end a row of a table."""
    return [line.rstrip() for line in text.splitlines()]


COMMANDS = [
    pytest.param(command, output, promised, id=f"{name}: {command}")
    for name, promised in {
        "compare_and_tune": without_numbers,
        "report": lines,
        "runtimes": lines,
    }.items()
    for command, output in commands(DOCS[name])
]


@pytest.mark.fast_devices
@pytest.mark.parametrize(("command", "output", "promised"), COMMANDS)
def test_commands_print_what_the_document_says(
    command: str,
    output: str,
    promised: Callable[[str], object],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
):
    """And write the files that they name."""
    verb, *arguments = shlex.split(command)
    assert verb == "ep-nnapi"
    (tmp_path / "models").symlink_to(ROOT / "models")
    monkeypatch.chdir(tmp_path)
    code = main(arguments)
    out, err = capfd.readouterr()
    assert promised(out + err + (f"[exit {code}]\n" if code else "")) == promised(output)
    assert "-o" not in arguments or (tmp_path / arguments[-1]).is_file()


@pytest.mark.parametrize(
    "name", ["compare_and_tune", pytest.param("receipts", marks=host_only), "runtimes"]
)
def test_programs_print_what_the_document_says(name: str, tmp_path: Path):
    (tmp_path / "models").symlink_to(ROOT / "models")
    pairs = zip(blocks(DOCS[name], "python"), blocks(DOCS[name], "output"), strict=True)
    for program, output in pairs:
        command = (sys.executable, "-W", "ignore", "-c", program.replace("build/", ""))
        assert lines(ran(*command, cwd=tmp_path).stdout) == lines(output)
    if name == "receipts":
        found = json.loads((tmp_path / "receipt.json").read_text())
        keys = re.findall(r"^\| (`.*?) \|", TEXT[name], re.M)
        named = {key for row in keys for key in re.findall(r"`(\w+)`", row)}
        assert named == {*found, *found["clusters"][0], "alternative", "tried"}


def test_the_settings_file_is_one(tmp_path: Path):
    (text,) = blocks(DOCS["compare_and_tune"], "json")
    (tmp_path / "settings.json").write_text(text)
    assert read_settings(tmp_path / "settings.json").options["exclude"] == "Conv_1"


@pytest.mark.fast_devices
def test_tune_writes_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (block,) = blocks(DOCS["compare_and_tune"], "sh")
    verb, *arguments = shlex.split(block.replace("build/", f"{tmp_path}/"))
    assert verb == "ep-nnapi"
    monkeypatch.chdir(ROOT)
    assert main(arguments) == 0
    assert read_settings(tmp_path / "settings.json").level in LEVELS


def test_alternatives_to_nnapi(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    """The command prints what is shown, the table has its rows with their sources."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(advice, "is_installed", lambda: False)
    ((command, output),) = commands(DOCS["moving-on"])
    assert main(command.split()[1:]) == 0
    assert capsys.readouterr().out == output
    rows = [line for line in TEXT["moving-on"].splitlines() if line.startswith("| ")][2:]
    alternatives = advice.advise("models/digits.onnx")
    assert [row.split("|")[1].strip() for row in rows] == [each.name for each in alternatives]
    assert all(f"<{each.source}>" in row for each, row in zip(alternatives, rows, strict=True))


def test_what_the_map_names_is_there():
    """Each file of architecture.md's table of places, and the names in it."""
    table = TEXT["architecture"].partition("## Where things are\n")[2].partition("\n## ")[0]
    places = re.findall(r"`([\w/]+\.(?:py|c))`: ((?:`\w+`(?:, )?)+)", table)
    assert len(places) >= table.count(".py`") + table.count(".c`")
    for file, names in places:
        text = (ROOT / file).read_text()
        for name in re.findall(r"\w+", names):
            assert re.search(rf"\b{name}\b", text), (file, name)


def test_numbers_are_those_of_the_code():
    assert f"more than {LIMIT} nodes has parts" in TEXT["report"]
    assert 8 + len(Level) == 13
    assert "takes thirteen checks" in TEXT["report"]
    assert f"| 1 | 8.1 | {len(NEEDED[1])} functions: " in TEXT["runtimes"]


def printed(command: str) -> str:
    """What a command with variables prints on stdout."""
    arguments = command.split()
    settings = dict(a.split("=") for a in arguments if "=" in a)
    program = [sys.executable, "-W", "ignore", *arguments[len(settings) + 1 :]]
    return ran(*program, timeout=500, env={**os.environ, **settings}).stdout


@host_only
def test_the_networks_of_changing_sizes_agree():
    command, shown = commands(DOCS["sequences"])[0]
    assert without_noise(printed(command)) == without_noise(shown)


@pytest.mark.torch
@pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")
def test_a_compiled_decoder_generates_eager_pytorchs_tokens_as_fast():
    command, shown = commands(DOCS["sequences"])[1]
    found = printed(command)
    assert without_noise(found) == without_noise(shown)
    times = re.findall(r"([\d.e+]+) ms each, eager ([\d.e+]+) ms", found)
    assert len(times) == 2
    assert all(float(ours) <= MOST * float(eager) for ours, eager in times), found


def test_the_step_that_is_shown_stands_in_the_example():
    (shown,) = blocks(DOCS["sequences"], "python")
    assert shown in (ROOT / "examples" / "sequences.py").read_text()


def here(command: str) -> str:
    """The command without the NDK's toolchain and for this processor."""
    return re.sub(r"-DCMAKE_TOOLCHAIN_FILE=\S+ ", "", command).replace("arm64-v8a", ABI)


@pytest.mark.long
@needs_compiler
@needs_abi
def test_the_commands_for_android_run_a_model_on_a_phone(tmp_path: Path):
    """With this machine in place of the phone."""
    if shutil.which("cmake") is None:
        pytest.skip("cmake is not installed")
    text = "".join(map(here, blocks(DOCS["android"], "sh")))
    assert "push.sh" in text
    for name in ("models", "native", "pyproject.toml"):
        (tmp_path / name).symlink_to(ROOT / name)
    variables = phone(tmp_path).environment
    variables["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{variables['PATH']}"
    # the system's NNAPI library on the phone
    variables["LD_LIBRARY_PATH"] = str(Path(ep_nnapi.libneuralnetworks_path()).parent)
    done = ran("sh", "-e", "-c", text, timeout=600, cwd=tmp_path, env=variables)
    assert "nnapi-reference: CPU, version 1, feature level 8" in done.stdout
    assert "then 50 runs: median " in done.stdout
    assert np.load(tmp_path / "build" / "digits_bundle" / "outputs" / "scores.npy").argmax() == 0


def test_a_prepared_model_runs_in_python_by_the_plugin_in_c(tmp_path: Path):
    prepare, program = calls(DOCS["android"])[0], "".join(blocks(DOCS["android"], "python"))
    (tmp_path / "models").symlink_to(ROOT / "models")
    ran(sys.executable, "-m", "ep_nnapi", *prepare.split()[1:], cwd=tmp_path)
    program += """
import numpy
digit = numpy.load("models/digits/samples.npz")["images"][:1]
print(session.get_providers()[0], session.run(None, {"image": digit})[0].argmax())
"""
    done = ran(sys.executable, "-c", program, cwd=tmp_path)
    assert done.stdout == "NnapiContextExecutionProvider 0\n"


def test_the_library_is_opened_from_python():
    (program,) = blocks(DOCS["capi"], "python")
    program += "print(nnapi.ANeuralNetworks_getRuntimeFeatureLevel() % 10)"
    assert ran(sys.executable, "-c", program).stdout == "8\n"


@needs_compiler
def test_a_c_program_is_built_as_shown(tmp_path: Path):
    (command,) = blocks(DOCS["capi"], "sh")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ran("sh", "-e", "-c", command, cwd=tmp_path, env=os.environ | {"PATH": path})
    assert ran(tmp_path / "exclusive_or").stdout


STAND_INS = {
    "model.onnx": "digits.onnx",
    "espcn.onnx": "digits.onnx",
    "--runtime system --device NAME": "--runtime host --device nnapi-reference",
    "--runtime adb": "--runtime host --device nnapi-reference --operation ADD",
}
"""What a reader has, and what is here in its place: devices of the host for those of a phone."""


@pytest.mark.long
@pytest.mark.parametrize(("name", "files"), [("partitioning", 1), ("phone", 1)])
def test_commands_without_output_do_what_they_say(
    name: str, files: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """They end with 0, and write files. Those of agent.md are in tests/remote/test_adb.py."""
    (tmp_path / "digits.onnx").symlink_to(ROOT / "models" / "digits.onnx")
    monkeypatch.chdir(tmp_path)
    for command in replaced("\n".join(calls(DOCS[name])), STAND_INS).splitlines():
        assert main(shlex.split(command)[1:]) == 0
    assert len([*tmp_path.glob("*.json")]) == files


NOT_RUN = {
    ("hosts", "csharp"): "needs .NET",
    ("hosts", "rust"): "needs Rust",
    ("hosts", "sh"): "needs Polygraphy; tests/end_to_end/test_polygraphy.py makes the same calls",
    ("partitioner", "mermaid"): "a picture",
    ("phone", "c"): "two lines of an application of Android's",
    ("phone", "kotlin"): "two lines of an application of Android's",
    ("prepare", "text"): "a list of files",
    ("runtimes", "sh"): "needs a provider's library; tests/ort_devices/test_plugin.py has others",
}
"""Blocks of documents that no test runs, and why."""


def test_what_no_test_runs_has_a_reason():
    """Each block is of a language that tests run, or is known here."""
    found = {
        (name, language)
        for name, text in TEXT.items()
        for language in re.findall(r"^```(\w+)$", text, re.M)
    }
    assert NOT_RUN.keys() <= found
    run = ("python", "sh", "console", "output", "json", "cmake")
    assert {pair for pair in found if pair[1] not in run} <= NOT_RUN.keys()


def test_every_option_of_the_plugin_is_in_the_table():
    options = (ROOT / "native" / "options.c").read_text()
    known = re.search(r'option \'%\.\d+s\' is unknown; there are ([^"]*)"\s*"?([^"]*)', options)
    assert known
    for name in re.findall(r"\w+", "".join(known.groups()).replace(" and ", " ")):
        assert re.search(rf"^\|.*`{name}`.* \|", TEXT["android"], re.M), name


def test_names_that_are_promised():
    for name in ("ep_nnapi.__all__", "ep_nnapi.torch.__all__", "partitioner.__all__"):
        assert f"`{name}`" in TEXT["stability"]
    for module in (ep_nnapi, partitioner):
        assert all(hasattr(module, name) for name in module.__all__)
    assert EP_NAME in (ROOT / "README.md").read_text()


def test_oldest_versions():
    rows = re.findall(r"^\| (.*?) \| (.*) \|$", TEXT["stability"], re.M)
    oldest = {what: cells.split(" | ")[0] for what, cells in rows}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == f">={oldest['CPython']}"
    assert oldest["ONNX Runtime"].startswith(".".join(map(str, OLDEST_ONNXRUNTIME)))
    wheels = (ROOT / "release" / "wheels.py").read_text()
    assert f'GLIBC = "{oldest["glibc"].split()[0]}"' in wheels
