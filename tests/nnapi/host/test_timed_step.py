"""Operations of a run on nnapi-reference are measured one by one when somebody listens."""

from itertools import pairwise

import numpy as np
import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.model import Model, Operand
from ep_nnapi.nnapi.runtime import RunOptions, TimedOperation
from tests.nnapi.build import one
from tests.nnapi.host.test_runtime import F32, chain, compiled

X = np.array([1, 2, 3, 4], np.float32)


def listened(model: Model, x: np.ndarray = X) -> list[TimedOperation]:
    found: list[TimedOperation] = []
    compiled(model).run([x], (), RunOptions(on_operation=found.append))
    return found


def with_weight() -> Model:
    """y = x + w, from the node "Add_1"."""
    return one(spec.ADD, [Operand(F32, (4,)), X, 0], [Operand(F32, (4,))], "Add_1")


def test_one_after_the_other_in_the_order_of_their_execution():
    found = listened(chain((4,), 3))
    assert [o.name for o in found] == ["ADD"] * 3
    assert all(o.start_ns <= o.end_ns for o in found)
    assert all(a.end_ns <= b.start_ns for a, b in pairwise(found))


@pytest.mark.parametrize(
    ("model", "size"),
    [
        pytest.param(chain((4,), 1), 16 + 16, id="an input that is read twice counts once"),
        pytest.param(chain((0,), 1), 16 + 16, id="the size of the run where none is declared"),
        pytest.param(with_weight(), 16 + 16 + 16, id="a constant counts"),
    ],
)
def test_bytes_are_those_of_the_tensors(model: Model, size: int):
    """Scalars, such as ADD's activation, are parameters: they do not count."""
    assert [o.bytes for o in listened(model)] == [size]


def test_it_has_the_onnx_nodes_that_it_came_from():
    assert listened(with_weight())[0].origin == ("Add_1",)


def test_results_are_the_same():
    model = chain((4,), 3)
    heard: list[TimedOperation] = []
    (listened_to,) = compiled(model).run([X], (), RunOptions(on_operation=heard.append))
    (alone,) = compiled(model).run([X])
    np.testing.assert_array_equal(listened_to, alone)


def test_an_operation_that_fails_is_not_passed_on():
    """The run is stopped before its second operation."""
    found: list[TimedOperation] = []

    def stop() -> None:
        if found:
            raise KeyError("stopped")

    with pytest.raises(Exception, match="stopped"):
        compiled(chain((4,), 3)).run([X], (), RunOptions(stop=stop, on_operation=found.append))
    assert len(found) == 1
