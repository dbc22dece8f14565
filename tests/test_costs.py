"""The work of nodes and its cost."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

import ep_nnapi
from ep_nnapi.costs import (
    FUNCTIONS,
    MACS,
    PHONE,
    Calibration,
    CostClass,
    CostModel,
    Rates,
    Work,
    cost_class,
    cost_model,
    read,
    work,
)
from ep_nnapi.nnapi.codes import DeviceCode
from ep_nnapi.nnapi.runtime import Device
from ep_nnapi.operators import OPS
from ep_nnapi.options.table import HOST, Options, parse, to_strings
from ep_nnapi.options.target import RuleSet
from ep_nnapi.quantization.propagate import propagate_quantization
from tests.end_to_end.quantized import Qdq
from tests.onnx_graph import graph_of
from tests.operators.test_packed import product
from tests.oracle import Case, f32, node

C = CostClass
GRU = node("GRU", f32(7, 1, 4), f32(1, 15, 4), f32(1, 15, 5), hidden_size=5)
X = f32(1, 8, 6, 6)
# 3 x 3 filters on 6 x 6 pictures make 4 x 4.
CASES = {
    "convolution": (node("Conv", X, f32(16, 8, 3, 3)), 16 * 4 * 4 * 8 * 9, C.CONVOLUTION),
    "in groups": (node("Conv", X, f32(8, 4, 3, 3), group=2), 8 * 4 * 4 * 4 * 9, C.CONVOLUTION),
    "depthwise": (node("Conv", X, f32(8, 1, 3, 3), group=8), 8 * 4 * 4 * 9, C.DEPTHWISE),
    "one channel": (
        node("Conv", f32(1, 1, 6, 6), f32(8, 1, 3, 3)),
        8 * 4 * 4 * 9,
        C.CONVOLUTION,
    ),
    "transposed": (
        node("ConvTranspose", f32(1, 8, 4, 4), f32(8, 16, 3, 3)),
        8 * 4 * 4 * 16 * 9,
        C.CONVOLUTION,
    ),
    "matrices": (node("MatMul", f32(2, 3, 4), f32(2, 4, 5)), 2 * 3 * 5 * 4, C.PRODUCT),
    "packed weights": (product(64, 6), 2 * 3 * 6 * 64, C.PRODUCT),
    "recurrent": (GRU, 7 * (15 * 4 + 15 * 5), C.RECURRENT),
    "function": (node("Sigmoid", f32(2, 3)), 6, C.FUNCTION),
    "arithmetic": (node("Add", f32(2, 3), f32(2, 3)), 6, C.OTHER),
    "movement": (node("Transpose", f32(2, 3), perm=[1, 0]), 6, C.OTHER),
    "unknown size": (node("Neg", f32("n", 3)), 3, C.OTHER),
}


@pytest.mark.parametrize(("case", "macs", "family"), CASES.values(), ids=CASES)
def test_multiply_accumulates_and_family(case: Case, macs: int, family: CostClass):
    found = graph_of(case.model).nodes[0]
    assert (work(found).macs, cost_class(found)) == (macs, family)


def test_a_qdq_group_is_one_node_of_its_operator_in_8_bits():
    """4 x 8 by 8 x 5: a byte for each number, and what the constants of the scales take."""
    q = Qdq()
    x = q.input((4, 8), (0.1, 100))
    out = q.group("MatMul", [x, q.weights(np.ones((8, 5), np.uint8), 0.1)], (0.2, 90))
    (found,) = propagate_quantization(graph_of(q.model(out))).nodes
    assert (len(found.originals), cost_class(found)) == (4, CostClass.QUANTIZED)
    assert work(found) == Work(4 * 5 * 8, 4 * 8 + 8 * 5 + 4 * 5)


def test_bytes_of_tensors_and_weights():
    add = graph_of(node("Add", f32(2, 3), np.ones((1, 3), np.float32)).model).nodes[0]
    assert work(add) == Work(6, (6 + 6 + 3) * 4)


def test_every_operator_with_a_rate_of_its_own_can_be_taken():
    assert FUNCTIONS | set(MACS) <= {o.op_type for o in OPS}


# Costs of nodes, and the default model of a phone


def test_time_is_the_sum_of_what_is_counted():
    rates = Rates(1.0, 0.5, {**dict.fromkeys(CostClass, 9.0), CostClass.OTHER: 0.25})
    add = graph_of(node("Add", f32(2, 3), f32(2, 3)).model).nodes[0]
    assert rates.time(add) == 1 + 0.5 * 3 * 6 * 4 + 0.25 * 6


def test_a_phone_takes_a_lone_convolution_from_12_million_multiply_accumulates_on():
    """As the description of the default model says; its tensors have less than 0.2 MB."""

    def saved(channels: int) -> float:
        conv = node("Conv", f32(1, channels, 26, 26), f32(channels, channels, 3, 3))
        found = graph_of(conv.model).nodes[0]
        costs = replace(PHONE, per_byte=0.0).costs([found])
        return costs.here[found.id] - costs.there[found.id] - costs.per_cluster

    assert saved(48) < 0 < saved(50)  # 11.9 and 13.0 million


DIGITS = "models/digits.onnx"
REFERENCE = Device("nnapi-reference", DeviceCode.CPU, "1", 8)
# Of a device that does everything at once: always worth it.
FAST = CostModel(
    Rates(10, 1, {f: float(i) for i, f in enumerate(CostClass, 1)}),
    Rates(1, 0.5, dict.fromkeys(CostClass, 0.25)),
    per_byte=0.125,
    per_cluster=2,
)


def written(path: Path, **changed: object) -> str:
    """The name of a file measured here on nnapi-reference, but for what is changed."""
    replace(Calibration.of(HOST, REFERENCE, FAST), **changed).write(path)
    return str(path)


def refused(options: Options, *parts: str) -> None:
    """`cost_model` refuses in one sentence that has these parts."""
    with pytest.raises(ep_nnapi.OptionError) as caught:
        cost_model(options, REFERENCE)
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert sentence.startswith(f"calibration {options.calibration}")
    for part in parts:
        assert part in sentence


def test_it_is_read_as_it_was_written(tmp_path: Path):
    path = tmp_path / "calibration.json"
    given = Calibration.of(HOST, REFERENCE, FAST)
    given.write(path)
    assert read(path) == given
    data = json.loads(path.read_text())
    assert (data["version"], data["runtime"], data["device"]) == (1, "host", "nnapi-reference")
    assert (data["feature_level"], data["device_version"]) == (8, "1")
    assert "processors" in data["machine"]


def test_without_one_the_model_is_that_of_a_phone():
    assert cost_model(Options(), REFERENCE) is PHONE


def test_estimates_go_by_it(tmp_path: Path):
    path = written(tmp_path / "c.json")
    assert cost_model(Options(calibration=path), REFERENCE) == FAST
    assert ep_nnapi.check(DIGITS, partitioning="worth_it").taken == 0
    assert ep_nnapi.check(DIGITS, partitioning="worth_it", calibration=path).taken == 8


def test_its_path_holds_from_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    for given in ("c.json", Path("c.json")):
        assert to_strings(parse({"calibration": given})) == {"calibration": f"{tmp_path}/c.json"}
    assert parse({"calibration": ""}).calibration is None


def test_what_is_no_path_is_refused():
    with pytest.raises(ep_nnapi.OptionError, match="calibration is 3; it must be the path"):
        parse({"calibration": 3})


# whom it is for ------------------------------------------------------------------------------


def test_a_desktops_is_never_used_for_a_phone(tmp_path: Path):
    options = Options(calibration=written(tmp_path / "c.json"))
    refused(
        replace(options, target=RuleSet.BUILTIN),
        "was measured on a desktop, and target builtin-nnapi is a phone's; give one measured there",
    )
    refused(replace(options, runtime="system"), "this runtime is a phone's")
    with pytest.raises(ep_nnapi.OptionError, match="was measured on a desktop"):
        ep_nnapi.check(DIGITS, target="builtin-nnapi", calibration=options.calibration)


def test_a_phones_is_for_phone_targets_on_a_desktop_and_for_itself(tmp_path: Path):
    """It does not matter then where the clusters are compiled meanwhile."""
    path = written(tmp_path / "c.json", runtime="system", device="npu", machine="aarch64 phone")
    phone = Options(calibration=path, target=RuleSet.BUILTIN)
    assert cost_model(phone, REFERENCE) == FAST
    refused(replace(phone, target=RuleSet.EP_NNAPI), "is about device npu of runtime system")


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"device": "fast"}, "is about device fast of runtime host, not nnapi-reference"),
        ({"device_version": "0"}, "is about version 0 of nnapi-reference, which has 1 now"),
        ({"machine": "x86_64 far"}, "was measured on another machine (x86_64 far)"),
    ],
)
def test_of_something_else(changed: dict[str, str], reason: str, tmp_path: Path):
    refused(Options(calibration=written(tmp_path / "c.json", **changed)), reason)


def test_one_recorded_with_a_device_profile(tmp_path: Path):
    """It holds on any machine, comes before the default and after the option."""
    recorded = replace(Calibration.of("system", REFERENCE, FAST), machine="aarch64 phone").to_json()
    options = Options(device_profile="phone.json")
    assert cost_model(options, REFERENCE, recorded) == FAST
    assert cost_model(replace(options, target=RuleSet.BUILTIN), REFERENCE, recorded) == FAST
    slow = replace(FAST, per_cluster=1e9)
    path = tmp_path / "c.json"
    Calibration.of(HOST, REFERENCE, slow).write(path)
    assert cost_model(replace(options, calibration=str(path)), REFERENCE, recorded) == slow


@pytest.mark.parametrize(
    ("options", "change", "message"),
    [
        ({"target": RuleSet.BUILTIN}, {}, "was measured on a desktop, and target builtin-nnapi"),
        ({}, {"model": {}}, "is not valid; record it again with ep-nnapi profile --times"),
        ({}, {"version": 2}, "is not valid; record it again with ep-nnapi profile --times"),
    ],
    ids=["a desktop's", "no rates", "another version"],
)
def test_one_recorded_with_a_device_profile_that_cannot_be_used(options, change, message):
    recorded = Calibration.of(HOST, REFERENCE, FAST).to_json() | change
    with pytest.raises(ep_nnapi.OptionError) as caught:
        cost_model(Options(device_profile="phone.json", **options), REFERENCE, recorded)
    assert str(caught.value).startswith("the calibration in device profile phone.json ")
    assert message in str(caught.value)


# files that cannot be used -------------------------------------------------------------------


def test_a_file_that_is_not_there(tmp_path: Path):
    refused(Options(calibration=str(tmp_path / "none.json")), "no such file")
    refused(Options(calibration=str(tmp_path)), "cannot be read")  # a folder


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff\x00", b"{}", b"[1]", b"null", b'"text"', b"[" * 99999]
)
def test_a_file_that_is_no_calibration(content: bytes, tmp_path: Path):
    path = tmp_path / "c.json"
    path.write_bytes(content)
    refused(Options(calibration=str(path)), "measure again with ep-nnapi devices --calibrate")


DAMAGE: dict[str, Callable[[dict], object]] = {
    "no device": lambda d: d.pop("device"),
    "a number for a name": lambda d: d.update(machine=1),
    "a family missing": lambda d: d["model"]["cpu"]["per_mac"].pop("product"),
    "a text for a number": lambda d: d["model"].update(per_byte="1"),
    "true for a number": lambda d: d["model"].update(per_byte=True),
    "less than nothing": lambda d: d["model"].update(per_cluster=-1),
    "not a number": lambda d: d["model"].update(per_cluster=float("nan")),
    "endless": lambda d: d["model"]["nnapi"].update(per_node=float("inf")),
    "a list for an object": lambda d: d.update(model=[]),
    "no version": lambda d: d.pop("version"),
    "a version in words": lambda d: d.update(version="1"),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_one(damage: Callable[[dict], object], tmp_path: Path):
    path = tmp_path / "c.json"
    written(path)
    data = json.loads(path.read_text())
    damage(data)
    path.write_text(json.dumps(data))
    refused(Options(calibration=str(path)), "is not a calibration file; measure again")


@pytest.mark.parametrize("version", [0, 2])
def test_of_another_version(version: int, tmp_path: Path):
    path = tmp_path / "c.json"
    written(path)
    path.write_text(json.dumps({**json.loads(path.read_text()), "version": version}))
    refused(Options(calibration=str(path)), f"is of version {version}, not 1")


def test_it_is_written_whole_or_not_at_all(tmp_path: Path):
    path = tmp_path / "c.json"
    written(path)
    before = path.read_text()
    with (
        patch("os.replace", side_effect=OSError(28, "No space left on device")),
        pytest.raises(ep_nnapi.OptionError, match="cannot be written: No space left"),
    ):
        written(path, device="other")
    assert path.read_text() == before
    assert [p.name for p in tmp_path.iterdir()] == ["c.json"]


# everywhere ----------------------------------------------------------------------------------


def test_run_goes_by_it_too(tmp_path: Path):
    path = written(tmp_path / "c.json")
    assert ep_nnapi.run(DIGITS, partitioning="worth_it", calibration=path).report.taken == 8
    assert ep_nnapi.run(DIGITS, partitioning="worth_it").report.taken == 0


@pytest.mark.long
def test_prepare_goes_by_it_too(tmp_path: Path):
    """Models prepared with another calibration, in a file of the same name, are prepared again."""
    path = written(tmp_path / "c.json")
    given = {"partitioning": "worth_it", "calibration": path}
    assert prepared(tmp_path, **given) == ("prepared", 8)
    assert prepared(tmp_path, **given) == ("up to date", 8)
    slow = replace(FAST, per_cluster=1e9)
    Calibration.of(HOST, REFERENCE, slow).write(path)
    assert prepared(tmp_path, **given) == ("prepared", 0)


def prepared(folder: Path, **options: object) -> tuple[str, int]:
    """Status of digits.onnx, and the number of nodes that NNAPI takes."""
    done = ep_nnapi.prepare(DIGITS, folder / "out", verify=False, **options)
    (model,) = done.models
    assert model.report is not None
    return str(model.status), sum(len(c["nodes"]) for c in model.report["clusters"])
