"""The options fix and sizes: what they take, and what is refused."""

import numpy as np
import pytest

from ep_nnapi.options.fixed import Contents, sets_of
from ep_nnapi.options.table import parse, to_strings
from tests.refusal import refused


@pytest.mark.parametrize(
    ("given", "fixed"),
    [
        ("x=1,3,224,224", (("x", (1, 3, 224, 224)),)),
        ("x=1;y=2,3", (("x", (1,)), ("y", (2, 3)))),
        (["x=1", "y=2,3"], (("x", (1,)), ("y", (2, 3)))),
        ({"x": (1, 2)}, (("x", (1, 2)),)),
        ({"x": [1, 2]}, (("x", (1, 2)),)),
        ({"x": 3}, (("x", (3,)),)),
        ("scope=a/x=4", (("scope=a/x", (4,)),)),
        ("x=1;r:=16000", (("x", (1,)), ("r", Contents((16000,))))),
        ("r:=0.5,-1e3;on:=true", (("r", Contents((0.5, -1000.0))), ("on", Contents((True,))))),
        ("r:=[3]", (("r", Contents((3,), (1,))),)),
        ({"r": np.array([[1, 2], [3, 4]])}, (("r", Contents((1, 2, 3, 4), (2, 2))),)),
        ({"r": np.array(16000)}, (("r", Contents((16000,))),)),
        ("", ()),
    ],
)
def test_fix(given: object, fixed: tuple[object, ...]):
    found = parse({"fix": given})
    assert found.fix == fixed
    assert parse(to_strings(found)) == found


NO_SIZES = ["x", "=1", "x=", "x=a", "x=0", "x=-1", {"x": 0}, {"x": "3"}, {"x": np.int64(3)}, 3]
NO_NUMBERS = ["x:=", "x:=a", "x:=[]", "x:=[[1],[2,3]]", {"x": np.array(["a"])}]


@pytest.mark.parametrize("given", [*NO_SIZES, *NO_NUMBERS])
def test_fix_refuses(given: object):
    refused({"fix": given}, "fix")


@pytest.mark.parametrize("given", ["n=32,16,16", {"n": [16, 32]}])
def test_sizes_ascend(given: object):
    assert parse({"sizes": given}).sizes == (("n", (16, 32)),)


@pytest.mark.parametrize(("most", "fits"), [(64, True), (65, False)])
def test_sets_of_sizes_are_at_most_64(most: int, fits: bool):
    given = {"sizes": {"n": tuple(range(1, most + 1))}}
    if fits:
        assert len([*sets_of(parse(given).sizes)]) == most
    else:
        refused(given, "65 sets of sizes", "at most 64")
