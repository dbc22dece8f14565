"""Arguments and results of modules, and their form in files."""

import json

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from ep_nnapi import ModelError  # noqa: E402
from ep_nnapi.torch.structure import (  # noqa: E402
    ForwardArguments,
    Results,
    flatten,
    from_json,
    leaves_of,
    to_json,
)
from tests.torch.networks import Pair, agrees  # noqa: E402

pytestmark = pytest.mark.torch
A, B, C = (torch.full((1,), float(n)) for n in range(3))


def function(first, /, second=None, *more, key=1, **others):
    """One parameter of each kind."""


def results() -> tuple[Results, list[object]]:
    value = {"pair": Pair(A, B), "size": 3, "text": ["x", None, (C,)]}
    leaves, spec = flatten(value)
    return Results(spec, leaves_of(leaves, "results")[0]), value


def test_results_are_put_together():
    built, value = results()
    agrees(built.of([A, B, C]), value)


@pytest.mark.parametrize("value", [A, (A, B), [A], [A, (B,)], (A, 2), (A, None), {"x": A}, ()])
def test_the_builder_of_results_agrees_with_them(value: object):
    leaves, spec = flatten(value)
    found = Results(spec, leaves_of(leaves, "results")[0])
    tensors = [x for x in leaves if isinstance(x, torch.Tensor)]
    agrees(found.builder()(tensors), value)


CALLS = {
    "positional": ((A, B), {}),
    "nested": (([A, {"x": B}],), {}),
    "more": ((A, B, C), {}),
    "keywords": ((A,), {"key": B, "second": None, "other": C}),
}


@pytest.mark.parametrize("name", CALLS)
def test_tensors_of_a_call_in_order(name: str):
    args, kwargs = CALLS[name]
    arguments = ForwardArguments.of_call(function, args, kwargs)
    again, _ = from_json(to_json(arguments, results()[0]))
    expected = [v for v in flatten([*args, *kwargs.values()])[0] if isinstance(v, torch.Tensor)]
    for one in (arguments, again):
        found = list(one.tensors(args, kwargs))
        assert sorted(map(float, found)) == sorted(map(float, expected))


@pytest.mark.parametrize(
    ("args", "kwargs", "said"),
    [
        ((A,), {}, "not converted for these arguments"),
        ((A, B, C, A), {}, "not converted for these arguments"),
        ((A, 1), {}, "1 is given where the example had a tensor"),
        ((A, B), {"key": 1}, "not converted for these arguments"),
        ((A, B), {"first": 1}, "not converted"),
    ],
)
def test_other_calls_than_the_example(args: object, kwargs: object, said: str):
    arguments = ForwardArguments.of_call(function, (A, B), {})
    with pytest.raises(ModelError, match=said):
        arguments.tensors(args, kwargs)


def test_numbers_are_compared_with_the_example():
    arguments = ForwardArguments.of_call(function, (A,), {"key": 2})
    assert arguments.tensors((A,), {"key": 2}) == [A]
    with pytest.raises(ModelError, match="the value 2 and is called with 3"):
        arguments.tensors((A,), {"key": 3})


def test_values_that_a_model_does_not_have():
    with pytest.raises(ModelError, match="type set"):
        leaves_of([{1}], "the results")


def test_files_hold_plain_data_and_damaged_ones_are_refused():
    text = to_json(ForwardArguments.of_call(function, (A, B), {}), results()[0])
    agrees(from_json(text)[1].of([A, B, C]), results()[1])
    found = json.loads(text)
    found["results"]["leaves"] = 1
    with pytest.raises(ModelError, match="damaged"):
        from_json(json.dumps(found))
    found = json.loads(text)
    found["results"]["spec"] = found["results"]["spec"].replace("networks.Pair", "networks.Other")
    with pytest.raises(ModelError, match=r"networks\.Other"):
        from_json(json.dumps(found))
