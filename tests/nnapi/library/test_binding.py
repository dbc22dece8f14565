"""C types and structs of the client, the functions of a library and its feature level."""

import ctypes
import ctypes.util

import pytest

from ep_nnapi.nnapi.codes import ResultCode
from ep_nnapi.nnapi.errors import OptionError, RuntimeFailure
from ep_nnapi.nnapi.functions import FUNCTIONS
from ep_nnapi.nnapi.library import binding
from tests.nnapi.library.recorded import Recorded

LEVELS = {f.python_name: f.level for f in FUNCTIONS}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("uint32_t", ctypes.c_uint32),
        ("size_t", ctypes.c_size_t),
        ("bool", ctypes.c_bool),
        ("OperationType", ctypes.c_int32),
        ("Model*", ctypes.c_void_p),
        ("const uint32_t*", ctypes.c_void_p),
        ("Event**", ctypes.c_void_p),
    ],
)
def test_types(text: str, expected: type) -> None:
    assert binding.ctype(text) is expected


def test_structs_are_laid_out_as_in_c() -> None:
    """A pointer is aligned to its own size; the other fields take four bytes each."""
    pointer = ctypes.sizeof(ctypes.c_void_p)
    assert [binding.OperandType.type.offset, binding.OperandType.dimensionCount.offset] == [0, 4]
    assert binding.OperandType.dimensions.offset == 8
    assert binding.OperandType.scale.offset == 8 + pointer
    assert binding.OperandType.zeroPoint.offset == 12 + pointer
    assert ctypes.sizeof(binding.OperandType) == 16 + pointer
    assert binding.ChannelParams.scales.offset == 8
    assert ctypes.sizeof(binding.ChannelParams) == 8 + pointer


@pytest.mark.parametrize("level", range(2, 6))
def test_a_library_has_the_level_below_the_first_function_that_it_lacks(level: int) -> None:
    functions = Recorded(hidden=[binding.NEEDED[level][-1]])
    assert functions.feature_level == level - 1
    assert not functions.has(binding.NEEDED[level][-1])


def test_with_all_functions_the_library_reports_its_level() -> None:
    assert Recorded().feature_level == 8
    older = [name for name, level in LEVELS.items() if level > 1]
    assert Recorded(hidden=older).feature_level == 1


def test_functions_are_needed_at_their_level_or_a_later_one() -> None:
    for level, names in binding.NEEDED.items():
        assert all(LEVELS[name] <= level for name in names)


@pytest.mark.parametrize("name", ["Model_create", "Event_wait"])
def test_a_library_without_a_function_of_level_1_is_refused(name: str) -> None:
    with pytest.raises(OptionError, match=f"is no NNAPI library: it has no {binding.c_name(name)}"):
        Recorded(hidden=[name])


def test_another_library_is_refused() -> None:
    libc = ctypes.CDLL(None)
    with pytest.raises(OptionError, match=r"runtime libc is no NNAPI library: it has no \w+"):
        binding.Functions(libc, "libc")


def test_a_failing_call_is_named_as_in_the_ndk() -> None:
    with pytest.raises(RuntimeFailure) as caught:
        Recorded().call("Device_getName", None, None)
    assert caught.value.call == "ANeuralNetworksDevice_getName"
    assert caught.value.code == "ANEURALNETWORKS_UNEXPECTED_NULL"


def test_result_codes_that_nnapi_does_not_define() -> None:
    last = max(ResultCode)
    assert binding.failed("Model_finish", last).code == f"ANEURALNETWORKS_{ResultCode(last).name}"
    code = binding.failed("Model_finish", last + 1).code
    assert code == f"result code {last + 1}, which NNAPI does not define"


def test_other_bindings_of_the_same_library_do_not_change_types() -> None:
    functions = Recorded()
    library = ctypes.CDLL(functions.path)
    library.ANeuralNetworks_getRuntimeFeatureLevel.restype = ctypes.c_int8
    assert functions.code("getRuntimeFeatureLevel") == 1_000_008  # not its lowest byte
