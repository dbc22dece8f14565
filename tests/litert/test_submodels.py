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
from tests.ort_devices.networks import Network


def submodels(net: Network, *made: Model) -> list[int]:
    return [net.add(replace(Operand(OperandCode.MODEL), value=model)) for model in made]


def plus(*pairs: tuple[int, int], of: list[Operand], code: spec.OperationSpec = spec.ADD) -> Model:
    """A submodel of these inputs; each output is the sum, or another operation, of two of them."""
    net = Network()
    inputs = [net.add(operand) for operand in of]
    none = [] if code is spec.LESS else [net.scalar(0)]
    out = Operand(BOOL8, (1,)) if code is spec.LESS else of[0]
    outputs = [net.operation(code, [inputs[a], inputs[b], *none], out) for a, b in pairs]
    return net.model(inputs, outputs)


def loop(x: Operand, outputs: int, body: Model | None = None) -> Model:
    """Of x, sum, step, limit: adds x to the sum and the step to x while x is below the limit."""
    net = Network()
    every = [x] * 4
    ends = plus((0, 3), of=every, code=spec.LESS), body or plus((0, 2), (1, 0), of=every)
    inputs = [net.add(operand) for operand in every]
    first = net.operation(spec.WHILE, [*submodels(net, *ends), *inputs], *every[:outputs])
    return net.model(inputs, [first + n for n in range(outputs)])


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
    x, net, inner = Operand(F32, (1,)), Network(), Network()
    flag, given = inner.add(Operand(BOOL8, (1,))), inner.add(x)
    choice = submodels(inner, plus((0, 0), of=[x]), plus((0, 0), of=[x], code=spec.SUB))
    nested = inner.model([flag, given], [inner.operation(spec.IF, [flag, *choice, given], x)])
    other = Network()
    same = [other.add(Operand(BOOL8, (1,))), other.add(x)]
    plain = other.model(same, [other.operation(spec.NEG, same[1:], x)])
    inputs = [net.add(Operand(BOOL8, (1,))), net.add(x)]
    y = net.operation(spec.IF, [inputs[0], *submodels(net, nested, plain), *inputs], x)
    feeds = [np.array([condition]), np.array([3], np.float32)]
    found = load(convert(net.model(inputs, [y]))).run({"i0": feeds[0], "i1": feeds[1]})
    assert found["o0"].tolist() == [6.0 if condition else -3.0]


def test_reasons_of_submodels_are_those_of_loops() -> None:
    x = Operand(F32, (1,))
    net = Network()
    inputs = [net.add(x) for _ in range(4)]
    outputs = [net.operation(spec.SOFTMAX, [i, net.scalar(-1.0)], x) for i in inputs[:2]]
    why = "in body_model, beta is not positive"
    assert obstacles(loop(x, 1, net.model(inputs, outputs))) == (why,)
    open_size = replace(x, dimensions=(0,))
    grows = loop(x, 1, plus((0, 2), (1, 0), of=[open_size] * 4))
    assert obstacles(grows) == ("in body_model, the shape of operand 0 is unknown",)
