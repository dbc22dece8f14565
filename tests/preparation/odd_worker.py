"""A server whose workers do what no model should make a worker do: for tests of the limits."""

from __future__ import annotations

import ctypes
import os
import time

import numpy as np

from ep_nnapi.preparation import worker
from ep_nnapi.workers import JsonObject


def sleep(task: JsonObject) -> JsonObject:
    time.sleep(task["seconds"])
    return {}


def allocate(task: JsonObject) -> JsonObject:
    return {"size": np.empty(task["bytes"], np.uint8).size}


def crash(task: JsonObject) -> JsonObject:
    os.kill(os.getpid(), task["signal"])
    return {}


def leave(task: JsonObject) -> JsonObject:
    raise SystemExit(f"leaving with {task['code']}")


def stop_in_c(task: JsonObject) -> JsonObject:
    """Calls C's exit, as libjpeg does for bytes that are no image."""
    os.write(2, b"no image\n")
    _library.exit(task["code"])
    return {}


def identify(task: JsonObject) -> JsonObject:
    return {"worker": os.getpid(), "server": os.getppid(), "folder": os.getcwd()}


worker.STEPS = {
    "sleep": sleep,
    "allocate": allocate,
    "crash": crash,
    "leave": leave,
    "stop_in_c": stop_in_c,
    "identify": identify,
}
_library = ctypes.CDLL(None)
_library.__cxa_atexit(_library.sleep, ctypes.c_void_p(600), None)  # as for threads that are gone


def main() -> None:
    worker.main()
    os._exit(0)
