"""Sizes that ONNX Runtime declares and does not compute are not believed."""

import pytest

import ep_nnapi
from tests.end_to_end.small_models import Taken, close, drawn, model_of, node, taken


def pooled(
    stride: int, declared: int, pads: list[int], opset: int = 13, ceil_mode: int = 1
) -> bytes:
    """A pool of windows of 3 over 8 elements that is left to the CPU, and a Sigmoid after it."""
    given = {"kernel_shape": [1, 3], "strides": [1, stride], "ceil_mode": ceil_mode}
    nodes = [node("AveragePool", "X", "p", pads=pads, **given), node("Sigmoid", "p", "Y")]
    return model_of(nodes, {"X": (1, 1, 5, 8)}, {"Y": (1, 1, 5, declared)}, opset=opset)


@pytest.mark.parametrize("ceil_mode", [1, 255, -1])
def test_a_last_window_in_the_padding_is_not_counted(ceil_mode: int):
    """Windows start at -1, 2, 5 and 8, which is beyond the 8 elements; 4 are declared."""
    model = pooled(3, 4, [0, 1, 0, 2], ceil_mode=ceil_mode)
    close(model, {"X": drawn(1, 1, 5, 8)}, exclude="AveragePool")


@pytest.mark.parametrize(("stride", "declared", "pads"), [(3, 3, [0] * 4), (2, 5, [0, 1, 0, 1])])
def test_a_last_window_that_starts_inside_counts(stride: int, declared: int, pads: list[int]):
    model = pooled(stride, declared, pads)
    assert taken(model) is Taken.ALL
    close(model, {"X": drawn(1, 1, 5, 8)})


@pytest.mark.parametrize("opset", [11, 19, 22])
def test_sizes_after_it_are_those_that_are_computed(opset: int):
    """3 windows, of which ONNX's shape inference knows from opset 22 on."""
    model = pooled(3, 4, [0, 1, 0, 2], opset)
    report = ep_nnapi.check(model, exclude="AveragePool")
    assert report.clusters[0].boundary_bytes == 2 * 4 * (5 * 3)
    close(model, {"X": drawn(1, 1, 5, 8)}, exclude="AveragePool")
    assert taken(model) is Taken.ALL
    close(model, {"X": drawn(1, 1, 5, 8)})
