"""`run`: what it reads, prints and compares, and when it exits 1 or 3."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import ep_nnapi
from ep_nnapi.diagnostics.measured_times import measured
from tests.cli.command import DIGITS, DONE, FAILED, NEGATIVE, ROOT, SAMPLES, UNUSABLE
from tests.faulty import FaultyDevice, installed
from tests.onnx_graph import serialized


def test_run_reads_the_digits(shows):
    out = shows("run", DIGITS, "--input", SAMPLES)
    rows = dict(re.findall(r"^(recognised|labels) +([\d ]+)$", out, re.M))
    labels = np.load(SAMPLES)["labels"]
    assert [int(n) for n in rows["labels"].split()] == labels.tolist()
    right = sum(a == b for a, b in zip(*(r.split() for r in rows.values()), strict=True))
    assert f"{right} of 20 right" in out
    assert right >= 19
    assert "within the tolerance of 0.0001" in out


@pytest.mark.parametrize("digit", [0, 3, 7])
def test_run_takes_images(shows, digit: int):
    out = shows("run", DIGITS, "--input", ROOT / "models" / "digits" / f"{digit}.png")
    assert "within the tolerance" in out


def test_run_json(shows):
    out = shows("run", DIGITS, "--input", SAMPLES, "--json")
    data = json.loads(out)
    assert data["report"] == ep_nnapi.check(DIGITS).to_json()
    assert len(data["recognised"]) == len(data["labels"]) == 20
    (difference,) = data["differences"]
    assert difference["output"] == "scores"
    assert difference["absolute"] <= 1e-5 * max(1, difference["largest"])


def test_random_inputs_are_the_same_for_a_seed(cli):
    first, again, other = (
        cli("run", DIGITS, "--random", "--json", "--no-latency", "--seed", seed)
        for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


def test_run_beyond_the_tolerance_says_who_is_further_off(cli):
    """Exit 1 where that is NNAPI, as it is where a device miscalculates."""
    with installed(FaultyDevice(wrong=0.5)):
        code, out, err = cli("run", DIGITS, "--tolerance", "1e-12")
    assert (code, err) == (NEGATIVE, "")
    assert "beyond the tolerance of 1e-12" in out
    assert "NNAPI is further off." in out


def test_run_that_is_no_further_off_than_the_cpu_is_exit_0(cli):
    """Rounding alone is beyond this tolerance; which side it favours depends on the processor."""
    code, out, _ = cli("run", DIGITS, "--tolerance", "1e-12", "--json")
    verdict = json.loads(out)["verdict"]
    assert verdict["side"] in ("nnapi", "cpu", "alike")
    assert code == (NEGATIVE if verdict["side"] == "nnapi" else DONE)


def test_run_whose_device_fails_is_exit_3(cli):
    with installed(FaultyDevice(fails_at=frozenset({-1}))):
        code, out, err = cli("run", DIGITS, "--fallback", "none")
    assert (code, out) == (FAILED, "")
    assert err.startswith("ep-nnapi: ANeuralNetworksExecution_compute returned ")
    assert err.count("\n") == 1


def test_inputs_of_sizes_that_the_model_cannot_take_come_with_the_way_out(cli, tmp_path: Path):
    """A random input has 1 row if their number is symbolic; here 11 must divide their number."""
    text = """(float[n,3] x) => (float[11,m] y) {
        z = NonZero (x) a = Cast <to = 1> (z) y = Reshape (a, rows) }"""
    path = tmp_path / "rows.onnx"
    path.write_bytes(serialized(text, rows=[11, -1]))
    code, out, err = cli("run", str(path))
    assert (code, out, err.count("\n")) == (UNUSABLE, "", 1)
    assert err.endswith("; perhaps for input x of sizes 1,3: give --input or --fix\n")
    assert cli("run", str(path), "--fix", "x=22,3")[0] == DONE


@pytest.mark.parametrize("option", ["--sizes", "--fix"])
@pytest.mark.parametrize("verb", ["check", "run", "compare", "prepare"])
def test_an_input_may_have_the_name_of_its_symbol(verb: str, option: str, cli, tmp_path: Path):
    path, more = tmp_path / "m.onnx", ["-o", tmp_path / "out"] if verb == "prepare" else []
    path.write_bytes(serialized("(float[n,3] n) => (float[n,3] y) { y = Abs (n) }"))
    sizes = {"--sizes": "n=2,4", "--fix": "n=4"}[option]
    assert cli(verb, path, option, sizes, *more)[::2] == (DONE, "")


def test_latency_is_of_both_sides(cli):
    out = cli("run", DIGITS)[1]
    assert re.search(
        r"^Latency: NNAPI \S+ ms, the CPU \S+ ms \(median of \d+ and \d+ runs", out, re.M
    )
    data = json.loads(cli("run", DIGITS, "--json")[1])["latency"]
    for side in ("nnapi", "cpu"):
        assert data[side]["milliseconds"] > 0
        assert data[side]["runs"] >= 1
    assert "latency" not in json.loads(cli("run", DIGITS, "--json", "--no-latency")[1])


def test_the_first_run_is_not_counted():
    """It packs weights and fills caches."""
    calls = []
    timed = measured(lambda: calls.append(0))
    assert len(calls) == timed.runs + 1
    assert timed.runs <= 100


def test_profile_writes_a_trace_and_changes_nothing_else(cli, tmp_path: Path):
    trace = tmp_path / "trace.json"
    arguments = ("run", DIGITS, "--input", SAMPLES, "--no-latency")
    assert cli(*arguments, "--profile", trace) == cli(*arguments)
    events = json.loads(trace.read_text())
    operations = [e["name"] for e in events if "device" in e.get("args", {})]
    samples = len(np.load(SAMPLES)["labels"])  # each of them is a run
    run = ["NNAPI inputs", *["CONV_2D", "MAX_POOL_2D"] * 2, "FULLY_CONNECTED", "NNAPI outputs"]
    assert operations == run * samples


def test_a_trace_that_cannot_be_written_is_an_error(cli, tmp_path: Path):
    trace = tmp_path / "nowhere" / "trace.json"
    code, _, err = cli("run", DIGITS, "--no-latency", "--profile", trace)
    expected = (UNUSABLE, f"ep-nnapi: {trace} cannot be written: No such file or directory\n")
    assert (code, err) == expected
