"""A server whose workers do what no model should make a worker do: for tests of the limits."""

from __future__ import annotations

import os
import time

import numpy as np

from ep_nnapi.preparation import worker
from ep_nnapi.preparation.worker_pool import Data


def sleep(task: Data) -> Data:
    time.sleep(task["seconds"])
    return {}


def allocate(task: Data) -> Data:
    return {"size": np.empty(task["bytes"], np.uint8).size}


def crash(task: Data) -> Data:
    os.kill(os.getpid(), task["signal"])
    return {}


def leave(task: Data) -> Data:
    raise SystemExit(f"leaving with {task['code']}")


def identify(task: Data) -> Data:
    return {"worker": os.getpid(), "server": os.getppid(), "folder": os.getcwd()}


worker.STEPS = {
    "sleep": sleep,
    "allocate": allocate,
    "crash": crash,
    "leave": leave,
    "identify": identify,
}
main = worker.main
