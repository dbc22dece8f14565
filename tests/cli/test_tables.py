"""Tables of results: their rows, and the sentences below them."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ep_nnapi.cli import tables
from ep_nnapi.costs.calibration import Calibration
from ep_nnapi.costs.cost_model import PHONE
from ep_nnapi.costs.work import CostClass
from ep_nnapi.diagnostics.device_times import DeviceTime
from ep_nnapi.diagnostics.inspect_context import Content
from ep_nnapi.diagnostics.latency import Latency, Timed
from ep_nnapi.diagnostics.output_kinds import Kind
from ep_nnapi.diagnostics.run_and_compare import RunResult
from ep_nnapi.diagnostics.verdict import Difference, LessAccurate, Verdict
from ep_nnapi.nnapi.codes import ResultCode
from ep_nnapi.nnapi.result import COMPUTE, failure
from ep_nnapi.ops import OperatorInfo
from ep_nnapi.preparation.batch import Preparation
from ep_nnapi.preparation.manifest import Prepared, Recipe
from ep_nnapi.report import ClusterReport, FallbackRuns, Phase, Report, Substitute

CLUSTER = ClusterReport(("conv", "relu"), ("x",), ("y",), 96, "npu", ("Conv", "Relu"))
REPORT = Report(4, "ep-nnapi", 3, 3, (CLUSTER,), (), (), 1)
NEAR = Difference("y", Kind.FLOAT32, 1e-6, 1.0, 2.0, 1e-4)
FAR = replace(NEAR, absolute=0.5)
RESULT = RunResult(REPORT, ({},), Verdict((NEAR,)), (), (), (), (), None, None)


@pytest.fixture
def rows(capsys: pytest.CaptureFixture[str]):
    """The lines that a function prints, as lists of cells (two spaces or more between them)."""

    def of(show: object, *arguments: object) -> list[list[str]]:
        show(*arguments)
        lines = capsys.readouterr().out.splitlines()
        return [re.split(r"  +", text) for text in lines]

    return of


def test_levels(rows) -> None:
    empty = Report(1, "ep-nnapi", 3, 0, (), ())
    assert rows(tables.levels, [empty, REPORT]) == [
        ["level", "nodes", "taken", "clusters", "border bytes"],
        ["1", "3", "0", "0", "0"],
        ["4", "3", "2", "1", "96"],
    ]


def test_clusters_compiled_ahead_of_time(rows) -> None:
    content = Content("nnapi_0", 4, 2, ("conv", "relu"), ("x FLOAT [1]",), ("y FLOAT [1]",), 8, "w")
    found = rows(tables.compiled, [content, replace(content, file=None)])
    assert found[1] == ["Compiled ahead of time:"]
    head = ["nnapi_0", "4", "2", "x FLOAT [1]", "y FLOAT [1]"]
    assert found[3:] == [
        [*head, "8 bytes in w", "conv; relu"],
        [*head, "8 bytes in the model", "conv; relu"],
    ]


def test_operators(rows) -> None:
    info = OperatorInfo("Floor", "", 6, ("FLOOR",), 1, ("FLOAT32", "FLOAT16"), "Round down.")
    other = replace(info, op_type="Gelu", domain="com.microsoft", since=1)
    assert rows(tables.ops, [info, other])[1:] == [
        ["Floor", "6+", "FLOOR", "1", "FLOAT32 FLOAT16", "Round down."],
        ["com.microsoft:Gelu", "1+", "FLOOR", "1", "FLOAT32 FLOAT16", "Round down."],
    ]


def test_costs_have_a_column_for_each_provider(rows) -> None:
    found = rows(tables.calibration, Calibration("host", "npu", "1", 8, "here", PHONE))
    assert found[0] == ["microseconds", "CPU provider", "npu"]
    assert found[1] == ["cluster", "-", "500"]
    assert found[3] == ["node", "2", "2"]
    assert len(found) == 1 + 4 + len(CostClass)


def prepared(**changes: object) -> Prepared:
    return replace(Prepared("a.onnx", "a.ort", Recipe({}, None, {})), **changes)


def test_prepared_models(rows) -> None:
    report = {"nodes": 9, "clusters": [{"nodes": ["a", "b"]}, {"nodes": ["c"]}]}
    done = prepared(report=report, outputs={"a.ort": "0"}, differences=[{"relative": 1e-5}])
    failed = prepared(error="it has no nodes")
    found = rows(tables.preparation, Preparation((done, failed), Path("out/manifest.json")))
    assert found[1:] == [
        ["a.onnx", "prepared", "2", "3 of 9", "1e-05", "a.ort"],
        ["a.onnx", "failed", "-", "-", "-", "-"],
        [""],
        ["manifest: out/manifest.json"],
    ]


def printed(capsys: pytest.CaptureFixture[str], **changes: object) -> str:
    tables.run_result(replace(RESULT, **changes))
    return capsys.readouterr().out


def test_a_run_has_the_report_and_its_differences(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys)
    assert text.startswith("NNAPI takes 2 of 3 nodes in 1 cluster at feature level 4.")
    assert "largest difference from the CPU" in text
    assert "5e-07 of its spread in y: within the tolerance of 0.0001" in text
    assert not re.search("recognised|Latency|fallback|nnapi-reference", text)


def test_labels_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, recognised=np.array([3, 5, 7]), labels=np.array([3, 5, 1]))
    assert "recognised  3 5 7\nlabels      3 5 1\n2 of 3 right\n" in text


def test_nothing_to_compare_with(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, against=None)
    assert "Not compared: the CPU provider cannot run clusters compiled ahead of time" in text
    assert "largest difference" not in text


def test_failures_and_times_of_devices(capsys: pytest.CaptureFixture[str]) -> None:
    failed = failure(COMPUTE, ResultCode.OP_FAILED, "out of luck")
    by = Substitute("npu", "cpu", Phase.RUN, str(failed))
    times = (DeviceTime(0, "npu", 0.25, None), DeviceTime(1, "gpu", 1.0, 2.5))
    text = printed(capsys, fallbacks=(FallbackRuns(0, by, 2),), device_times=times)
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
def test_the_cause_of_a_difference(
    capsys: pytest.CaptureFixture[str], reference: Difference, less: LessAccurate, sentence: str
) -> None:
    """No device is called wrong where no third computation says which side is."""
    text = printed(capsys, verdict=Verdict((FAR,), less), on_reference=(reference,))
    assert f"\nOn the host's nnapi-reference it is {reference.relative:.3g}" in text
    assert sentence in text


@pytest.mark.parametrize(
    ("cpu", "sentence"),
    [
        (None, "Latency: NNAPI 1.5 ms (median of 9 runs after a warm-up)"),
        (Timed(3, 8), "Latency: NNAPI 1.5 ms, the CPU 3 ms (median of 9 and 8 runs after a"),
    ],
)
def test_latency(capsys: pytest.CaptureFixture[str], cpu: Timed | None, sentence: str) -> None:
    assert sentence in printed(capsys, latency=Latency(Timed(1.5, 9), cpu))


def test_data_of_a_run() -> None:
    data = tables.run_data(RESULT)
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
    data = tables.run_data(more)
    assert (data["recognised"], data["labels"]) == ([3], [4])
    assert data["latency"] == {"nnapi": {"milliseconds": 1.5, "runs": 9}, "cpu": None}
    assert data["device_times"][0]["on_hardware"] == 0.25
