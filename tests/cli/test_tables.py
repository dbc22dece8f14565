"""Tables of results: their rows, and the sentences below them."""

import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ep_nnapi.cli import check, devices, ops, prepare, run
from ep_nnapi.cli.terminal import strict
from ep_nnapi.costs import PHONE, Calibration, CostClass
from ep_nnapi.diagnostics.inspect_context import Content
from ep_nnapi.diagnostics.measured_times import DeviceTime, Latency, Timed
from ep_nnapi.diagnostics.output_traits import OutputKind
from ep_nnapi.diagnostics.run_and_compare import RunResult
from ep_nnapi.diagnostics.verdict import Difference, LessAccurate, Verdict
from ep_nnapi.errors import ADVICE, FIX_ADVICE, SHAPE_ADVICE, TRIED, Note, Rejection, SourceLine
from ep_nnapi.nnapi.codes import COMPUTE, ResultCode, failure
from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.operators import OperatorInfo
from ep_nnapi.preparation.batch import Preparation
from ep_nnapi.preparation.manifest import CacheKey, Prepared
from ep_nnapi.report.report import ClusterReport, FallbackRuns, Phase, Report, Substitute

CLUSTER = ClusterReport(("conv", "relu"), ("x",), ("y",), 96, "npu", ("Conv", "Relu"))
REPORT = Report(4, "ep-nnapi", 3, 3, (CLUSTER,), (), (), 1)
NEAR = Difference("y", OutputKind.FLOAT32, 1e-6, 1.0, 2.0, 1e-4)
FAR = replace(NEAR, absolute=0.5)
RESULT = RunResult(REPORT, ({},), Verdict((NEAR,)), (), "the CPU", (), (), (), None, None)


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """What a function prints."""

    def of(show: Callable[..., None], *arguments: object) -> str:
        show(*arguments)
        return capsys.readouterr().out

    return of


@pytest.fixture
def rows(shown):
    """The lines that a function prints, as lists of cells (two spaces or more between them)."""
    return lambda *given: [re.split(r"  +", text) for text in shown(*given).splitlines()]


@pytest.fixture
def printed(shown):
    """What is printed of a run with these changes."""
    return lambda **changes: shown(run.show, replace(RESULT, **changes))


@pytest.fixture
def report(shown):
    """The lines of a report with these rejections and notes."""

    def of(*rejections: Rejection, notes: tuple[Note, ...] = ()) -> list[str]:
        count, cluster = len(rejections) + 2, replace(CLUSTER, device="nnapi-reference")
        made = Report(8, "ep-nnapi", count, count, (cluster,), rejections, notes, 1)
        return shown(check.show_report, made).splitlines()

    return of


def test_levels(rows) -> None:
    empty = Report(1, "ep-nnapi", 3, 0, (), ())
    assert rows(check._show_levels, [empty, REPORT]) == [
        ["level", "nodes", "taken", "clusters", "border bytes"],
        ["1", "3", "0", "0", "0"],
        ["4", "3", "2", "1", "96"],
    ]


def test_clusters_compiled_ahead_of_time(rows) -> None:
    content = Content("nnapi_0", 4, 2, ("conv", "relu"), ("x FLOAT [1]",), ("y FLOAT [1]",), 8, "w")
    found = rows(check._compiled, [content, replace(content, file=None)], ())
    assert found[1] == ["Compiled ahead of time:"]
    head = ["nnapi_0", "4", "2", "x FLOAT [1]", "y FLOAT [1]"]
    assert found[3:] == [
        [*head, "8 bytes in w", "conv; relu"],
        [*head, "8 bytes in the model", "conv; relu"],
    ]


def test_operators(rows) -> None:
    info = OperatorInfo("Floor", "", 6, ("FLOOR",), 1, ("FLOAT32", "FLOAT16"), "Round down.")
    other = replace(info, op_type="Gelu", domain="com.microsoft", since=1)
    assert rows(ops.show, [info, other])[1:] == [
        ["Floor", "6+", "FLOOR", "1", "FLOAT32 FLOAT16", "Round down."],
        ["com.microsoft:Gelu", "1+", "FLOOR", "1", "FLOAT32 FLOAT16", "Round down."],
    ]


def test_costs_have_a_column_for_each_provider(rows) -> None:
    found = rows(devices.show_costs, Calibration("host", "npu", "1", 8, "here", PHONE))
    assert found[0] == ["microseconds", "CPU provider", "npu"]
    assert found[1] == ["cluster", "-", "500"]
    assert found[3] == ["node", "2", "2"]
    assert len(found) == 1 + 4 + len(CostClass)


def prepared(**changes: object) -> Prepared:
    return replace(Prepared("a.onnx", "a.ort", CacheKey({}, None, {})), **changes)


def test_prepared_models(rows) -> None:
    report = {"nodes": 9, "clusters": [{"nodes": ["a", "b"]}, {"nodes": ["c"]}]}
    done = prepared(report=report, outputs={"a.ort": "0"}, differences=[{"relative": 1e-5}])
    failed = prepared(error="it has no nodes")
    found = rows(prepare.show, Preparation((done, failed), Path("out/manifest.json")))
    assert found[1:] == [
        ["a.onnx", "prepared", "2", "3 of 9", "1e-05", "a.ort"],
        ["a.onnx", "failed", "-", "-", "-", "-"],
        [""],
        ["manifest: out/manifest.json"],
    ]


def test_a_run_has_the_report_and_its_differences(printed) -> None:
    text = printed()
    assert text.startswith("NNAPI takes 2 of 3 nodes in 1 cluster at feature level 4.")
    assert "largest difference from the CPU" in text
    assert "5e-07 of its spread in y: within the tolerance of 0.0001" in text
    assert not re.search("recognised|Latency|fallback|nnapi-reference", text)


def test_labels_are_counted(printed) -> None:
    text = printed(recognised=np.array([3, 5, 7]), labels=np.array([3, 5, 1]))
    assert "recognised  3 5 7\nlabels      3 5 1\n2 of 3 right\n" in text


def test_nothing_to_compare_with(printed) -> None:
    text = printed(against=None)
    assert "Not compared: the CPU provider cannot run clusters compiled ahead of time" in text
    assert "largest difference" not in text


def test_failures_and_times_of_devices(printed) -> None:
    failed = failure(COMPUTE, ResultCode.OP_FAILED, "out of luck")
    by = Substitute("npu", "cpu", Phase.RUN, str(failed))
    times = (DeviceTime(0, "npu", 0.25, None), DeviceTime(1, "gpu", 1.0, 2.5))
    text = printed(fallbacks=(FallbackRuns(0, by, 2),), device_times=times)
    assert f"Cluster 0: 2 runs on cpu in place of npu (at run): {failed}" in text
    assert "Cluster 0, as npu measured it: 0.25 ms on hardware\n" in text
    assert "Cluster 1, as gpu measured it: 1 ms on hardware, 2.5 ms in the driver\n" in text


@pytest.mark.parametrize(
    ("reference", "less", "sentence"),
    [
        (NEAR, LessAccurate.NNAPI, "nnapi-reference it is 5e-07: device npu computes wrongly."),
        (NEAR, LessAccurate.UNKNOWN, "it is 5e-07: the arithmetic of npu makes the difference."),
        (FAR, LessAccurate.NNAPI, "nnapi-reference it is 0.25 too: not the arithmetic of npu."),
    ],
)
def test_the_cause_of_a_difference(printed, reference, less, sentence):
    """No device is called wrong where no third computation says which side is."""
    text = printed(verdict=Verdict((FAR,), less), on_reference=(reference,))
    assert f"\nOn the host's nnapi-reference it is {reference.relative:.3g}" in text
    assert sentence in text


@pytest.mark.parametrize(
    ("cpu", "sentence"),
    [
        (None, "Latency: NNAPI 1.5 ms (median of 9 runs after a warm-up)"),
        (Timed(3, 8), "Latency: NNAPI 1.5 ms, the CPU 3 ms (median of 9 and 8 runs after a"),
    ],
)
def test_latency(printed, cpu: Timed | None, sentence: str) -> None:
    assert sentence in printed(latency=Latency(Timed(1.5, 9), cpu))


def test_data_of_a_run() -> None:
    data = run.data(RESULT)
    assert data["report"] == REPORT.to_json()
    assert data["differences"] == [NEAR.to_json()]
    assert data["failures"] == data["on_reference"] == data["device_times"] == []
    assert not {"latency", "recognised", "labels"} & data.keys()
    times = (DeviceTime(0, "npu", 0.25, None),)
    more = replace(
        RESULT,
        recognised=np.array([3]),
        labels=np.array([4]),
        latency=Latency(Timed(1.5, 9), None),
        device_times=times,
    )
    data = run.data(more)
    assert (data["recognised"], data["labels"]) == ([3], [4])
    assert data["latency"] == {"nnapi": {"milliseconds": 1.5, "runs": 9}, "cpu": None}
    assert data["device_times"][0]["on_hardware"] == 0.25


# Tables of a report: rejections by reason, what follows from another, and the advice for each

SYMBOLIC = f"x dimension 0 is 'batch'; {FIX_ADVICE}"
TRIED_SIZES = f"64 elements do not fit (1, 96){TRIED}"
DATA_DEPENDENT = "places has a data-dependent shape, produced by search"


def shape(name: str, detail: str) -> Rejection:
    return Rejection(name, "Relu", Reason.SHAPE, detail)


def test_a_report_without_rejections_ends_after_the_clusters(report) -> None:
    lines = report()
    assert lines[0] == "NNAPI takes 2 of 2 nodes in 1 cluster at feature level 8."
    columns = [cell for cell in lines[-1].split("  ") if cell]
    row = [cell.strip() for cell in columns]
    assert row == ["0", "2", "nnapi-reference", "96", "1 Conv, 1 Relu", "conv to relu"]


@pytest.mark.parametrize(
    ("details", "advice"),
    [
        ([SYMBOLIC], ADVICE[Reason.SHAPE]),
        ([SYMBOLIC, SYMBOLIC], ADVICE[Reason.SHAPE]),
        ([SYMBOLIC, DATA_DEPENDENT], f"{ADVICE[Reason.SHAPE]}, which repairs 1 of them"),
        ([DATA_DEPENDENT], SHAPE_ADVICE),
        ([TRIED_SIZES], f"{ADVICE[Reason.SHAPE]}, which may repair 1 of them"),
        ([TRIED_SIZES, DATA_DEPENDENT], f"{ADVICE[Reason.SHAPE]}, which may repair 1 of them"),
        (["pads remove all elements of x"], SHAPE_ADVICE),
    ],
    ids=[
        "symbolic",
        "two symbolic",
        "both",
        "data-dependent",
        "tried",
        "tried and not",
        "a size that is known",
    ],
)
def test_only_what_a_size_repairs_is_to_be_fixed(details: list[str], advice: str, report) -> None:
    refused = [shape(f"n{i}", detail) for i, detail in enumerate(details)]
    assert f"SHAPE ({len(details)}): {advice}" in report(*refused)
    assert ("--fix" in advice) == bool({SYMBOLIC, TRIED_SIZES} & {*details})


def test_what_follows_from_a_rejection_is_counted_with_it(report) -> None:
    cause = Rejection("erf", "Erf", Reason.OP, "there is no Erf")
    after = [
        Rejection(f"n{i}", "Relu", Reason.SHAPE, DATA_DEPENDENT, caused_by="erf") for i in (1, 2)
    ]
    lines = report(cause, *after)
    assert f"OP (3): {ADVICE[Reason.OP]}" in lines
    assert lines[-1] == "2 more follow from this one."
    assert not [line for line in lines if line.startswith("SHAPE")]


def test_another_target_that_takes_the_nodes_is_named(report) -> None:
    erf = Rejection("erf", "Erf", Reason.OP, "it has no Erf", accepted_by="builtin-nnapi")
    (line,) = [text for text in report(erf) if text.startswith("OP")]
    assert line == "OP (1): replace the operator (builtin-nnapi takes it; ep-nnapi does not)"


def test_rejections_of_one_kind_are_one_row(report) -> None:
    several = [
        Rejection(f"n{i}", "Cast", Reason.DTYPE, f"x{i} is INT64", kind="* is INT64")
        for i in range(3)
    ]
    rows = [line.split() for line in report(*several) if line.startswith("Cast")]
    assert rows == [["Cast", "3", "n0", "to", "n2", "*", "is", "INT64"]]


def test_notes_precede_the_rejections(report) -> None:
    note = Note("conv", "Conv", "computed in floats")
    lines = report(shape("n", SYMBOLIC), notes=(note,))
    assert lines.index("Taken with a note: 1 node") < lines.index("Left to the CPU: 1 node")
    assert ["Conv", "1", "conv", "computed", "in", "floats"] in [line.split() for line in lines]


def test_source_lines_have_a_column_where_a_model_records_them(report) -> None:
    """The first three distinct ones of a row, and the number of the others."""
    lines = [SourceLine(f"layers.{i}", "net.py", 12) for i in (0, 0, 1, 2, 3, 4)]
    found = [
        Rejection(f"mish{i}", "Mish", Reason.OP, "no lowering", source=source)
        for i, source in enumerate(lines)
    ]
    plain = Rejection("det", "Det", Reason.OP, "no determinant")
    head, mish, det = report(*found, plain)[-3:]
    assert head.split() == ["operator", "count", "nodes", "detail", "source"]
    assert mish.endswith(
        "layers.0 at net.py:12, layers.1 at net.py:12, layers.2 at net.py:12 and 2 more"
    )
    assert det.endswith("no determinant")


# JSON that every reader takes: null and a reason in place of infinity and NaN


@pytest.mark.parametrize(
    ("number", "reason"),
    [(math.inf, "infinite"), (-math.inf, "infinite"), (math.nan, "not a number")],
)
def test_json_has_null_with_a_reason_for_what_is_no_number(number: float, reason: str):
    data = strict({"rows": [{"absolute": number, "largest": 1.0}], "name": "x"})
    assert data == {
        "rows": [{"absolute": None, "largest": 1.0, "absolute_reason": reason}],
        "name": "x",
    }
    assert json.loads(json.dumps(data, allow_nan=False)) == data


def test_json_of_numbers_is_as_it_is():
    data = {"a": [1, 2.5, True, None, "x"], "b": {"c": 0.0}}
    assert strict(data) == data
