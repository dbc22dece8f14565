"""Tables of a report: rejections by reason, what follows from another, and the advice for each."""

from __future__ import annotations

import pytest

from ep_nnapi.cli.report_tables import report
from ep_nnapi.errors import ADVICE, FIX_ADVICE, SHAPE_ADVICE, TRIED, Note, Rejection, SourceLine
from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.report import ClusterReport, Report

SYMBOLIC = f"x dimension 0 is 'batch'; {FIX_ADVICE}"
TRIED_SIZES = f"64 elements do not fit (1, 96){TRIED}"
DATA_DEPENDENT = "places has a data-dependent shape, produced by search"


def printed(
    capsys: pytest.CaptureFixture[str], *rejections: Rejection, notes: tuple[Note, ...] = ()
) -> list[str]:
    nodes, device = ("conv", "relu"), "nnapi-reference"
    cluster = ClusterReport(nodes, ("x",), ("y",), 96, device, ("Conv", "Relu"))
    count = len(rejections) + 2
    report(Report(8, "ep-nnapi", count, count, (cluster,), rejections, notes, 1))
    return capsys.readouterr().out.splitlines()


def shape(name: str, detail: str) -> Rejection:
    return Rejection(name, "Relu", Reason.SHAPE, detail)


def test_a_report_without_rejections_ends_after_the_clusters(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = printed(capsys)
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
def test_only_what_a_size_repairs_is_to_be_fixed(
    details: list[str], advice: str, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = [shape(f"n{i}", detail) for i, detail in enumerate(details)]
    assert f"SHAPE ({len(details)}): {advice}" in printed(capsys, *refused)
    assert ("--fix" in advice) == bool({SYMBOLIC, TRIED_SIZES} & {*details})


def test_what_follows_from_a_rejection_is_counted_with_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cause = Rejection("erf", "Erf", Reason.OP, "there is no Erf")
    after = [
        Rejection(f"n{i}", "Relu", Reason.SHAPE, DATA_DEPENDENT, caused_by="erf") for i in (1, 2)
    ]
    lines = printed(capsys, cause, *after)
    assert f"OP (3): {ADVICE[Reason.OP]}" in lines
    assert lines[-1] == "2 more follow from this one."
    assert not [line for line in lines if line.startswith("SHAPE")]


def test_another_target_that_takes_the_nodes_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    erf = Rejection("erf", "Erf", Reason.OP, "it has no Erf", accepted_by="builtin-nnapi")
    (line,) = [text for text in printed(capsys, erf) if text.startswith("OP")]
    assert line == "OP (1): replace the operator (builtin-nnapi takes it; ep-nnapi does not)"


def test_rejections_of_one_kind_are_one_row(capsys: pytest.CaptureFixture[str]) -> None:
    several = [
        Rejection(f"n{i}", "Cast", Reason.DTYPE, f"x{i} is INT64", kind="* is INT64")
        for i in range(3)
    ]
    rows = [line.split() for line in printed(capsys, *several) if line.startswith("Cast")]
    assert rows == [["Cast", "3", "n0", "to", "n2", "*", "is", "INT64"]]


def test_notes_precede_the_rejections(capsys: pytest.CaptureFixture[str]) -> None:
    note = Note("conv", "Conv", "computed in floats")
    lines = printed(capsys, shape("n", SYMBOLIC), notes=(note,))
    assert lines.index("Taken with a note: 1 node") < lines.index("Left to the CPU: 1 node")
    assert ["Conv", "1", "conv", "computed", "in", "floats"] in [line.split() for line in lines]


def test_source_lines_have_a_column_where_a_model_records_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The first three distinct ones of a row, and the number of the others."""
    lines = [SourceLine(f"layers.{i}", "net.py", 12) for i in (0, 0, 1, 2, 3, 4)]
    found = [
        Rejection(f"mish{i}", "Mish", Reason.OP, "no lowering", source=source)
        for i, source in enumerate(lines)
    ]
    plain = Rejection("det", "Det", Reason.OP, "no determinant")
    head, mish, det = printed(capsys, *found, plain)[-3:]
    assert head.split() == ["operator", "count", "nodes", "detail", "source"]
    assert mish.endswith(
        "layers.0 at net.py:12, layers.1 at net.py:12, layers.2 at net.py:12 and 2 more"
    )
    assert det.endswith("no determinant")
