"""An exception in Python is never NO_ERROR for C, whatever function it is raised in."""

from collections.abc import Iterator
from types import ModuleType

import pytest

from ep_nnapi.nnapi.capi import entry
from ep_nnapi.nnapi.capi._native import ffi
from ep_nnapi.nnapi.codes import ResultCode
from ep_nnapi.nnapi.errors import NnapiError, RuntimeFailure, SpecError
from ep_nnapi.nnapi.functions import FUNCTIONS, Function
from tests.capi.client import OP_FAILED, Library, is_handle
from tests.cases import each


@pytest.fixture
def rebound(nn: Library) -> Iterator[ModuleType]:
    """The binding of functions, restored after the test."""
    nn.getRuntimeFeatureLevel()
    yield entry
    for function in FUNCTIONS:
        entry.bind(function, entry.implementation(function))


def nothing(function: Function) -> list[object]:
    """Arguments that nobody looks at."""
    return [None if is_handle(p) or p.type.endswith("*") else 0 for p in function.parameters]


def raising(error: BaseException) -> entry.Implementation:
    def work(*arguments: object) -> None:
        raise error

    return work


@each("function", FUNCTIONS)
def test_every_function_fails_when_its_work_raises(nn, rebound, function):
    rebound.bind(function, raising(ValueError("as the test wants")))
    wanted = {"int": OP_FAILED, "void": None}.get(function.returns, 0)
    assert getattr(nn, function.python_name)(*nothing(function)) == wanted


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (KeyError("x"), OP_FAILED),
        (NnapiError("x"), OP_FAILED),
        (MemoryError(), ResultCode.OUT_OF_MEMORY),
        (SpecError("x"), ResultCode.BAD_DATA),
        (RuntimeFailure("f", "ANEURALNETWORKS_DEAD_OBJECT"), ResultCode.DEAD_OBJECT),
        (RuntimeFailure("f", "ANEURALNETWORKS_NO_ERROR"), OP_FAILED),
        (RuntimeFailure("f", "no such code"), OP_FAILED),
    ],
    ids=repr,
)
def test_what_an_exception_is_for_c(nn, rebound, error, code):
    function = next(f for f in FUNCTIONS if f.python_name == "Model_finish")
    rebound.bind(function, raising(error))
    assert nn.Model_finish(None) == code


@pytest.mark.parametrize("error", [KeyboardInterrupt("held"), SystemExit(7)], ids=repr)
def test_an_interrupt_is_raised_again_once_c_has_a_code(nn, rebound, error):
    function = next(f for f in FUNCTIONS if f.python_name == "Model_finish")
    rebound.bind(function, raising(error))
    with pytest.raises(type(error)) as raised:
        nn.Model_finish(None)
    assert raised.value is error


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_exception_outside_of_the_guard_is_no_success(nn: Library, rebound: ModuleType) -> None:
    ffi.def_extern(name="Model_finish", error=OP_FAILED)(raising(ValueError("unguarded")))
    assert nn.Model_finish(None) == OP_FAILED


def test_a_defect_is_logged_and_a_refusal_is_not_an_error(nn: Library, rebound: ModuleType, caplog):
    with caplog.at_level("INFO"):
        nn.Model_finish(None)
    (refused,) = caplog.records
    assert refused.levelname == "INFO"
    expected = "ANeuralNetworksModel_finish returns UNEXPECTED_NULL: model is null"
    assert refused.getMessage() == expected
    function = next(f for f in FUNCTIONS if f.python_name == "Model_finish")
    rebound.bind(function, raising(ValueError("a defect")))
    nn.Model_finish(None)
    assert caplog.records[-1].levelname == "ERROR"
