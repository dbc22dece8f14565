"""The option --runtime: what the tests of the provider and of operators run on; one server.

The command line as a fixture.
"""

import gc
import os
import signal
from collections.abc import Iterator
from contextlib import nullcontext

import pytest

from ep_nnapi.cli.main import main
from ep_nnapi.preparation import batch
from ep_nnapi.preparation.worker_pool import step_pool
from ep_nnapi.provider import cluster_selection, devices
from ep_nnapi.workers import WorkerPool
from tests import runtimes
from tests.cli.command import DONE, UNUSABLE

DEFAULTS = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--runtime",
        choices=[runtimes.HOST, runtimes.LIBRARY],
        default=None,
        help="host (default), or library: the same devices through the NNAPI C API",
    )


def pytest_configure(config: pytest.Config) -> None:
    chosen = config.getoption("--runtime")
    if chosen is not None:
        os.environ[runtimes.VARIABLE] = chosen  # test modules and worker processes read it
    # a suite in the background of a shell or under nohup: programs of tests would inherit it
    for number, default in DEFAULTS.items():
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, default)


def pytest_collection_finish() -> None:
    """The tests themselves stay: collections of cycles leave out their 500,000 objects."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def _runtime() -> Iterator[None]:
    with runtimes.installed():
        yield


@pytest.fixture(scope="session")
def _server() -> Iterator[WorkerPool]:
    with step_pool() as pool:
        yield pool


@pytest.fixture(autouse=True)
def _as_tests_want_it(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, _server: WorkerPool
) -> None:
    """Sessions run on nnapi-reference: a test compares with ONNX, not with the CPU provider.

    They also take single nodes that only move bytes. Tests marked `fast_devices` are about the
    devices and nodes that are chosen without this. Each `prepare` uses the same server, which has
    its imports; workers are new. That objects are frozen is known: counting them takes 10 ms.
    """
    monkeypatch.setattr(gc, "get_freeze_count", lambda: 1)
    monkeypatch.setattr(batch, "step_pool", lambda: nullcontext(_server))
    if "fast_devices" not in request.keywords:
        monkeypatch.setattr(devices, "FAST_DEVICES", ())
        monkeypatch.setattr(cluster_selection, "MOVES_BYTES", frozenset())


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str]):
    """Runs the command line here; what it returned and printed, ONNX Runtime's C++ included."""

    def run(*arguments: object) -> tuple[int, str, str]:
        capfd.readouterr()
        code = main([str(a) for a in arguments])
        captured = capfd.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def shows(cli):
    """What a command prints that succeeds: exit 0, nothing on stderr."""

    def of(*arguments: object) -> str:
        code, out, err = cli(*arguments)
        assert (code, err) == (DONE, "")
        return out

    return of


@pytest.fixture
def refuses(cli):
    """The arguments are refused: exit 2, nothing on stdout, one sentence on stderr."""

    def check(*arguments: object, says: str) -> None:
        code, out, err = cli(*arguments)
        assert (code, out) == (UNUSABLE, "")
        assert err.startswith("ep-nnapi: ")
        assert err.count("\n") == 1
        assert says in err
        assert "Traceback" not in err

    return check
