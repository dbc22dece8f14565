"""The option `sizes`: what a symbol is in use, for run, compare, tune and worth_it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import numpy as np
import onnx
import pytest

import ep_nnapi
from ep_nnapi.cli.main import main
from ep_nnapi.tuning.tune import Accuracy, tuned
from models import zoo
from tests.cli.command import DONE, UNUSABLE
from tests.end_to_end.sessions import nnapi_session
from tests.onnx_graph import parsed
from tests.runtimes import host_only
from tests.tuning.test_tune import NNAPI_WINS
from tests.tuning.times import Times

CACHE = """(float[1, past, 3] cache, float[1, length, 3] x, float[1, total, 3] mask)
    => (float[1, all, 3] y) {
    grown = Concat <axis = 1> (cache, x)
    y = Mul (grown, mask) }"""


Cli: TypeAlias = Callable[..., tuple[int, str, str]]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    """Runs a verb; returns its exit code, stdout and stderr."""

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main([*arguments])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


@pytest.fixture
def decoder(tmp_path: Path) -> str:
    """A cache that grows, times a mask: an input with a size that is named as a sum."""
    model = parsed(CACHE)
    model.graph.input[2].type.tensor_type.shape.dim[1].dim_param = "past + length"
    onnx.save(model, tmp_path / "decoder.onnx")
    return str(tmp_path / "decoder.onnx")


def test_run_and_compare_use_each_set_and_the_latency_of_each_is_shown(cli: Cli, decoder: str):
    given = (decoder, "--sizes", "past=3,1;length=2")
    code, out, _ = cli("run", *given, "--json")
    found = json.loads(out)
    assert (code, list(found["latencies"])) == (DONE, ["past=1;length=2", "past=3;length=2"])
    assert found["latency"] == found["latencies"]["past=1;length=2"]
    code, out, _ = cli("run", *given)
    assert out.count("Latency at past=") == 2
    outputs = ep_nnapi.run(decoder, sizes={"past": (1, 3), "length": 2}).outputs
    assert [o["y"].shape for o in outputs] == [(1, 3, 3), (1, 5, 3)]
    assert cli("compare", *given)[0] == DONE


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ("pasta=3", "sizes: pasta is no symbolic dimension of an input; known: past, length"),
        ("past=3;past=4", "sizes has a name twice"),
        (f"past={','.join(map(str, range(1, 34)))};length=1,2", "66 sets of sizes"),
    ],
)
def test_sizes_that_cannot_be(cli: Cli, decoder: str, sizes: str, said: str):
    code, _, err = cli("run", decoder, "--sizes", sizes)
    assert code == UNUSABLE
    assert said in err


def test_a_session_warns_of_what_it_does_not_have(decoder: str, caplog: pytest.LogCaptureFixture):
    nnapi_session(decoder, sizes="pasta=3")
    nnapi_session(decoder, sizes="past=3")
    (warning,) = caplog.messages
    assert "did you mean past?" in warning


def test_given_inputs_are_run_as_they_are(decoder: str):
    model = onnx.load(decoder)
    feeds = zoo.sample_inputs(model, past=4, length=1, **{"past + length": 5})
    (outputs,) = ep_nnapi.run(decoder, feeds, sizes="past=2,3").outputs
    assert outputs["y"].shape == (1, 5, 3)


@pytest.mark.parametrize(("sizes", "count"), [("past=2,8;length=1", 2), ("", 8)])
def test_tune_measures_all_sizes_in_turn(decoder: str, sizes: str, count: int):
    """Without any, they grow, by more than are compiled for; a run is one of them."""
    times = Times(**NNAPI_WINS)
    found = tuned(decoder, (), 0, Accuracy(), times, {"device": "nnapi-reference", "sizes": sizes})
    past = [shapes["cache"][1] for shapes in found.sizes]
    assert past == ([2, 8] if sizes else list(range(1, 9)))
    cpu = next(m for m in found.candidates if m.candidate.name == "CPU all")
    assert cpu.timing is not None
    assert (cpu.timing.seconds, cpu.timing.runs) == (2.0 / count, 20 * count)
    best = found.choice.best
    assert best.report is not None
    assert best.report.taken


def test_tune_repeats_one_size_where_it_is_fixed(decoder: str):
    found = tuned(decoder, (), 0, Accuracy(), Times(**NNAPI_WINS), {"fix": "past=2;length=1"})
    assert len(found.sizes) == 1


@host_only
def test_worth_it_estimates_by_sizes_in_use(tmp_path: Path):
    """A product of 64 x 64 for each row pays for many rows; several sizes count as their mean."""
    text = "(float[n,64] x) => (float[n,64] y) <float[64,64] w> { y = MatMul (x, w) }"
    onnx.save(parsed(text, w=np.ones((64, 64), np.float32)), tmp_path / "m.onnx")
    for sizes, taken in (("n=16", 0), ("n=16,64", 0), ("n=1000000", 1), ("n=16,1000000", 1)):
        report = ep_nnapi.check(tmp_path / "m.onnx", partitioning="worth_it", sizes=sizes)
        assert report.taken == taken, sizes
