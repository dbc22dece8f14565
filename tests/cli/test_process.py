"""The command line as a process: pipes, terminals, interrupts and what stderr gets."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from tests.cli.command import DIGITS, DONE, INTERRUPTED, NEGATIVE, ROOT, SAMPLES, UNUSABLE, process
from tests.programs import ran


def test_module_and_script_are_the_same():
    script = Path(sys.executable).with_name("ep-nnapi")
    by_script = ran(script, "ops")
    assert by_script.stdout == process("ops").stdout


def test_a_pipe_gets_full_width_lines_without_colour():
    """Whatever the environment says of colours and columns."""
    done = process("check", DIGITS, FORCE_COLOR="1", COLUMNS="40", TERM="xterm-256color")
    assert done.returncode == DONE
    assert "\x1b" not in done.stdout
    assert "MatMul_10/MatMulAddFusion" in max(done.stdout.splitlines(), key=len)
    assert not re.search(r" $", done.stdout, re.M)


def test_the_same_bytes_every_time():
    first = process("run", DIGITS, "--input", SAMPLES, "--no-latency")
    assert first.stderr == ""
    assert process("run", DIGITS, "--input", SAMPLES, "--no-latency").stdout == first.stdout


@pytest.mark.parametrize("columns", [72, 100, 160])
def test_a_terminal_gets_lines_of_its_width(columns: int):
    """Wrapped, with no name cut."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    command = [sys.executable, "-m", "ep_nnapi", "check", DIGITS]
    env = {k: v for k, v in os.environ.items() if k != "COLUMNS"}
    with subprocess.Popen(command, cwd=ROOT, env=env, stdin=theirs, stdout=theirs) as started:
        os.close(theirs)
        output = b""
        try:
            while read := os.read(ours, 4096):
                output += read
        except OSError:  # how Linux says that the other end is closed
            os.close(ours)
    assert started.returncode == DONE
    lines = re.sub(r"\x1b\[[0-9;]*m", "", output.decode()).splitlines()
    assert lines[0] == "NNAPI takes 8 of 8 nodes in 1 cluster at feature level 8."
    assert max(len(line) for line in lines) <= columns
    words = "".join(line.rstrip().split("  ")[-1].strip() for line in lines[2:])
    assert "MatMul_10/MatMulAddFusion" in words


def test_a_closed_pipe_is_no_error():
    command = f"{sys.executable} -m ep_nnapi listing {DIGITS} | head -1"
    done = ran("bash", "-c", command, status=None)
    assert (done.stdout, done.stderr) == ("model\n", "")


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (f"check {DIGITS}", DONE),
        (f"check {DIGITS} --strict --exclude MaxPool", NEGATIVE),
        (f"check {DIGITS} --strict --exclude MaxPool --json", NEGATIVE),
        ("check nowhere.onnx", UNUSABLE),
    ],
)
def test_a_closed_pipe_keeps_the_exit_code(command: str, code: int):
    """As of `check --strict | head -1`: the reader is gone before anything is written."""
    reader, writer = os.pipe()
    os.close(reader)
    called = [sys.executable, "-m", "ep_nnapi", *command.split()]
    done = subprocess.run(
        called, check=False, stdout=writer, stderr=subprocess.PIPE, text=True, cwd=ROOT
    )
    os.close(writer)
    assert (done.returncode, done.stderr == "") == (code, code != UNUSABLE)


@pytest.mark.parametrize("verb", [["check", DIGITS], ["check", DIGITS, "--json"], ["devices"]])
def test_output_that_cannot_be_written_is_a_sentence(verb: list[str]):
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "ep_nnapi", *verb]
        done = subprocess.run(
            command, check=False, stdout=full, stderr=subprocess.PIPE, text=True, cwd=ROOT
        )
    said = "ep-nnapi: standard output: No space left on device\n"
    assert (done.returncode, done.stderr) == (UNUSABLE, said)


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_error(closed: str):
    command = f"{sys.executable} -m ep_nnapi check {DIGITS} {closed}"
    done = ran("bash", "-c", command, status=None)
    assert (done.returncode, done.stderr) == (DONE, "")


def test_a_disk_that_is_full_is_a_sentence(tmp_path: Path):
    """For a model that `fix` writes to try it, which is larger than a file may be."""
    command = f"ulimit -f 1; exec {sys.executable} -m ep_nnapi fix {DIGITS} -o {tmp_path}/m.onnx"
    done = ran("bash", "-c", command, status=UNUSABLE)
    assert re.fullmatch(r"ep-nnapi: .*File too large\n", done.stderr)


INTERRUPTING = """
import os, signal, sys
from ep_nnapi.__main__ import start

module = sys.argv.pop(1)

class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupts())
sys.exit(start())
"""


# numpy's extension module prints what is raised while it imports others
@pytest.mark.parametrize("module", ["argparse", "onnxruntime", "numpy.exceptions", "networkx"])
def test_an_interrupted_import_is_a_sentence(module: str):
    command = [sys.executable, "-c", INTERRUPTING, module, "check", DIGITS]
    done = ran(*command, status=None)
    assert (done.returncode, done.stdout) == (INTERRUPTED, "")
    assert done.stderr == "ep-nnapi: interrupted\n"


def test_an_interrupted_verb_is_a_sentence():
    code = """
import os, signal, sys
from ep_nnapi.cli import devices
from ep_nnapi.__main__ import start
devices.run = lambda _: os.kill(os.getpid(), signal.SIGINT)
sys.exit(start())
"""
    command = [sys.executable, "-c", code, "devices"]
    done = ran(*command, status=None)
    assert (done.returncode, done.stdout) == (INTERRUPTED, "")
    assert done.stderr == "ep-nnapi: interrupted\n"


def test_a_flag_that_is_ignored_is_warned_of_once():
    done = process("run", DIGITS, "--flags", "USE_NCHW|CPU_DISABLED", "--feature-level", "2")
    assert done.returncode == DONE
    assert done.stderr.count("\n") == 1
    assert "USE_NCHW|CPU_DISABLED needs feature level 3; ignored at 2" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["check", "nowhere.onnx"],
        ["check", DIGITS, "--flags", "12"],
        ["run", DIGITS, "--device", "x"],
    ],
)
def test_a_process_says_one_sentence(arguments: list[str]):
    done = process(*arguments)
    assert (done.returncode, done.stdout) == (UNUSABLE, "")
    assert re.fullmatch(r"ep-nnapi: .+\n", done.stderr)
