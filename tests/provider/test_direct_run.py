"""Clusters that a session of ONNX Runtime may compute by itself, and those that need more."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from ep_nnapi.graph.value import DType
from ep_nnapi.lowering.border import Border, BoundBorder, Crossing, Place
from ep_nnapi.nnapi.host import HostRuntime
from ep_nnapi.nnapi.runtime import Compilation, RunOptions
from ep_nnapi.options.target import Target
from ep_nnapi.provider.compiler import Compiler
from ep_nnapi.provider.direct_run import direct_run

FLOAT = np.dtype(np.float32)


@dataclass
class Direct(Compilation):
    session: object | None = "session"

    def direct_session(self) -> object | None:
        return self.session


def compiler(**changes: object) -> Compiler:
    runtime = HostRuntime()
    return replace(Compiler(Target(8), runtime, runtime.devices()[0]), **changes)


def border(*outputs: Crossing) -> BoundBorder:
    """Inputs b and a of the cluster are operands 0 and 1; outputs go by their names."""
    inputs = Crossing("a", DType.FLOAT, (2,), 1, None, (2,), FLOAT), crossing("b", 0)
    return Border(inputs, outputs).bind(["a", "b"], [c.name for c in outputs])


def crossing(name: str, operand: int, **changes: object) -> Crossing:
    return replace(Crossing(name, DType.FLOAT, (3,), operand, None, (3,), FLOAT), **changes)


PLAIN = border(crossing("y", 1), crossing("z", 0))


def test_tensors_are_in_the_order_of_the_models_operands():
    found = direct_run(compiler(), Direct(), PLAIN)
    assert found is not None
    assert found.session == "session"
    assert found.tensors.inputs == found.given == (Place(1, (3,)), Place(0, (2,)))
    assert found.tensors.outputs == (Place(1, (3,)), Place(0, (3,)))


@pytest.mark.parametrize(
    "converted",
    [
        crossing("y", 0, perm=(0,)),
        crossing("y", 0, dtype=DType.INT64),
        crossing("y", 0, nnapi_shape=(3, 1)),
        crossing("y", 1),
    ],
    ids=["permuted", "cast", "reshaped", "not the only output"],
)
def test_converted_tensors_need_the_runner(converted: Crossing):
    assert direct_run(compiler(), Direct(), border(converted)) is None


def test_an_operand_that_is_two_outputs_needs_the_runner():
    assert direct_run(compiler(), Direct(), border(crossing("y", 0), crossing("z", 0))) is None


@pytest.mark.parametrize(
    "changes", [{"limits": RunOptions(timeout_ns=1)}, {"listeners": [print]}], ids=str
)
def test_runs_that_are_watched_need_the_runner(changes: dict[str, object]):
    assert direct_run(compiler(**changes), Direct(), PLAIN) is None


def test_runs_that_are_timed_go_as_those_of_a_session():
    assert direct_run(compiler(measure=True), Direct(), PLAIN) is not None


def test_devices_without_a_session_need_the_runner():
    assert direct_run(compiler(), Direct(None), PLAIN) is None

    class Other(Compilation):
        pass

    assert direct_run(compiler(), Other(), PLAIN) is None
