"""Branches and loops of NNAPI models as subgraphs of flatbuffers."""

from dataclasses import replace

import numpy as np
import pytest

from ep_nnapi.litert.library import load
from ep_nnapi.litert.to_tflite import convert, obstacles
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.model import Model, Operand
from ep_nnapi.nnapi.spec import BOOL8, F16, F32, I32, Q8, Q8S
from tests.litert.needs import LITERT
from tests.litert.test_to_tflite import reference
from tests.nnapi.build import one
from tests.ort_devices.networks import Network


def plus(*pairs: tuple[int, int], of: list[Operand], code: spec.OperationSpec = spec.ADD) -> Model:
    """A submodel of these inputs; each output is the sum, or another operation, of two of them."""
    net = Network(*of)
    none = [] if code is spec.LESS else [0]
    out = Operand(BOOL8, (1,)) if code is spec.LESS else of[0]
    given = [[net.inputs[a], net.inputs[b], *none] for a, b in pairs]
    return net.model(*(net.operation(code, each, out) for each in given))


def loop(x: Operand, outputs: int, body: Model | None = None) -> Model:
    """Of x, sum, step, limit: adds x to the sum and the step to x while x is below the limit."""
    every = [x] * 4
    ends = plus((0, 3), of=every, code=spec.LESS), body or plus((0, 2), (1, 0), of=every)
    return one(spec.WHILE, [*ends, *every], every[:outputs])


@LITERT
@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("code", [F32, F16, I32, Q8, Q8S])
@pytest.mark.parametrize(("start", "wanted"), [(1, [7, 9]), (8, [8, 0])])
def test_loops(code: OperandCode, outputs: int, start: int, wanted: list[int]) -> None:
    """The sum is an output or only state; the step and the limit do not change."""
    zero = {Q8: 128}.get(code, 0)
    x = Operand(code, (1,), float(code in (Q8, Q8S)), zero)
    model = loop(x, outputs)
    feeds = [np.array([n + zero], code.numpy) for n in (start, 0, 2, 6)]
    found = load(convert(model)).run({f"i{n}": array for n, array in enumerate(feeds)})
    assert [found[f"o{n}"].item() - zero for n in range(outputs)] == wanted[:outputs]
    assert [array.item() - zero for array in reference(model, feeds)] == wanted[:outputs]


@LITERT
@pytest.mark.parametrize("condition", [False, True])
def test_branches(condition: bool) -> None:
    """Also inside a branch; an output that is an input or a constant there is a copy."""
    x, flag = Operand(F32, (1,)), Operand(BOOL8, (1,))
    choice = plus((0, 0), of=[x]), plus((0, 0), of=[x], code=spec.SUB)
    nested = one(spec.IF, [flag, *choice, x], [x])
    other, net = Network(flag, x), Network(flag, x)
    plain = other.model(other.operation(spec.NEG, other.inputs[1:], x))
    y = net.operation(spec.IF, [net.inputs[0], nested, plain, *net.inputs], x)
    feeds = {"i0": np.array([condition]), "i1": np.array([3], np.float32)}
    found = load(convert(net.model(y))).run(feeds)
    assert found["o0"].tolist() == [6.0 if condition else -3.0]


def test_reasons_of_submodels_are_those_of_loops() -> None:
    x = Operand(F32, (1,))
    net = Network(*[x] * 4)
    body = net.model(*(net.operation(spec.SOFTMAX, [i, -1.0], x) for i in net.inputs[:2]))
    assert obstacles(loop(x, 1, body)) == ("in body_model, beta is not positive",)
    open_size = replace(x, dimensions=(0,))
    grows = loop(x, 1, plus((0, 2), (1, 0), of=[open_size] * 4))
    assert obstacles(grows) == ("in body_model, the shape of operand 0 is unknown",)
