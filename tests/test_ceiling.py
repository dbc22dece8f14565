"""Sizes that ONNX Runtime declares and does not compute are not believed."""

import pytest

import ep_nnapi
from tests.end_to_end.small_models import Taken, close, drawn, model_of, node, taken


def pooled(stride: int, declared: int, pads: list[int]) -> bytes:
    """A pool of windows of 3 over 8 elements that is left to the CPU, and a Sigmoid after it."""
    given = {"kernel_shape": [1, 3], "strides": [1, stride], "ceil_mode": 1}
    nodes = [node("AveragePool", "X", "p", pads=pads, **given), node("Sigmoid", "p", "Y")]
    return model_of(nodes, {"X": (1, 1, 5, 8)}, {"Y": (1, 1, 5, declared)}, opset=13)


def test_a_last_window_in_the_padding_is_not_counted():
    """Windows start at -1, 2, 5 and 8, which is beyond the 8 elements; 4 are declared."""
    model = pooled(3, 4, [0, 1, 0, 2])
    close(model, {"X": drawn(1, 1, 5, 8)}, exclude="AveragePool")


@pytest.mark.parametrize(("stride", "declared", "pads"), [(3, 3, [0] * 4), (2, 5, [0, 1, 0, 1])])
def test_a_last_window_that_starts_inside_counts(stride: int, declared: int, pads: list[int]):
    model = pooled(stride, declared, pads)
    assert taken(model) is Taken.ALL
    close(model, {"X": drawn(1, 1, 5, 8)})


def test_sizes_after_it_are_unknown():
    report = ep_nnapi.check(pooled(3, 4, [0, 1, 0, 2]), exclude="AveragePool")
    assert report.taken == 0
    assert "unknown" in report.rejections[-1].detail
