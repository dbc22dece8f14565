"""Graphs that declare other tensors than their containers have: both providers refuse the same.

ONNX Runtime allocates an output as the graph declares it; what writes it goes by the container.
"""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from tests.epcontext.forging import changed, lowered
from tests.native.forged_models import (
    COMPUTED,
    FEEDS,
    REFUSED,
    change_context,
    difference,
    drawn,
    forged,
    sources,
)
from tests.native.sessions import python_session, session
from tests.provider.test_planner import model

Make = Callable[[Path], onnxruntime.InferenceSession]
providers = pytest.mark.parametrize("make", [session, python_session])


def saved(proto: onnx.ModelProto, folder: Path) -> Path:
    onnx.save(proto, folder / "model.onnx")
    return folder / "model.onnx"


@providers
@pytest.mark.parametrize("case", REFUSED)
def test_other_tensors_are_refused(case: str, make: Make, tmp_path: Path) -> None:
    path = saved(forged(change=REFUSED[case]), tmp_path)
    with pytest.raises(Exception, match=r"prepare the model again|invalid model\. Type Error"):
        make(path)


@providers
@pytest.mark.parametrize("case", COMPUTED)
def test_what_the_graph_leaves_open_computes(case: str, make: Make, tmp_path: Path) -> None:
    for result in make(saved(forged(change=COMPUTED[case]), tmp_path)).run(None, FEEDS):
        assert np.array_equal(result, FEEDS["x"] + 1)


LARGEST = 2**32 - 1
CHANGED: dict[str, tuple[int, str, int, Callable[[Any], None]]] = {
    "an unknown operation": (
        2,
        "operations",
        0,
        lambda rows: rows.__setitem__("type", LARGEST >> 1),
    ),
    "a constant without its bytes": (2, "operands", 2, lambda rows: rows.__setitem__("size", 8)),
    "a part that reads what nothing makes": (
        *(4, "alternatives", 4),
        lambda rows: rows["inputs"].__setitem__("count", 0),
    ),
    "a tensor of 2^63 elements": (2, "sizes", -1, lambda rows: rows.__setitem__(0, 2**63 - 1)),
    "a level that is none": (
        2,
        "alternatives",
        1,
        lambda rows: rows.__setitem__("feature_level", 9),
    ),
    "axes that lie outside": (2, "crossings", -1, lambda rows: _far(rows["permutation"])),
    "composites that lie outside": (2, "alternatives", 2, lambda rows: _far(rows["composites"])),
}
"""Containers with several alternatives: the source from the last, and what changes of a table."""


def _far(ranges: Any) -> None:
    ranges["first"] = LARGEST


@pytest.mark.parametrize("prefer", ["nnapi,cpu", "cpu,nnapi"])
@pytest.mark.parametrize("case", CHANGED)
def test_an_alternative_that_is_wrong_is_so_for_both(case: str, prefer: str) -> None:
    """What is structure refuses the file, what NNAPI's rules say lets it give way."""
    back, table, row, change = CHANGED[case]
    proto = forged(*sources()[-back])
    change_context(proto.graph, lambda data: changed(data, table, row, change))
    assert difference(proto.SerializeToString(), FEEDS, prefer) in ("", None)


def test_a_level_below_that_of_its_operations_is_the_runtimes_to_check() -> None:
    """It computes on one of a higher level."""

    def lower(rows: Any) -> None:
        rows["feature_level"] = 1

    proto = forged(lowered(model("Exp x -> y")))
    change_context(proto.graph, lambda data: changed(data, "alternatives", 0, lower))
    assert difference(proto.SerializeToString(), FEEDS, "nnapi") is None


def test_drawn_changes_are_refused_by_both_or_computed_the_same() -> None:
    """`python -m tests.native.forged_models` draws others."""
    found = [difference(*drawn(random.Random(seed))) for seed in range(300)]
    assert not [what for what in found if what]
    assert found.count("") > 100
    assert found.count(None) > 60
