"""A library as a runtime: devices as it lists them, and the default one where it cannot.

`tests/nnapi/test_runtime.py` has what every runtime does.
"""

import ctypes
import os
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.codes import DeviceCode, OperandCode, ResultCode, feature_level_code
from ep_nnapi.nnapi.errors import RuntimeFailure, SpecError, Unresponsive
from ep_nnapi.nnapi.library import binding
from ep_nnapi.nnapi.library.binding import failed, within
from ep_nnapi.nnapi.library.memory_file import available_memory
from ep_nnapi.nnapi.library.runtime import DEFAULT_DEVICE, LibraryRuntime
from ep_nnapi.nnapi.library.weights import is_large, large_constants, with_constants
from ep_nnapi.nnapi.model import Data, Model, Operand
from ep_nnapi.nnapi.runtime import CompileOptions, Device, RunOptions
from tests.nnapi.build import BOOL8, F32, NONE, Q8S, chain, constant, one, relu, tensor
from tests.nnapi.library.recorded import Recorded

X = np.float32([[-1, 0, 1], [2, -3, 4]])


class Other(Recorded):
    """Its devices report another type, level or name than they have."""

    def __init__(self, kind: int = 2, level: int = 8, name: bytes = b"cpu") -> None:
        self.kind, self.level, self.name = kind, level, ctypes.c_char_p(name)
        super().__init__()

    def code(self, name: str, *arguments: object) -> int:
        code = super().code(name, *arguments)
        into = getattr(arguments[-1], "_obj", None) if arguments else None
        if name == "Device_getType":
            into.value = self.kind
        elif name == "Device_getFeatureLevel":
            into.value = feature_level_code(self.level) if self.level else 26
        elif name == "Device_getName":
            into.value = self.name.value
        return code


def test_devices_are_listed_once() -> None:
    functions = Recorded()
    runtime = LibraryRuntime(functions)
    assert runtime.devices() == runtime.devices()
    assert functions.calls["getDeviceCount"] == 1
    assert LibraryRuntime(functions).devices() == runtime.devices()
    assert functions.calls["getDeviceCount"] == 1


@pytest.mark.parametrize(
    ("kind", "expected"),
    [(4, DeviceCode.ACCELERATOR), (0, DeviceCode.UNKNOWN), (99, DeviceCode.UNKNOWN)],
)
def test_types_that_nnapi_does_not_define_are_unknown(kind: int, expected: DeviceCode) -> None:
    assert {d.type for d in LibraryRuntime(Other(kind)).devices()} == {expected}


def test_a_device_has_at_most_the_level_of_its_library() -> None:
    assert {d.feature_level for d in LibraryRuntime(Other(level=3)).devices()} == {3}
    functions = Other(level=8)
    functions.feature_level = 5
    assert {d.feature_level for d in LibraryRuntime(functions).devices()} == {5}


def test_devices_below_level_1_are_left_out() -> None:
    assert LibraryRuntime(Other(level=0)).devices() == ()


def test_a_name_that_is_not_utf8() -> None:
    assert {d.name for d in LibraryRuntime(Other(name=b"gpu\xff")).devices()} == {"gpu\ufffd"}


def default() -> LibraryRuntime:
    """A library of feature level 2, which cannot list devices."""
    return LibraryRuntime(Recorded(hidden=["getDeviceCount", "Compilation_createForDevices"]))


def test_without_functions_for_devices_there_is_the_default_one() -> None:
    runtime = default()
    assert runtime.feature_level == 2
    assert runtime.devices() == (Device(DEFAULT_DEVICE, DeviceCode.UNKNOWN, "", 2),)
    assert runtime.supported(chain((0, 1), (1, 2)), runtime.devices()[0]) == (True, True)


def test_the_default_device_compiles_and_is_not_timed() -> None:
    runtime, found = default(), []
    made = runtime.compile(relu(), runtime.devices()[0], CompileOptions(timeout_ns=10**11))
    (result,) = made.run([X], (), RunOptions(measure=found.append))
    np.testing.assert_array_equal(result, np.maximum(X, 0))
    assert found == []
    calls = runtime.functions.calls
    assert calls["Compilation_create"] == 1
    assert not calls["Compilation_setTimeout"]


def test_models_are_checked_for_the_librarys_level() -> None:
    signed = relu(tensor(Q8S, 2, 3, scale=1.0))
    runtime = LibraryRuntime(Recorded())
    assert runtime.supported(signed, runtime.devices()[0]) == (True,)
    with pytest.raises(SpecError, match="needs feature level 4"):
        default().compile(signed, default().devices()[0])


def test_an_unknown_device() -> None:
    device = Device("gpu", DeviceCode.GPU, "", 8)
    for ask in (default().supported, LibraryRuntime(Recorded()).compile):
        with pytest.raises(RuntimeFailure, match="there is no device gpu"):
            ask(relu(), device)


def test_a_library_that_cannot_say_what_a_device_supports() -> None:
    name = "Model_getSupportedOperationsForDevices"
    runtime = LibraryRuntime(Recorded(fails={name: ResultCode.UNAVAILABLE_DEVICE}))
    with pytest.raises(RuntimeFailure, match=f"{name}.*UNAVAILABLE_DEVICE"):
        runtime.supported(relu(), runtime.devices()[0])


LONG_NS = 60_000_000_000  # far longer than any of these calls takes


def test_without_a_timeout_the_call_stays_on_its_thread() -> None:
    assert within(None, "Execution_compute", threading.get_ident) == threading.get_ident()


def test_with_one_it_has_a_thread_of_its_own() -> None:
    assert within(LONG_NS, "Execution_compute", threading.get_ident) != threading.get_ident()
    names = within(LONG_NS, "Execution_compute", lambda: threading.current_thread().name)
    assert names == "nnapi Execution_compute"


@pytest.mark.parametrize("timeout", [None, LONG_NS])
@pytest.mark.parametrize("result", [None, 0, [1]])
def test_the_result_is_returned(timeout: int | None, result: object) -> None:
    assert within(timeout, "Execution_compute", lambda: result) is result


@pytest.mark.parametrize("timeout", [None, LONG_NS])
@pytest.mark.parametrize(
    "error", [failed("Model_finish", ResultCode.BAD_DATA), KeyboardInterrupt(), SystemExit(1)]
)
def test_the_exception_is_raised(timeout: int | None, error: BaseException) -> None:
    def call() -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        within(timeout, "Model_finish", call)
    assert caught.value is error


def test_a_call_that_does_not_return_is_abandoned() -> None:
    released, ended = threading.Event(), threading.Event()

    def call() -> None:
        released.wait()
        ended.set()

    with pytest.raises(Unresponsive, match=r"it has not returned 0\.001 s on") as caught:
        within(1_000_000, "Compilation_finish", call)
    assert isinstance(caught.value, RuntimeFailure)
    assert caught.value.call == "ANeuralNetworksCompilation_finish"
    assert caught.value.code == "ANEURALNETWORKS_MISSED_DEADLINE_PERSISTENT"
    assert not ended.is_set()
    released.set()
    assert ended.wait(60)  # the abandoned call may end later, and nobody sees it


def test_a_driver_that_reports_its_deadline_soon_after_it_is_heard(monkeypatch: pytest.MonkeyPatch):
    """Within the grace its own failure comes before Unresponsive."""
    monkeypatch.setattr(binding, "_GRACE_NS", LONG_NS)
    missed = failed("Execution_compute", ResultCode.MISSED_DEADLINE_TRANSIENT)
    late = threading.Event()

    def call() -> None:
        late.wait(0.002)  # twice the timeout
        raise missed

    with pytest.raises(RuntimeFailure) as caught:
        within(1_000_000, "Execution_compute", call)
    assert caught.value is missed


MEMINFO = "MemTotal: 9000 kB\nMemFree: 100 kB\nMemAvailable: 3000 kB\nSwapFree: 500 kB\n"
MACHINE = 3500 * 1024


def files(root: Path, contents: dict[str, str]) -> Path:
    for name, text in contents.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    ("contents", "expected"),
    [
        ({"proc/meminfo": MEMINFO}, MACHINE),
        ({"proc/meminfo": "MemTotal: 9000 kB\n"}, None),  # kernels before 3.14
        ({}, None),
    ],
)
def test_of_a_machine(tmp_path: Path, contents: dict[str, str], expected: int | None):
    assert available_memory(files(tmp_path, contents)) == expected


def group(folder: str, limit: str, use: str) -> dict[str, str]:
    names = ("memory.max", "memory.current", "memory.stat")
    return dict(
        zip(
            (f"sys/fs/cgroup/{folder}{name}" for name in names),
            (f"{limit}\n", f"{use}\n", "anon 7\ninactive_file 50\n"),
            strict=True,
        )
    )


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        (group("a/b/", "1000", "300"), 750),  # what is cached of files can be dropped
        (group("a/b/", "max", "300"), MACHINE),
        (group("a/b/", "1000", "300") | group("a/", "800", "400"), 450),  # the one around it
        (group("", "1000", "300"), 750),  # a container shows its group at the top
        (group("a/b/", "100", "300"), 0),
        (group("c/", "1000", "300"), MACHINE),  # another process's
    ],
)
def test_of_control_groups_2(tmp_path: Path, groups: dict[str, str], expected: int):
    contents = {"proc/meminfo": MEMINFO, "proc/self/cgroup": "0::/a/b\n", **groups}
    assert available_memory(files(tmp_path, contents)) == expected


@pytest.mark.parametrize("name", ["größe".encode(), b"not \xff UTF-8", "two\u2028\rlines".encode()])
def test_names_of_control_groups_are_any_bytes_but_newlines(tmp_path: Path, name: bytes):
    files(tmp_path, group(f"{os.fsdecode(name)}/", "1000", "300"))
    (tmp_path / "proc" / "self").mkdir(parents=True)
    (tmp_path / "proc" / "self" / "cgroup").write_bytes(b"0::/" + name + b"\n")
    assert available_memory(tmp_path) == 750


def test_of_control_groups_1(tmp_path: Path):
    contents = {
        "proc/meminfo": MEMINFO,
        "proc/self/cgroup": "4:cpu,cpuacct:/a\n3:memory:/a\n",
        "sys/fs/cgroup/memory/a/memory.limit_in_bytes": "1000\n",
        "sys/fs/cgroup/memory/a/memory.usage_in_bytes": "300\n",
        "sys/fs/cgroup/memory/a/memory.stat": "cache 9\ntotal_inactive_file 50\n",
    }
    assert available_memory(files(tmp_path, contents)) == 750


def test_of_this_machine():
    """Some of it is left: the test runs."""
    found = available_memory()
    assert found is None or found > 0


def added(weights: np.ndarray) -> Model:
    """x + weights."""
    x = tensor(F32, weights.size)
    return one(spec.ADD, [x, constant(weights), NONE], [x])


def chosen(*branches: Model) -> Model:
    """IF over two branches."""
    x = branches[0].operands[0]
    models = [Operand(OperandCode.MODEL, value=b) for b in branches]
    return one(spec.IF, [tensor(BOOL8, 1), *models, x], [x])


def floats(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random(count, np.float32)


@pytest.mark.parametrize(("size", "large"), [(0, False), (128, False), (129, True), (4096, True)])
def test_nnapi_copies_up_to_128_bytes(size: int, large: bool) -> None:
    assert is_large(Data(np.zeros(size, np.uint8))) is large


def test_those_of_submodels_are_found_and_small_ones_are_not() -> None:
    first, second = added(floats(40)), added(floats(40, seed=1))
    assert large_constants(added(floats(32))) == []
    assert large_constants(first) == [first.operands[1].value]
    found = large_constants(chosen(first, second))
    assert {id(d) for d in found} == {id(m.operands[1].value) for m in (first, second)}


def test_a_shared_submodel_is_searched_once() -> None:
    branch = added(floats(40))
    assert large_constants(chosen(branch, branch)) == [branch.operands[1].value]


def test_replaced_constants_stand_in_an_equal_model() -> None:
    branch = added(floats(40))
    model = chosen(branch, branch)
    old = branch.operands[1].value
    new = Data(old.bytes.copy())
    changed = with_constants(model, {id(old): new})
    assert changed == model
    inner = [o.value for o in changed.operands if isinstance(o.value, Model)]
    assert inner[0] is inner[1]  # still one submodel
    assert inner[0].operands[1].value is new
    assert branch.operands[1].value is old  # the given model is unchanged


def test_constants_that_are_not_named_stay_the_same_objects() -> None:
    model = added(floats(40))
    assert with_constants(model, {}) is model
    changed = with_constants(model, {-1: Data(np.zeros(1, np.uint8))})
    assert changed.operands[1].value is model.operands[1].value
    assert changed == replace(model)
