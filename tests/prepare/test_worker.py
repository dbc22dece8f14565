"""Workers: what crashes, hangs or grows in one is a sentence, and its keeper serves the next."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ep_nnapi import crew
from ep_nnapi.crew import Crew, Limits, Shift
from ep_nnapi.rejection import ModelError, NnapiError

ROOT = Path(__file__).parents[2]
MEMORY = 2_000_000_000  # bytes: what the libraries themselves reserve fits several times
SECONDS = 60.0  # what no step here takes, however busy the machine


@pytest.fixture
def odd(monkeypatch: pytest.MonkeyPatch) -> Iterator[Crew]:
    """A crew whose workers misbehave as they are asked to."""
    monkeypatch.setattr(crew, "KEEPER", "tests.prepare.odd_worker")
    with Crew() as own:
        yield own


def test_each_step_has_a_process_of_its_own(odd: Crew, tmp_path: Path) -> None:
    with odd.keeper() as keeper:
        shift = Shift(keeper, tmp_path, Limits(SECONDS, MEMORY))
        first, second = shift.ask("identify", {}), shift.ask("identify", {})
    with odd.keeper() as again:
        third = Shift(again, tmp_path, Limits(SECONDS, MEMORY)).ask("identify", {})
    assert first["keeper"] == second["keeper"] == third["keeper"]  # imports are paid for once
    assert len({first["worker"], second["worker"], third["worker"]}) == 3
    assert os.getpid() not in (first["worker"], first["keeper"])
    assert first["folder"] == str(tmp_path)


def test_a_crash_ends_only_its_worker(odd: Crew, tmp_path: Path) -> None:
    with odd.keeper() as keeper:
        shift = Shift(keeper, tmp_path, Limits(SECONDS, MEMORY))
        with pytest.raises(ModelError, match=r"crash \(SIGSEGV\)"):
            shift.ask("crash", {"signal": signal.SIGSEGV})
        with pytest.raises(NnapiError, match="leaving with 7"):
            shift.ask("leave", {"code": 7})
        assert shift.ask("identify", {})["keeper"] == keeper.process.pid


def test_time_is_one_for_all_steps_of_a_model(odd: Crew, tmp_path: Path) -> None:
    """At the limit it passes; past it the worker is gone at once, and so is the model's time."""
    with odd.keeper() as keeper:
        shift = Shift(keeper, tmp_path, Limits(SECONDS, MEMORY))
        assert shift.ask("sleep", {"seconds": 0.01}) == {}
        began = time.monotonic()
        late = Shift(keeper, tmp_path, Limits(0.2, MEMORY))
        for seconds in (600, 0):
            with pytest.raises(ModelError, match=r"longer than 0\.2 seconds; allow more"):
                late.ask("sleep", {"seconds": seconds})
        assert time.monotonic() - began < SECONDS
        assert shift.ask("identify", {})


def test_memory_is_limited(odd: Crew, tmp_path: Path) -> None:
    """A worker may allocate as much as fits the limit beside its libraries, and no more."""
    with odd.keeper() as keeper:
        shift = Shift(keeper, tmp_path, Limits(SECONDS, MEMORY))
        assert shift.ask("allocate", {"bytes": MEMORY // 2}) == {"size": MEMORY // 2}
        with pytest.raises(ModelError, match="more than 2 GB of memory; allow more"):
            shift.ask("allocate", {"bytes": MEMORY})
        assert shift.ask("identify", {})


def test_without_a_limit_half_of_the_machines_memory_is_it() -> None:
    whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert Limits(SECONDS).bytes == whole // 2
    assert Limits(SECONDS, MEMORY).bytes == MEMORY


def test_a_keeper_that_does_not_start_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(crew, "KEEPER", "tests.prepare.no_such_module")
    with Crew() as own, own.keeper() as keeper:
        shift = Shift(keeper, tmp_path, Limits(SECONDS, MEMORY))
        with pytest.raises(NnapiError, match="no worker process"):
            shift.ask("identify", {})


_KILLED = """
import sys
from pathlib import Path
from ep_nnapi import crew
crew.KEEPER = "tests.prepare.odd_worker"
with crew.Crew() as own, own.keeper() as keeper:
    shift = crew.Shift(keeper, Path(sys.argv[1]), crew.Limits(60, 10**10))
    print(keeper.process.pid, flush=True)
    shift.ask("sleep", {"seconds": 600})
"""


def test_workers_end_with_whoever_asked(tmp_path: Path) -> None:
    """A run that is killed leaves neither a keeper nor a worker behind."""
    with subprocess.Popen(
        [sys.executable, "-c", _KILLED, str(tmp_path)], stdout=subprocess.PIPE, cwd=ROOT
    ) as run:
        assert run.stdout is not None
        keeper = int(run.stdout.readline())
        deadline = time.monotonic() + SECONDS
        while not (tmp_path / crew.SAID).exists():  # its worker is at work
            assert time.monotonic() < deadline
            time.sleep(0.02)
        children = Path(f"/proc/{keeper}/task/{keeper}/children").read_text().split()
        assert len(children) == 1
        run.kill()
    while any(_runs(int(pid)) for pid in (keeper, *children)):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _runs(process: int) -> bool:
    """Whether it is there, and not only because nobody has asked how it ended."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return not state.startswith("Z")
