"""Lines, tables and progress on a terminal, full-width lines to a pipe, and exit codes.

Names of nodes and files are untrusted text, so all output for people is escaped here.

rich is imported only if the output is a terminal, since most commands write to a pipe.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import fields, is_dataclass
from math import isfinite, isnan
from typing import TextIO, cast

from ep_nnapi.nnapi.errors import printable

DONE, NEGATIVE, UNUSABLE, FAILED = 0, 1, 2, 3
"""Exit codes: done, a negative answer, input that cannot be used, the NNAPI runtime failed."""

_A_SECOND = 2  # refresh rate of the progress bar, which shows whole seconds
_WHOLE = 15  # columns up to this width hold numbers and short names and are not wrapped
_LEAST = 10  # width of a column that is wrapped: less is a word a line


class _UntilClosed:
    """A text stream that drops what its reader, such as `head`, no longer reads.

    An OSError, as of a full disk, has `name` as its file.
    """

    def __init__(self, stream: TextIO, name: str) -> None:
        self._stream, self._name = stream, name

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Writes the text; returns its length."""
        with self._dropping():
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Writes what is buffered."""
        with self._dropping():
            self._stream.flush()

    @contextmanager
    def _dropping(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)
        except OSError as error:
            raise OSError(error.errno, error.strerror, self._name) from None


@contextmanager
def until_closed() -> Iterator[None]:
    """Lets a command whose output nobody reads any more go on to its exit code."""
    out = cast("TextIO", _UntilClosed(sys.stdout, "standard output"))
    error = cast("TextIO", _UntilClosed(sys.stderr, "standard error"))
    with redirect_stdout(out), redirect_stderr(error):
        yield


def line(text: str = "", *, error: bool = False) -> None:
    """Prints a line to stdout or stderr, with newlines and terminal sequences escaped."""
    print(printable(text), file=sys.stderr if error else sys.stdout)


def unusable(error: OSError) -> int:
    """Prints what the operating system says, with the file that it is about; returns UNUSABLE."""
    removed = "the current folder: " if isinstance(error, FileNotFoundError) else ""
    about = f"{error.filename}: " if error.filename else removed
    line(f"ep-nnapi: {about}{error.strerror or error}", error=True)
    return UNUSABLE


def print_json(data: object) -> None:
    """Prints the data as standard JSON, whose strings are escaped."""
    print(json.dumps(strict(data), indent=2, allow_nan=False))


def print_result(
    as_json: bool, data: Callable[[], object], show: Callable[..., None], *about: object
) -> None:
    """Prints the data as JSON, or what `show` prints about its arguments."""
    if as_json:
        print_json(data())
    else:
        show(*about)


def strict(data: object) -> object:
    """Returns the data with null for numbers that are not finite, explained by `KEY_reason`.

    An instance of a dataclass becomes a dictionary of its fields.
    """
    if is_dataclass(data):
        data = {f.name: getattr(data, f.name) for f in fields(data)}
    if isinstance(data, Mapping):
        found = {key: strict(value) for key, value in data.items()}
        reasons = {f"{key}_reason": _reason(value) for key, value in data.items()}
        return found | {key: reason for key, reason in reasons.items() if reason is not None}
    if isinstance(data, Sequence) and not isinstance(data, str):
        return [strict(value) for value in data]
    return None if _reason(data) is not None else data


def _reason(value: object) -> str | None:
    if not isinstance(value, float) or isfinite(value):
        return None
    return "not a number" if isnan(value) else "infinite"


def number(found: float | None) -> str:
    """A number for a table; - for none."""
    return "-" if found is None else f"{found:.3g}"


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Prints a table, - for None; to a pipe, as columns aligned by spaces, none at the end."""
    lines = [[_cell(each) for each in row] for row in (columns, *rows)]
    widths = [max(len(row[i]) for row in lines) for i in range(len(columns))]
    if sys.stdout.isatty():
        _draw(lines, widths)
        return
    for row in lines:
        line("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip())


def _cell(value: object) -> str:
    return "-" if value is None else printable(str(value))


def _draw(lines: Sequence[Sequence[str]], widths: Sequence[int]) -> None:
    """Draws a table on a terminal, or where that is too narrow, a block of lines for each row.

    Wraps heads and wide columns, only the last one if possible, and truncates nothing.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(width=shutil.get_terminal_size().columns, highlight=False)
    head, *rows = lines
    room = console.width - 2 * (len(head) - 1)
    fixed = widths if sum(widths) <= room else _fixed(lines, room)
    if sum(width or _LEAST for width in fixed) > room:
        longest = max(map(len, head))
        for i, row in enumerate(rows):
            if i:
                line()
            for name, cell in zip(head, row, strict=True):
                line(f"{name.ljust(longest)}  {cell}".rstrip())
        return
    drawn = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
    for name, width in zip(head, fixed, strict=True):
        drawn.add_column(name, overflow="fold", width=width)
    for row in rows:
        drawn.add_row(*(Text(cell) for cell in row))
    console.print(drawn)


def _fixed(lines: Sequence[Sequence[str]], room: int) -> list[int | None]:
    """The widths of columns that are not wrapped, but for their heads; None for the others."""
    head, *rows = lines
    words = [max(name.split(), key=len, default="") for name in head]
    widths = [max(map(len, cells)) for cells in zip(words, *rows, strict=True)]
    wrap_all = sum(widths[:-1]) > room * 2 // 3
    last = len(widths) - 1
    return [w if w <= _WHOLE or not (wrap_all or i == last) else None for i, w in enumerate(widths)]


@contextmanager
def progress(steps: str) -> Iterator[Callable[[int, int], None] | None]:
    """Yields a function that updates a progress bar, or None if stderr is not a terminal.

    steps   what the bar counts
    The function takes the number of steps done and of all steps.
    """
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    text = TextColumn("{task.description}")
    columns = (BarColumn(), MofNCompleteColumn(), text, TimeElapsedColumn())
    shown = Progress(
        *columns, console=Console(stderr=True), transient=True, refresh_per_second=_A_SECOND
    )
    with shown as bar:
        task = bar.add_task(steps, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
