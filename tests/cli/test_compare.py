"""`compare`: three defects are each found by one command; what it prints and when it exits 1."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from ep_nnapi import operators
from ep_nnapi.capability import node as capability
from ep_nnapi.cli import compare as comparing
from ep_nnapi.diagnostics.compare import ClusterErrors, Culprit
from ep_nnapi.diagnostics.verdict import LessAccurate, Verdict
from ep_nnapi.lowering.call import Call, apply
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.host.kernels.table import KERNELS
from ep_nnapi.operators.lib.node import Node
from ep_nnapi.report.report import ClusterReport
from tests import wrong_device
from tests.cli.command import DIGITS, DONE, NEGATIVE, SAMPLES, saved
from tests.runtimes import host_only

pytestmark = host_only  # the defects are put into the host runtime of this process


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Abs, Softmax and Tanh of x, named after themselves."""
    text = "[abs] a = Abs (x) [softmax] s = Softmax (a) [tanh] y = Tanh (s)"
    return saved(tmp_path, text, shape=(4, 8))


def test_a_defect_of_a_lowering_is_found(cli, model: Path, monkeypatch: pytest.MonkeyPatch):
    """Softmax lowered with beta 2: right for no device."""

    def defective(n: Node) -> Iterator[Call]:
        yield apply(spec.SOFTMAX, n.input(0), beta=2.0, out=n.output())

    softmax_13 = next(o for o in operators.VARIANTS["", "Softmax"] if o.since == 13)
    variants = {**operators.VARIANTS, ("", "Softmax"): (replace(softmax_13, lower=defective),)}
    monkeypatch.setattr(capability, "VARIANTS", variants)
    code, out, err = cli("compare", model)
    assert (code, err) == (NEGATIVE, "")
    assert "The first operation beyond the tolerance is softmax (Softmax) in cluster 0." in out
    assert "host-cpu is beyond it too: the lowering is the cause, not nnapi-reference." in out


def test_a_defect_of_a_kernel_is_found(cli, model: Path, monkeypatch: pytest.MonkeyPatch):
    """The kernel of TANH on nnapi-reference misses by a part in a thousand."""

    def defective(input: np.ndarray, *, out: np.ndarray) -> None:
        np.multiply(np.tanh(input), np.float32(1.001), out=out)

    key = next(k for k in KERNELS if k[0] is spec.TANH and k[1] is OperandCode.TENSOR_FLOAT32)
    monkeypatch.setitem(KERNELS, key, replace(KERNELS[key], function=defective))
    code, out, err = cli("compare", model)
    assert (code, err) == (NEGATIVE, "")
    assert "The first operation beyond the tolerance is tanh (Tanh) in cluster 0." in out
    assert "host-cpu is within it: the arithmetic of nnapi-reference is the cause" in out


def test_a_defect_of_a_device_is_found(cli, model: Path):
    """One that is wrong for SOFTMAX."""
    with wrong_device.installed(lambda operation: operation.spec is spec.SOFTMAX):
        code, out, err = cli("compare", model)
    assert (code, err) == (NEGATIVE, "")
    assert "The first operation beyond the tolerance is softmax (Softmax) in cluster 0." in out
    assert "nnapi-reference is within it: the arithmetic of wrong is the cause" in out


def test_the_seed_is_printed_and_repeats_the_inputs(shows, cli, model: Path):
    out = shows("compare", model, "--seed", 7)
    assert "Random inputs of seed 7.\n" in out
    assert "No cluster is beyond the tolerance.\n" in out
    seeds = (7, 7, 8)
    first, again, other = (
        json.loads(cli("compare", model, "--json", "--seed", s)[1]) for s in seeds
    )
    assert first == again
    assert first["seed"] == 7
    assert first["outputs"] != other["outputs"]


def test_given_inputs_have_no_seed(shows):
    out = shows("compare", DIGITS, "--input", SAMPLES)
    assert "seed" not in out


def test_json_has_the_measures_of_outputs_and_clusters(cli, model: Path):
    with wrong_device.installed(wrong_device.of_node("tanh")):
        code, out, _ = cli("compare", model, "--json")
    assert code == NEGATIVE
    found = json.loads(out)
    assert found["beyond_tolerance"] is True
    (output,) = found["outputs"]
    assert output["output"] == "y"
    assert output["maximum"] == output["absolute"]
    assert 0 < output["mean"] <= output["maximum"]
    assert 0 < output["cosine"] < 1
    assert output["snr_db"] == pytest.approx(6, abs=1)  # half of each number is noise
    (cluster,) = found["clusters"]
    assert (cluster["cluster"], cluster["nodes"]) == (0, ["abs", "softmax", "tanh"])
    assert found["culprit"]["nodes"] == ["tanh"]
    assert found["culprit"]["op_types"] == ["Tanh"]
    assert found["culprit"]["on_another_device"]["beyond_tolerance"] is False


def test_numbers_of_a_small_model_from_end_to_end(cli, tmp_path: Path):
    """y = -x for ones, where the device gives -0.5 and -1.5 in turn: by hand."""
    path = saved(tmp_path, "[neg] y = Neg (x)", shape=(8,))
    np.save(tmp_path / "x.npy", np.ones(8, np.float32))
    with wrong_device.installed(wrong_device.of_node("neg")):
        found = json.loads(cli("compare", path, "--input", tmp_path / "x.npy", "--json")[1])
    for measures in (found["outputs"][0], found["clusters"][0]["outputs"][0]):
        assert (measures["maximum"], measures["mean"]) == (0.5, 0.5)
        assert measures["cosine"] == pytest.approx(1 / 1.25**0.5)  # 8 / sqrt(8 * 10)
        assert measures["snr_db"] == pytest.approx(10 * np.log10(8 / 2))


def test_equal_outputs_have_no_noise_in_json(cli, tmp_path: Path):
    path = saved(tmp_path, "y = Neg (x)")
    (output,) = json.loads(cli("compare", path, "--json")[1])["outputs"]
    assert (output["maximum"], output["snr_db"], output["snr_db_reason"]) == (0, None, "infinite")


@pytest.mark.parametrize(("tolerance", "code"), [("1", DONE), ("1e-5", NEGATIVE)])
def test_float16_is_compared_with_its_tolerance(cli, tolerance: str, code: int):
    """Emulated on the host, digits differ by about 3e-4 of the spread."""
    found = cli("compare", DIGITS, "--flags", "USE_FP16", "--tolerance", tolerance)
    assert found[0] == code
    assert "float16" in found[1]


def test_a_model_without_clusters_has_nothing_to_compare(shows, model: Path):
    out = shows("compare", model, "--exclude", "Abs,Softmax,Tanh")
    assert "No cluster ran, so there is nothing to compare.\n" in out


def test_what_cannot_be_compared_is_refused(refuses, tmp_path: Path):
    refuses("compare", tmp_path / "none.onnx", says="no such file")
    refuses("compare", DIGITS, "--input", tmp_path / "none.npy", says="no such input file")
    refuses("compare", DIGITS, "--device", "gpu3", says="device 'gpu3' is unknown")


@pytest.mark.parametrize(
    ("nodes", "says"),
    [
        (("a",), "host-cpu is beyond it too: the lowering is the cause, not nnapi-reference."),
        (("a", "b"), "host-cpu is beyond it too: rounding errors of these nodes add up, or their "),
    ],
)
def test_several_nodes_may_be_beyond_by_rounding(nodes: tuple[str, ...], says: str):
    """No single node is beyond the tolerance then, so that none can be accused."""
    wrong = Verdict(less_accurate=LessAccurate.NNAPI)
    here, there = (
        ClusterErrors(ClusterReport(nodes, ("x",), ("y",), 8, device), {}, wrong)
        for device in ("nnapi-reference", "host-cpu")
    )
    assert comparing._cause(Culprit(0, here, there)).startswith(says)


def test_two_devices_of_one_name_are_told_apart():
    """Android's own nnapi-reference, and the host's."""
    report = ClusterReport(("a",), ("x",), ("y",), 8, "nnapi-reference")
    wrong = ClusterErrors(report, {}, Verdict(less_accurate=LessAccurate.NNAPI))
    right = replace(wrong, verdict=Verdict(less_accurate=LessAccurate.NONE))
    assert comparing._cause(Culprit(0, wrong, wrong)) == (
        "the host's nnapi-reference is beyond it too: the lowering is the cause, not the "
        "session's nnapi-reference."
    )
    assert comparing._cause(Culprit(0, wrong, right)) == (
        "the host's nnapi-reference is within it: the arithmetic of the session's nnapi-reference "
        "is the cause, not the lowering."
    )


def test_files_for_model_explorer(shows, tmp_path: Path):
    output = tmp_path / "g.json"
    out = shows(
        "compare", DIGITS, "--format", "model-explorer", "-o", output, "--exclude", "MaxPool"
    )
    names = ["g.json", *(f"g.{n}.json" for n in ("decision", "reason", "time"))]
    names += ["g.error.json", "g.measured.json"]
    assert out.splitlines()[-6:] == [str(tmp_path / name) for name in names]
    ids = {n["id"]: n["namespace"] for n in json.loads(output.read_text())["graphs"][0]["nodes"]}
    data = {
        name: json.loads((tmp_path / f"g.{name}.json").read_text())["main"]["results"]
        for name in ("error", "measured")
    }
    assert data["error"].keys() == {i for i, cluster in ids.items() if cluster}
    assert all(0 <= r["value"] < 1e-5 for r in data["error"].values())
    assert data["measured"].keys() >= {i for i, cluster in ids.items() if not cluster}
    assert all(r["value"] > 0 for r in data["measured"].values())


def test_a_format_needs_an_output(refuses, tmp_path: Path):
    refuses("compare", DIGITS, "--format", "model-explorer", says="give both or neither")
    refuses("compare", DIGITS, "-o", tmp_path / "g.json", says="give both or neither")
    refuses("compare", DIGITS, "--format", "netron", "-o", "g", says="invalid choice: 'netron'")


def test_nodes_on_the_cpu_that_enlarge_errors_are_named(cli, tmp_path: Path):
    """Limits just below the right numbers: float16 falls below some of them."""
    x = np.linspace(-1, 1, 16, dtype=np.float32).reshape(2, 8)
    np.save(tmp_path / "x.npy", x)
    text = "[tanh] t = Tanh (x) [greater] g = Greater (t, limits) [cast] y = Cast <to = 1> (g)"
    model = onnx.load(saved(tmp_path, text, shape=(2, 8)))
    limits = np.tanh(x) - np.float32(1e-6)  # float32's tanh is exact to 1e-7
    model.graph.initializer.append(onnx.numpy_helper.from_array(limits, "limits"))
    onnx.save(model, tmp_path / "model.onnx")
    code, out, _ = cli(
        *("compare", tmp_path / "model.onnx", "--input", tmp_path / "x.npy"),
        *("--flags", "USE_FP16", "--exclude", "Greater"),
    )
    assert code == NEGATIVE
    assert out.splitlines()[-1] == (
        "No cluster by itself is beyond the tolerance: the outputs part because small errors add "
        "up over clusters, or are enlarged by the nodes on the CPU (1 Greater)."
    )
