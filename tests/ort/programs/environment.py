"""A host of ONNX Runtime's C library that creates its environment with configuration entries.

    python environment.py LIBRARY_OF_ONNXRUNTIME PLUGIN REGISTERED_NAME [KEY=VALUE...]

Prints, for each device of the plugin, its metadata `nnapi_device`, or - without it. The module
onnxruntime, which creates an environment when it is imported, is not used.
"""

import ctypes
import sys
from ctypes import POINTER, byref, c_char_p, c_int32, c_size_t, c_uint32, c_void_p

NAME = b"NnapiPluginExecutionProvider"
STATUS_MESSAGE, CREATE_PAIRS, ADD_PAIR, PAIR_OF = 2, 295, 296, 297
REGISTER, DEVICES, EP_NAME, EP_METADATA, CREATE_ENV = 301, 303, 312, 314, 406


class EnvCreationOptions(ctypes.Structure):
    """OrtEnvCreationOptions."""

    _fields_ = (
        ("version", c_uint32),
        ("severity", c_int32),
        ("log_id", c_char_p),
        ("logging_function", c_void_p),
        ("logging_param", c_void_p),
        ("threading_options", c_void_p),
        ("config_entries", c_void_p),
    )


def main(library: str, plugin: str, registered: str, *entries: str) -> None:
    base = ctypes.CDLL(library).OrtGetApiBase
    base.restype = POINTER(c_void_p)
    version = 25
    get_api = ctypes.CFUNCTYPE(POINTER(c_void_p), c_uint32)(base()[0])
    api = get_api(version)

    def call(slot: int, *arguments: object, returns: type = c_void_p) -> object:
        kinds = [c_void_p if not isinstance(a, bytes) else c_char_p for a in arguments]
        return ctypes.CFUNCTYPE(returns, *kinds)(api[slot])(*arguments)

    def check(status: object) -> None:
        if status:
            sys.exit(str(call(STATUS_MESSAGE, c_void_p(status), returns=c_char_p)))

    pairs, env = c_void_p(), c_void_p()
    call(CREATE_PAIRS, byref(pairs))
    for entry in entries:
        call(ADD_PAIR, pairs, *(part.encode() for part in entry.split("=")))
    severity_of_errors = 3
    options = EnvCreationOptions(version, severity_of_errors, b"host", None, None, None, pairs)
    check(call(CREATE_ENV, byref(options), byref(env)))
    check(call(REGISTER, env, registered.encode(), plugin.encode()))
    devices, count = POINTER(c_void_p)(), c_size_t()
    check(call(DEVICES, env, byref(devices), byref(count)))
    for device in map(c_void_p, devices[: count.value]):
        if call(EP_NAME, device, returns=c_char_p) == NAME:
            metadata = c_void_p(call(EP_METADATA, device))
            name = call(PAIR_OF, metadata, b"nnapi_device", returns=c_char_p) or b"-"
            sys.stdout.write(f"{name.decode()}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
