"""Makes objects of the C API through a client, and frees them."""

import ctypes as c
from collections.abc import Callable

import numpy as np

from ep_nnapi.nnapi.runtime import REFERENCE_DEVICE
from tests.capi.client import Library

OK = 0
_BUFFERS: list[object] = []
"""Those of all makers: executions whose events nobody has waited for may still write to them."""


class Maker:
    """Makes objects; `close` frees them all, in the reverse order."""

    def __init__(self, nn: Library) -> None:
        self.nn = nn
        self.keep: list[object] = []
        self._made: list[tuple[Callable[[int], None], int]] = []
        self.a = np.array([1, 2], np.float32)
        self.b = np.array([10, 20], np.float32)
        self.out = np.zeros(2, np.float32)
        _BUFFERS.append((self.a, self.b, self.out))

    def close(self) -> None:
        for free, handle in reversed(self._made):
            free(handle)

    def make(self, create: str, *arguments: object) -> int:
        """The handle that an API function gives; it must succeed."""
        handle = c.c_void_p()
        assert getattr(self.nn, create)(*arguments, c.byref(handle)) == OK
        kind = create.split("_", maxsplit=1)[0]
        free = "Event" if create.startswith("Execution_start") else kind
        if free:
            self._made.append((getattr(self.nn, f"{free}_free"), handle.value))
        return handle.value

    def check(self, function: str, *arguments: object) -> None:
        """Calls what must succeed."""
        code = getattr(self.nn, function)(*arguments)
        assert code == OK, f"{function} returned {code}"

    @property
    def device(self) -> int:
        """nnapi-reference, which takes every model."""
        count, handle, name = c.c_uint32(), c.c_void_p(), c.c_char_p()
        self.check("getDeviceCount", c.byref(count))
        for index in range(count.value):
            self.check("getDevice", index, c.byref(handle))
            self.check("Device_getName", handle, c.byref(name))
            if name.value == REFERENCE_DEVICE.encode():
                return handle.value
        raise AssertionError(f"{REFERENCE_DEVICE} is not among {count.value} devices")

    def devices(self, *handles: int) -> c.Array:
        """An array of handles."""
        array = (c.c_void_p * max(1, len(handles)))(*handles)
        self.keep.append(array)
        return array
