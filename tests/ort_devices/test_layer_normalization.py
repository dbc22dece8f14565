"""Layer and RMS normalization are one operator, and what looks alike but differs is not."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.ort_devices.operation import Kernels
from tests.ort_devices.expressions import SHAPE, Expression, differences, operators


def layer_norm(
    net: Expression,
    axes: Sequence[int] = (-1,),
    inner_axes: Sequence[int] | None = None,
    scale: tuple[int, ...] = SHAPE[-1:],
    activation: int = 0,
    *,
    divided: bool = False,
) -> tuple[int, int]:
    """The output, and the centred input; `divided`: by a root, as older exports do."""
    centred = net.two(spec.SUB, net.x, net.mean(net.x, axes))
    square = net.two(spec.MUL, centred, centred)
    variance = net.mean(square, axes if inner_axes is None else inner_axes)
    more = net.two(spec.ADD, variance, 1e-5)
    if divided:
        standard = net.two(spec.DIV, centred, net.one(spec.SQRT, more))
    else:
        standard = net.two(spec.MUL, centred, net.one(spec.RSQRT, more))
    product = net.two(spec.MUL, standard, net.numbers(*scale))
    return net.two(spec.ADD, product, net.numbers(*scale), activation), centred


@pytest.mark.parametrize("divided", [False, True], ids=["inverse root", "division"])
@pytest.mark.parametrize("axes", [(-1,), (2,), (1, 2)], ids=str)
def test_layer_normalization_is_one_node(axes, divided):
    net = Expression()
    y, _ = layer_norm(net, axes, scale=SHAPE[-len(axes) :], divided=divided)
    assert operators(net.ends(y)) == {"LayerNormalization": 1}
    assert differences(net.ends(y)) == pytest.approx([0], abs=2e-6)  # float32 sums in another order


@pytest.mark.parametrize(
    "options",
    [
        {"axes": (1,), "scale": (1, 8)},
        {"axes": (2,), "inner_axes": (1, 2)},
        {"axes": (2,), "scale": (3, 8)},
        {"axes": (2,), "activation": 1},
    ],
    ids=["not the last axis", "two kinds of axes", "another scale for each row", "activation"],
)
def test_what_differs_from_layer_normalization_is_computed_step_by_step(options):
    net = Expression()
    model = net.ends(layer_norm(net, **options)[0])
    assert operators(model)["LayerNormalization"] == 0
    assert differences(model) == pytest.approx([0], abs=2e-6)


def test_a_group_keeps_what_others_read():
    """The centred input is an output of the model too: its RMS normalization is one operator."""
    net = Expression()
    model = net.ends(*layer_norm(net))
    assert operators(model)["LayerNormalization"] == 0
    assert operators(model)["SimplifiedLayerNormalization"] == 1
    assert differences(model) == pytest.approx([0, 0], abs=2e-6)


def test_only_providers_with_kernels_for_groups_get_them():
    net = Expression()
    assert operators(net.ends(layer_norm(net)[0]), Kernels())["LayerNormalization"] == 0


def rms_norm(
    net: Expression,
    form: str = "inverse root",
    axes: Sequence[int] = (-1,),
    scale: tuple[int, ...] = SHAPE[-1:],
    one: float = 1.0,
    *,
    keep: bool = True,
) -> int:
    """RMS normalization in one of the forms in which it is exported."""
    power = net.two(spec.ADD, net.mean(net.two(spec.MUL, net.x, net.x), axes, keep=keep), 1e-5)
    if form == "inverse root":
        standard = net.two(spec.MUL, net.x, net.one(spec.RSQRT, power))
    elif form == "reciprocal":
        whole = net.add_constant(one)
        standard = net.two(spec.MUL, net.x, net.two(spec.DIV, whole, net.one(spec.SQRT, power)))
    else:
        standard = net.two(spec.DIV, net.x, net.one(spec.SQRT, power))
    return net.two(spec.MUL, net.numbers(*scale), standard)


@pytest.mark.parametrize("form", ["inverse root", "reciprocal", "division"])
@pytest.mark.parametrize("axes", [(-1,), (1, 2)], ids=str)
def test_rms_normalization_is_one_node(axes, form):
    net = Expression()
    model = net.ends(rms_norm(net, form, axes, SHAPE[-len(axes) :]))
    assert operators(model) == {"SimplifiedLayerNormalization": 1}
    assert differences(model) == pytest.approx([0], abs=2e-6)  # float32 sums in another order


@pytest.mark.parametrize(
    "options",
    [
        {"axes": (1,), "scale": (1, 8)},
        {"scale": (3, 8)},
        {"form": "reciprocal", "one": 2.0},
        {"axes": (0, 1, 2), "scale": SHAPE, "keep": False},
    ],
    ids=["not the last axis", "another scale for each row", "twice the inverse", "axes that go"],
)
def test_what_differs_from_rms_normalization_is_computed_step_by_step(options):
    net = Expression()
    model = net.ends(rms_norm(net, **options))
    assert operators(model)["SimplifiedLayerNormalization"] == 0
    assert differences(model) == pytest.approx([0], abs=2e-6)
