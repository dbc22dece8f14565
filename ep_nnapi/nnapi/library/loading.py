"""Search and loading of an NNAPI library."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

from ep_nnapi.nnapi.errors import OptionError
from ep_nnapi.nnapi.library.binding import Functions

SYSTEM = "system"
"""The name of the library that Android provides."""

_NAME = "libneuralnetworks.so"
_BITS = "64" if ctypes.sizeof(ctypes.c_void_p) == 8 else ""
SYSTEM_PATHS = (
    _NAME,
    f"/apex/com.android.neuralnetworks/lib{_BITS}/{_NAME}",
    f"/system/lib{_BITS}/{_NAME}",
)
"""Where Android's library is looked for, in this order. The first is the linker's own search.

It is an APEX module from Android 11 on, a part of the system before.
"""


@cache
def load(name: str) -> Functions:
    """The functions of the library `name`: SYSTEM, or a path. Each is loaded once in a process.

    Raises OptionError if there is none, if it cannot be loaded or is no NNAPI library.
    """
    if name != SYSTEM:
        return _loaded(name)
    for path in SYSTEM_PATHS:
        try:
            library = ctypes.CDLL(path)
        except OSError:
            continue
        return Functions(library, path)
    raise OptionError(
        f"runtime {SYSTEM}: there is no {_NAME}, which Android has from 8.1 on; "
        "name a library's path, or host"
    )


def _loaded(name: str) -> Functions:
    path = Path(name).absolute()
    if not path.is_file():
        raise OptionError(f"runtime {name}: no such file; name a {_NAME}, system or host")
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise OptionError(f"runtime {name} cannot be loaded: {error}") from None
    return Functions(library, str(path))
