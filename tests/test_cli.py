"""The command line: what goes to stdout and stderr, and the exit codes."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import ep_nnapi
from ep_nnapi import runtimes
from ep_nnapi.cli import main
from ep_nnapi.ops import OPS
from ep_nnapi.options import OPTIONS
from ep_nnapi.rejection import RuntimeFailure
from tests.faulty import FaultyDevice, installed

ROOT = Path(__file__).parents[1]
DIGITS = str(ROOT / "models" / "digits.onnx")
SAMPLES = str(ROOT / "models" / "digits" / "samples.npz")
DONE, NEGATIVE, UNUSABLE, FAILED, INTERRUPTED = 0, 1, 2, 3, 130


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str]):
    """Runs the command line here; what it returned and printed, ONNX Runtime's C++ included."""

    def run(*arguments: object) -> tuple[int, str, str]:
        capfd.readouterr()
        code = main([str(a) for a in arguments])
        captured = capfd.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def refuses(cli):
    """The arguments are refused: exit 2, nothing on stdout, one sentence on stderr."""

    def check(*arguments: object, says: str) -> None:
        code, out, err = cli(*arguments)
        assert (code, out) == (UNUSABLE, "")
        assert err.startswith("ep-nnapi: ")
        assert err.count("\n") == 1
        assert says in err
        assert "Traceback" not in err

    return check


def process(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ep_nnapi", *arguments]
    env = {**os.environ, **environment}
    return subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=120, cwd=ROOT, env=env
    )


def saved(folder: Path, *nodes: onnx.NodeProto, shape: tuple[int, ...] = (2, 3)) -> Path:
    """A model of nodes from x to y."""
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in "xy"]
    graph = helper.make_graph(list(nodes), "g", ends[:1], ends[1:])
    path = folder / "model.onnx"
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=8), path
    )
    return path


# check ---------------------------------------------------------------------------------------


def test_check_prints_clusters(cli):
    code, out, err = cli("check", DIGITS)
    assert (code, err) == (DONE, "")
    assert out.startswith("NNAPI takes 8 of 8 nodes in 1 cluster at feature level 8.\n")
    assert "nnapi-reference" in out
    assert "Conv_1, Relu_3, MaxPool_4" in out


def test_check_json_is_the_report(cli):
    code, out, err = cli("check", DIGITS, "--json", "--feature-level", 3)
    assert (code, err) == (DONE, "")
    assert json.loads(out) == ep_nnapi.check(DIGITS, feature_level=3).to_json()


def test_check_says_why_a_node_is_left(cli, tmp_path: Path):
    path = saved(
        tmp_path,
        helper.make_node("Relu", ["x"], ["a"], "taken"),
        helper.make_node("RandomNormalLike", ["a"], ["y"], "left"),
    )
    code, out, _ = cli("check", path)
    assert code == DONE
    assert "NNAPI takes 1 of 2 nodes" in out
    assert "Left to the CPU: 1 node\n" in out
    assert re.search(r"OP \(1\): .+\n.*\nRandomNormalLike +left +RandomNormalLike: .+", out)


def test_strict_is_exit_1_unless_every_node_is_taken(cli):
    assert cli("check", DIGITS, "--strict")[0] == DONE
    code, out, err = cli("check", DIGITS, "--strict", "--exclude", "MaxPool")
    assert (code, err) == (NEGATIVE, "")
    assert "NNAPI takes 6 of 8 nodes in 3 clusters" in out


def test_every_option_is_a_flag(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as stopped:
        main(["check", "--help"])
    assert stopped.value.code == 0
    printed = capsys.readouterr().out
    for option in OPTIONS:
        assert f"--{option.name.replace('_', '-')}" in printed


# run -----------------------------------------------------------------------------------------


def test_run_reads_the_digits(cli):
    code, out, err = cli("run", DIGITS, "--input", SAMPLES)
    assert (code, err) == (DONE, "")
    rows = dict(re.findall(r"^(recognised|labels) +([\d ]+)$", out, re.M))
    labels = np.load(SAMPLES)["labels"]
    assert [int(n) for n in rows["labels"].split()] == labels.tolist()
    right = sum(a == b for a, b in zip(*(r.split() for r in rows.values()), strict=True))
    assert f"{right} of 20 right" in out
    assert right >= 19
    assert "within the tolerance of 0.0001" in out


@pytest.mark.parametrize("digit", [0, 3, 7])
def test_run_takes_images(cli, digit: int):
    code, out, _ = cli("run", DIGITS, "--input", ROOT / "models" / "digits" / f"{digit}.png")
    assert code == DONE
    assert "within the tolerance" in out


def test_run_json(cli):
    code, out, err = cli("run", DIGITS, "--input", SAMPLES, "--json")
    assert (code, err) == (DONE, "")
    data = json.loads(out)
    assert data["report"] == ep_nnapi.check(DIGITS).to_json()
    assert len(data["recognised"]) == len(data["labels"]) == 20
    (difference,) = data["differences"]
    assert difference["output"] == "scores"
    assert difference["absolute"] <= 1e-5 * max(1, difference["largest"])


def test_random_inputs_are_the_same_for_a_seed(cli):
    first, again, other = (
        cli("run", DIGITS, "--random", "--json", "--seed", seed) for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


def test_run_beyond_the_tolerance_is_exit_1(cli):
    code, out, err = cli("run", DIGITS, "--tolerance", "1e-12")
    assert (code, err) == (NEGATIVE, "")
    assert "beyond the tolerance of 1e-12" in out


def test_run_whose_device_fails_is_exit_3(cli):
    with installed(FaultyDevice(fails_at=frozenset({-1}))):
        code, out, err = cli("run", DIGITS, "--fallback", "none")
    assert (code, out) == (FAILED, "")
    assert err.startswith("ep-nnapi: ANeuralNetworksExecution_compute returned ")
    assert err.count("\n") == 1


def test_a_runtime_that_cannot_be_used_is_exit_3(cli, monkeypatch: pytest.MonkeyPatch):
    def broken():
        raise RuntimeFailure("ANeuralNetworks_getDeviceCount", "ANEURALNETWORKS_DEAD_OBJECT")

    monkeypatch.setitem(runtimes.OPENERS, "host", broken)
    code, out, err = cli("devices")
    assert (code, out) == (FAILED, "")
    assert "ANeuralNetworks_getDeviceCount returned ANEURALNETWORKS_DEAD_OBJECT" in err


# the other verbs -----------------------------------------------------------------------------


def test_listing_is_a_model_of_each_cluster(cli):
    code, out, err = cli("listing", DIGITS, "--exclude", "MaxPool")
    assert (code, err) == (DONE, "")
    assert len(re.findall("^model", out, re.M)) == 3
    assert out.count("CONV_2D(") == 2


def test_listing_of_nothing_is_exit_1(cli):
    excluded = "Conv,Relu,MaxPool,Reshape,Gemm"
    code, out, err = cli("listing", DIGITS, "--exclude", excluded)
    assert (code, out) == (NEGATIVE, "")
    assert "takes no node" in err


def test_ops(cli):
    code, out, _ = cli("ops")
    assert code == DONE
    for op in OPS:
        assert re.search(rf"^({op.domain}:)?{op.op_type} +{op.since}\+", out, re.M), op.op_type
    rows = json.loads(cli("ops", "--json")[1])
    assert {(r["op_type"], r["since"]) for r in rows} == {(o.op_type, o.since) for o in OPS}
    assert all(1 <= r["level"] <= 8 and r["operations"] and r["summary"] for r in rows)


def test_devices(cli):
    code, out, _ = cli("devices")
    assert code == DONE
    assert re.search(r"^nnapi-reference +CPU", out, re.M)
    devices = json.loads(cli("devices", "--json")[1])
    assert "nnapi-reference" in [d["name"] for d in devices]
    assert all(1 <= d["feature_level"] <= 8 for d in devices)


# what cannot be used -------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["check", "run", "listing"])
def test_missing_file(refuses, verb: str):
    refuses(verb, "nowhere.onnx", says="nowhere.onnx: no such file")


@pytest.mark.parametrize("verb", ["check", "run", "listing"])
def test_folder_instead_of_a_file(refuses, verb: str, tmp_path: Path):
    refuses(verb, tmp_path, says=str(tmp_path))


def test_empty_file(refuses, tmp_path: Path):
    (tmp_path / "empty.onnx").touch()
    refuses("check", tmp_path / "empty.onnx", says="empty")


@pytest.mark.parametrize("kept", [1, 100, 5000, -1])
@pytest.mark.parametrize("verb", ["check", "run"])
def test_truncated_model(refuses, verb: str, kept: int, tmp_path: Path):
    content = Path(DIGITS).read_bytes()
    cut = tmp_path / "cut.onnx"
    cut.write_bytes(content[:kept])
    refuses(verb, cut, says="cut.onnx: ONNX Runtime cannot load it")


@pytest.mark.parametrize("name", ["text.onnx", "text.ort"])
def test_no_model_at_all(refuses, name: str, tmp_path: Path):
    (tmp_path / name).write_text("this is no model")
    refuses("check", tmp_path / name, says=f"{name}: ONNX Runtime cannot load it")


def test_unknown_operator(refuses, tmp_path: Path):
    path = saved(tmp_path, helper.make_node("Nonsense", ["x"], ["y"], "n"))
    refuses("check", path, says="Nonsense")


def test_missing_external_weights(refuses, tmp_path: Path):
    model = onnx.load(DIGITS)
    onnx.save(
        model,
        tmp_path / "m.onnx",
        save_as_external_data=True,
        location="weights.bin",
        size_threshold=0,
    )
    (tmp_path / "weights.bin").unlink()
    refuses("check", tmp_path / "m.onnx", says="external tensors")


@pytest.mark.parametrize("shape", [(1, 1, 9, 8), (1, 8, 8), (64,), ()])
def test_wrong_shaped_input(refuses, shape: tuple[int, ...], tmp_path: Path):
    np.save(tmp_path / "x.npy", np.zeros(shape, np.float32))
    says = f"input image has shape {list(shape)}; the model takes [1, 1, 8, 8]"
    refuses("run", DIGITS, "--input", tmp_path / "x.npy", says=says)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--flags", "USE_FP32"], "flag 'USE_FP32' is unknown"),
        (["--flags", "16"], "flags is 16"),
        (["--flags", "12"], "CPU_DISABLED and CPU_ONLY exclude each other"),
        (["--flags", "CPU_DISABLED|CPU_ONLY"], "CPU_DISABLED and CPU_ONLY exclude each other"),
        (["--flags", "CPU_DISABLED"], "flag CPU_DISABLED leaves no device"),
        (["--feature-level", "0"], "feature_level is 0; it must be 1 to 8"),
        (["--feature-level", "9"], "feature_level is 9; it must be 1 to 8"),
        (["--feature-level", "four"], "feature_level is 'four'"),
        (["--api-level", "26"], "api_level is 26"),
        (["--api-level", "32"], "feature_level"),
        (["--api-level", "30", "--feature-level", "4"], "both given"),
        (["--device", "npu"], "device 'npu' is unknown; there are nnapi-reference"),
        (["--runtime", "/nowhere/libneuralnetworks.so"], "/nowhere/libneuralnetworks.so"),
        (["--target", "coreml"], "target is 'coreml'"),
        (["--fallback", "gpu"], "fallback is 'gpu'"),
        (["--colour", "red"], "--colour"),
        (["--flags"], "--flags"),
        (["another.onnx"], "another.onnx"),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("verb", ["check", "run", "listing"])
def test_options_that_cannot_be(refuses, verb: str, arguments: list[str], says: str):
    refuses(verb, DIGITS, *arguments, says=says)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "VERB"),
        (["chekc"], "chekc"),
        (["check"], "model"),
        (["run", DIGITS, "--random", "--input", SAMPLES], "--random and --input"),
        (["run", DIGITS, "--seed", "x"], "--seed"),
        (["run", DIGITS, "--tolerance", "x"], "--tolerance"),
        (["run", DIGITS, "--input", "nowhere.npy"], "nowhere.npy: no such input file"),
        (["run", DIGITS, "--input", __file__], "not a .npy, .npz or image file"),
        (["devices", "all"], "all"),
    ],
    ids=lambda a: " ".join(Path(x).name for x in a) if isinstance(a, list) else "",
)
def test_arguments_that_cannot_be(refuses, arguments: list[str], says: str):
    refuses(*arguments, says=says)


# as a process --------------------------------------------------------------------------------


def test_module_and_script_are_the_same():
    script = Path(sys.executable).with_name("ep-nnapi")
    by_script = subprocess.run([script, "ops"], check=True, capture_output=True, text=True)
    assert by_script.stdout == process("ops").stdout


def test_a_pipe_gets_full_width_lines_without_colour():
    """Whatever the environment says of colours and columns."""
    done = process("check", DIGITS, FORCE_COLOR="1", COLUMNS="40", TERM="xterm-256color")
    assert done.returncode == DONE
    assert "\x1b" not in done.stdout
    assert "MatMul_10/MatMulAddFusion" in max(done.stdout.splitlines(), key=len)
    assert not re.search(r" $", done.stdout, re.M)


def test_the_same_bytes_every_time():
    first = process("run", DIGITS, "--input", SAMPLES)
    assert first.stderr == ""
    assert process("run", DIGITS, "--input", SAMPLES).stdout == first.stdout


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
    assert words.endswith("MatMul_10/MatMulAddFusion")


def test_a_closed_pipe_is_no_error():
    command = f"{sys.executable} -m ep_nnapi listing {DIGITS} | head -1"
    done = subprocess.run(
        ["bash", "-c", command], check=False, capture_output=True, text=True, cwd=ROOT
    )
    assert (done.stdout, done.stderr) == ("model\n", "")


def test_an_interrupt_is_a_sentence(monkeypatch: pytest.MonkeyPatch, capsys):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("ep_nnapi.cli._devices", interrupted)
    assert main(["devices"]) == INTERRUPTED
    assert capsys.readouterr().err == "ep-nnapi: interrupted\n"


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
