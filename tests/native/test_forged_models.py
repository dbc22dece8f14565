"""Graphs that declare other tensors than their containers have: both providers refuse the same.

ONNX Runtime allocates an output as the graph declares it; what writes it goes by the container.
"""

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from tests.native.forged_models import COMPUTED, FEEDS, REFUSED, difference, drawn, forged
from tests.native.sessions import python_session, session

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


def test_drawn_changes_are_refused_by_both_or_computed_the_same() -> None:
    """`python -m tests.native.forged_models` draws others."""
    found = [difference(*drawn(random.Random(seed))) for seed in (*range(300), 58406)]
    assert not [what for what in found if what]
    assert found.count("") > 100
    assert found.count(None) > 30
