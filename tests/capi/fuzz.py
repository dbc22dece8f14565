"""Drives the C API with random calls: `python -m tests.capi.fuzz --seconds 60 --seed 1`.

Sequences of two kinds take turns at random: valid ones, which must succeed and compute the right
numbers, and arbitrary ones, in which every call must return a code of the NDK and no exception may
escape its function. Exit status 1 on the first fault, which is printed with the seed and the calls
before it; a crash shows where it was.
"""

import argparse
import faulthandler
import logging
import random
import sys
import tempfile
import threading
import time
from collections import Counter, deque

from ep_nnapi.nnapi.capi import libneuralnetworks_path
from ep_nnapi.nnapi.codes import ResultCode
from tests.capi.client import Library
from tests.capi.fuzz_arbitrary import Caller
from tests.capi.fuzz_valid import chain

CODES = {int(code) for code in ResultCode}
VALID_SHARE = 0.4
THREADS = 2


class Fault(Exception):
    """A fault of the library."""


class Defects(logging.Handler):
    """Exceptions that the library did not expect, as it logs them."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(f"{record.getMessage()}: {record.exc_info}")


class Fuzzer:
    """One thread's sequences."""

    def __init__(self, nn: Library, seed: int, directory: str) -> None:
        self._nn, self._random = nn, random.Random(seed)
        self._caller = Caller(nn, self._random, directory)
        self._log: deque[str] = deque(maxlen=60)
        self.seed = seed
        self.codes: Counter[int] = Counter()
        self.sequences: Counter[str] = Counter()

    def sequence(self) -> None:
        """One sequence of either kind; raises Fault."""
        if self._random.random() < VALID_SHARE:
            try:
                self._log.append(chain(self._nn, self._random))
            except AssertionError as error:
                raise self._fault(f"a valid sequence failed: {error}") from error
            self.sequences["valid"] += 1
            return
        self.sequences["arbitrary"] += 1
        if self._random.random() < 0.1:
            self._caller.populate()
        for _ in range(self._random.randint(1, 30)):
            function, arguments, code = self._caller.call()
            self._log.append(f"{function.python_name}{arguments} -> {code}")
            if function.returns == "int":
                self.codes[code] += 1
                if code not in CODES:
                    raise self._fault(f"{function.python_name} returned {code}")

    def _fault(self, what: str) -> Fault:
        return Fault("\n".join([*self._log, f"seed {self.seed}: {what}"]))


def drive(fuzzer: Fuzzer, end: float, faults: list[str]) -> None:
    """Sequences until the time is over, or something is wrong."""
    while time.monotonic() < end and not faults:
        try:
            fuzzer.sequence()
        except Fault as fault:
            faults.append(str(fault))


def main() -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(31))
    asked = parser.parse_args()
    faulthandler.enable()
    nn, defects = Library(libneuralnetworks_path()), Defects()
    logging.getLogger("ep_nnapi").addHandler(defects)
    sys.stdout.write(f"seed {asked.seed}\n")
    sys.stdout.flush()
    end = time.monotonic() + asked.seconds
    with tempfile.TemporaryDirectory() as directory:
        fuzzers = [Fuzzer(nn, asked.seed + n, directory) for n in range(THREADS)]
        threads = [threading.Thread(target=drive, args=(f, end, defects.found)) for f in fuzzers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    sequences = sum((f.sequences for f in fuzzers), Counter())
    codes = sum((f.codes for f in fuzzers), Counter())
    named = {ResultCode(code).name: n for code, n in sorted(codes.items()) if code in CODES}
    sys.stdout.write("\n".join([*defects.found, f"{dict(sequences)} {named}\n"]))
    return 1 if defects.found or 3 * sequences["valid"] < sequences.total() else 0


if __name__ == "__main__":
    sys.exit(main())
