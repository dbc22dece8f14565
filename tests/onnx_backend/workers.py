"""Work spread over processes, where a crash or a hang costs one item and is reported as such."""

import itertools
import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from time import monotonic
from typing import Any

PATIENCE = 120.0  # seconds that one item may take on a busy machine


@dataclass
class _Worker:
    """A process, our end of the pipe to it, the item it works on and since when."""

    process: BaseProcess
    pipe: Connection
    item: int = -1
    since: float = 0.0

    def give(self, item: int) -> None:
        self.item, self.since = item, monotonic()
        self.pipe.send(item)


@dataclass(frozen=True)
class Died:
    """Result of an item that ended its process."""

    how: str


def spread(
    work: Callable[[Any], Any], items: Sequence[Any], processes: int = 2
) -> Iterator[tuple[int, Any]]:
    """(index, `work(item)`) in the order in which they are done; Died for those that crash.

    The processes are forked, so that `items` are not copied: call it before anything has started
    threads (ONNX Runtime does with its first session).
    """
    todo = iter(range(len(items)))
    workers: list[_Worker] = []
    try:
        for item in itertools.islice(todo, processes):
            workers.append(_start(work, items, item))
        while workers:
            ready = wait([w.pipe for w in workers], timeout=1.0)
            for worker in list(workers):
                if worker.pipe in ready or monotonic() - worker.since > PATIENCE:
                    yield worker.item, _result(worker)
                    workers.remove(worker)
                    item = next(todo, None)
                    if item is not None and worker.process.is_alive():
                        worker.give(item)
                        workers.append(worker)
                    elif item is not None:
                        workers.append(_start(work, items, item))
                    else:
                        _stop(worker)
    finally:
        for worker in workers:
            _stop(worker)


def _start(work: Callable[[Any], Any], items: Sequence[Any], item: int) -> _Worker:
    fork = multiprocessing.get_context("fork")
    ours, theirs = fork.Pipe()
    process = fork.Process(target=_serve, args=(work, items, theirs), daemon=True)
    process.start()
    theirs.close()
    worker = _Worker(process, ours)
    worker.give(item)
    return worker


def _serve(work: Callable[[Any], Any], items: Sequence[Any], pipe: Connection) -> None:
    while (item := pipe.recv()) is not None:
        pipe.send(work(items[item]))


def _result(worker: _Worker) -> Any:
    """Result of the worker, or its exit; a worker that sent nothing has ended."""
    if not worker.pipe.poll():
        worker.process.kill()
        worker.process.join()
        return Died(f"no answer in {PATIENCE:.0f} s")
    try:
        return worker.pipe.recv()
    except EOFError:
        worker.process.join()
        code = worker.process.exitcode or 0
        return Died(signal.Signals(-code).name if code < 0 else f"exit status {code}")


def _stop(worker: _Worker) -> None:
    worker.process.kill()
    worker.process.join()
    worker.pipe.close()
