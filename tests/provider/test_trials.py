"""Trials: deadlines and notes, which the C plugin's trials share."""

import os
import time
from _thread import interrupt_main
from pathlib import Path
from signal import SIGHUP, SIGKILL, SIGSEGV, SIGTERM, Signals
from threading import Event, Thread

import pytest

from ep_nnapi.provider.trials import DidNotReturn, TrialNote
from tests.programs import python


def note(folder: Path, device: str = "gpu", by: bytes = b"cluster") -> TrialNote:
    return TrialNote.of(str(folder), b"model", "n", f"{device} 1", by)


def test_what_returns_leaves_no_note(tmp_path: Path):
    noted = []

    def work() -> int:
        noted.extend(path.read_text() for path in tmp_path.iterdir())
        return 7

    assert note(tmp_path).within(9, "run", "nnapi:1 on gpu", work) == 7
    assert noted == ["nnapi:1 on gpu\n"]
    assert not [*tmp_path.iterdir()]


def test_an_error_is_raised_and_leaves_no_note(tmp_path: Path):
    with pytest.raises(ZeroDivisionError):
        note(tmp_path).within(9, "run", "x", lambda: 1 // 0)
    assert not [*tmp_path.iterdir()]


def test_who_is_interrupted_leaves_no_note_of_what_returns(tmp_path: Path):
    may_return = Event()

    def work() -> None:
        interrupt_main()
        may_return.wait(60)

    with pytest.raises(KeyboardInterrupt):
        note(tmp_path).within(60, "compile", "x", work)
    assert [*tmp_path.iterdir()]
    may_return.set()
    for _ in range(6000):
        if not [*tmp_path.iterdir()]:
            break
        time.sleep(0.01)
    assert not [*tmp_path.iterdir()]


INTERRUPTED = """
import os, sys, time
from _thread import interrupt_main
from ep_nnapi.provider.trials import TrialNote

def work():
    interrupt_main()
    time.sleep(60)

try:
    TrialNote.of(sys.argv[1], b"model", "n", "gpu 1", b"cluster").within(
        float(sys.argv[2]), "compile", "x", work)
except KeyboardInterrupt:
    child = os.fork()
    if child == 0:
        sys.exit()
    os.waitpid(child, 0)
    print(len(os.listdir(sys.argv[1])))
    time.sleep(float(sys.argv[3]))
"""


@pytest.mark.parametrize(("seconds", "later", "left"), [(60, 0, 0), (0.5, 0.6, 1)])
def test_a_program_that_ends_for_ctrl_c_blames_what_was_late_alone(
    seconds: float, later: float, left: int, tmp_path: Path
):
    """A driver that was compiling when the user gave up is tried again.

    A process that is forked meanwhile leaves the note.
    """
    done = python(INTERRUPTED, tmp_path, seconds, later)
    assert (done.stdout, len([*tmp_path.iterdir()])) == ("1\n", left)


SIGNALLED = """
import os, sys
from signal import SIGTERM, raise_signal, signal
from threading import Event, Thread
from ep_nnapi.provider.trials import TrialNote

folder, number, words = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
note = TrialNote.of(folder, b"model", "n", "gpu 1", b"cluster")
note.within(9, "run", "x", lambda: None)
handled = Event()

def handle(*_):
    print(len(os.listdir(folder)))
    handled.set()

def work():
    raise_signal(number)
    handled.wait()

if "handled" in words:
    signal(SIGTERM, handle)
if "late" in words:
    try:
        note.within(0.01, "run", "x", Thread(target=lambda: os.read(os.pipe()[0], 1)).run)
    except Exception:
        raise_signal(number)
elif "forked" in words:
    with note.written("x"):
        child = os.fork()
        if child == 0:
            raise_signal(number)
        os.waitpid(child, 0)
        print(len(os.listdir(folder)))
else:
    made = Thread(target=note.within, args=(9, "run", "x", work))
    made.start()
    while made.is_alive():  # a handler is called between two calls of the main thread
        made.join(0.05)
"""


@pytest.mark.parametrize(
    ("number", "words", "status", "said", "left"),
    [
        (SIGTERM, [], -SIGTERM, "", 0),
        (SIGHUP, [], -SIGHUP, "", 0),
        (SIGKILL, [], -SIGKILL, "", 1),
        (SIGSEGV, [], -SIGSEGV, "", 1),
        (SIGTERM, ["late"], -SIGTERM, "", 1),
        (SIGTERM, ["handled"], 0, "1\n", 0),
        (SIGTERM, ["forked"], 0, "1\n", 0),
    ],
)
def test_a_signal_that_a_user_or_the_system_sends_blames_no_driver(
    number: Signals, words: list[str], status: int, said: str, left: int, tmp_path: Path
):
    """In the session of any thread. A handler of the program's is called and the trial goes on.

    A driver is late, or ends by signals of its own; a forked process has no note of its parent's.
    """
    done = python(SIGNALLED, tmp_path, int(number), *words, status=status)
    assert (done.stdout, len([*tmp_path.iterdir()])) == (said, left)


def test_one_that_cannot_begin_leaves_no_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(_: Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(Thread, "start", refuse)
    with pytest.raises(RuntimeError):
        note(tmp_path).within(9, "run", "x", lambda: None)
    assert not [*tmp_path.iterdir()]


def test_what_hangs_is_noted_for_all_clusters_of_the_model(tmp_path: Path):
    with pytest.raises(DidNotReturn, match=r"it did not compile within 0\.01 s"):
        note(tmp_path).within(0.01, "compile", "x", lambda: time.sleep(0.5))
    for by in (b"cluster", b"another"):
        with pytest.raises(DidNotReturn, match="an earlier start ended in it, as "):
            note(tmp_path, by=by).check_free()
    note(tmp_path, "npu").check_free()
    with pytest.raises(DidNotReturn):
        note(tmp_path, "cpu").check_free(whole=True)


def test_another_trial_of_the_device_leaves_the_note(tmp_path: Path):
    note(tmp_path).write("trying", "x")
    note(tmp_path, by=b"another").within(9, "run", "y", lambda: None)
    with pytest.raises(DidNotReturn):
        note(tmp_path).check_free()


def test_trials_at_the_same_time_do_not_stop_each_other(tmp_path: Path):
    """Two sessions, in one process or in two, share a folder of notes."""

    def others() -> int:
        for whole in (False, True):
            note(tmp_path).check_free(whole=whole)
        return note(tmp_path).within(9, "run", "y", lambda: len([*tmp_path.iterdir()]))

    assert note(tmp_path).within(9, "run", "x", others) == 2
    with note(tmp_path).written("x"):
        note(tmp_path).check_free()
    assert not [*tmp_path.iterdir()]


def test_a_process_that_ends_in_a_trial_leaves_its_note(tmp_path: Path):
    child = os.fork()
    if child == 0:
        with note(tmp_path).written("x"):
            os._exit(0)
    os.waitpid(child, 0)
    with pytest.raises(DidNotReturn, match=r"an earlier start ended in it, as .*\.trying says"):
        note(tmp_path).check_free()


def test_without_a_folder_nothing_is_noted():
    none = TrialNote.of(None, b"model", "n", "gpu")
    none.check_free()
    assert none.within(9, "run", "x", lambda: 3) == 3
