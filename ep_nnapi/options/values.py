"""Values of options: declaration, types, and parsers. Each parser raises OptionError.

A parser takes the option's name, for its messages, and the value, a string or a Python object.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import reduce
from operator import or_
from typing import TypeAlias, TypeVar

from ep_nnapi.nnapi.errors import OptionError, suggestion
from ep_nnapi.options.target import MAX_FEATURE_LEVEL, NnapiFlag, feature_level_of_api, flag_names

_E = TypeVar("_E", bound=StrEnum)
_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)
ValueParser: TypeAlias = Callable[[str, object], _T_co]


class Fallback(StrEnum):
    """Fallback of a cluster whose device has failed."""

    REFERENCE = "reference"
    CPU = "cpu"
    NONE = "none"


class DynamicShapes(StrEnum):
    """Treatment of symbolic dimensions: compile for each run's sizes, or reject them."""

    SPECIALIZE = "specialize"
    OFF = "off"


class Partitioning(StrEnum):
    """Selection among the capable nodes.

    AUTO leaves, in sessions on the host, whole clusters that do not pay there; else it is MAXIMAL.
    """

    AUTO = "auto"
    MAXIMAL = "maximal"
    WORTH_IT = "worth_it"

    @property
    def whole(self) -> Partitioning:
        """The partition of what is not for a session on the host alone: MAXIMAL for AUTO."""
        return Partitioning.MAXIMAL if self is Partitioning.AUTO else self


class Relaxed(StrEnum):
    """Host computation of float32 under USE_FP16: rounded to float16 (emulate), or not."""

    EMULATE = "emulate"
    PRECISE = "precise"


class Spinning(StrEnum):
    """When threads of host-cpu wait actively for work: during runs, between them too, or never."""

    AUTO = "auto"
    RUNS = "runs"
    NEVER = "never"


class Preference(StrEnum):
    """Execution preference of compilations, by the names of the NDK's PreferenceCode."""

    LOW_POWER = "low_power"
    FAST_SINGLE_ANSWER = "fast_single_answer"
    SUSTAINED_SPEED = "sustained_speed"


class Priority(StrEnum):
    """Priority of compilations among those on a device, by the names of the NDK's PriorityCode."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class Category(StrEnum):
    """Headings under which `--help-options` lists the options."""

    TARGET = "target and device"
    PARTITIONING = "partitioning"
    SHAPES = "shapes"
    EXECUTION = "execution"
    SESSIONS = "sessions that this package creates"

    def option(
        self,
        default: _T,
        parse: ValueParser[_T],
        metavar: str,
        help_text: str,
        alternative: Option | None = None,
    ) -> _T:
        """Declares an option as a field of `Options`; its arguments are the fields of `Option`."""
        text = help_text.replace("{default}", to_text(default))
        declared = Option(
            parse=parse, metavar=metavar, category=self, help=text, alternative=alternative
        )
        declaration: _T = field(default=default, metadata={"option": declared})
        return declaration


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option, as Python keyword, provider option and command line flag.

    parse    parser of its values, strings or Python objects; takes the name for messages
    metavar  placeholder of the value in help texts
    help     `{default}` in it is replaced by the default
    field    the field of `Options` that it sets; another name than its own for an alternative
    """

    parse: ValueParser[object]
    metavar: str
    category: Category
    help: str
    name: str = ""
    field: str = ""
    alternative: Option | None = None

    @property
    def provider(self) -> bool:
        """True for a provider option, False for one of sessions that this package creates."""
        return self.category is not Category.SESSIONS


def to_text(value: object) -> str:
    """Returns an option's value as a string that its parser reads."""
    if isinstance(value, NnapiFlag):
        return flag_names(value)
    if isinstance(value, tuple) and all(isinstance(v, str) for v in value):
        return ",".join(value)
    if isinstance(value, tuple):
        return ";".join(
            f"{name}={','.join(map(str, given))}"
            if isinstance(given, tuple)
            else f"{name}:={given}"
            for name, given in value
        )
    return str(value)


def time_limit(name: str, value: object) -> float:
    """Parses a time in seconds, which has to be there."""
    found = seconds(name, value)
    if found is None:
        raise OptionError(f"{name} is {value!r}; it must be a number of seconds")
    return found


def seconds(name: str, value: object) -> float | None:
    """Parses a time in seconds; None or "" means no limit and gives None."""
    if value in (None, ""):
        return None
    try:
        found = float(str(value))
    except ValueError:
        raise OptionError(f"{name} is {value!r}; it must be a number of seconds") from None
    if not 0 < found < 1e9:
        raise OptionError(f"{name} is {value!r}; it must be more than 0 seconds, and below 1e9")
    return found


def integer(name: str, value: object) -> int:
    """Parses an integer; prefixes such as 0x are accepted."""
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    try:
        return int(str(value).strip(), 0)
    except ValueError:
        raise OptionError(f"{name} is {value!r}; it must be a whole number") from None


def flags(name: str, value: object) -> NnapiFlag:
    """Parses a sum of flags, or their names separated by |."""
    known = {f.name or "": f for f in NnapiFlag}
    text = str(value).strip()
    if isinstance(value, int) or text.lstrip("-").isdigit() or text.startswith("0x"):
        number = integer(name, value)
        if number < 0 or number & ~int(reduce(or_, NnapiFlag)):
            raise OptionError(f"{name} is {number}; it must be a sum of {_sum_of_flags()}")
        found = NnapiFlag(number)
    else:
        given = [part.strip() for part in text.split("|")] if text else []
        for flag in given:
            if flag not in known:
                near = suggestion(flag, known)
                raise OptionError(f"flag {flag!r} is unknown; there are {_sum_of_flags()}{near}")
        found = reduce(or_, (known[flag] for flag in given), NnapiFlag.NONE)
    if NnapiFlag.CPU_DISABLED in found and NnapiFlag.CPU_ONLY in found:
        raise OptionError("flags CPU_DISABLED and CPU_ONLY exclude each other; give one of them")
    return found


def _sum_of_flags() -> str:
    return ", ".join(f"{f.name} ({int(f)})" for f in NnapiFlag)


def within(least: int, most: int | None = None) -> ValueParser[int]:
    """Parser of an integer within bounds; `most` is None where there is no upper one."""

    def parse(name: str, value: object) -> int:
        number = integer(name, value)
        if number < least or (most is not None and number > most):
            bounds = f"{least} or more" if most is None else f"{least} to {most}"
            raise OptionError(f"{name} is {number}; it must be {bounds}")
        return number

    return parse


MOST_THREADS = 1024
"""As in native/options.c: starting very many takes minutes, and then the system has no more."""
count, seed, threads = within(1), within(0), within(1, MOST_THREADS)
feature_level = within(1, MAX_FEATURE_LEVEL)


def api_level(name: str, value: object) -> int:
    """Parses an Android API level, 27 to 31; returns its feature level, 1 to 5."""
    return feature_level_of_api(integer(name, value))


def one_name(_: str, value: object) -> str | None:
    """Parses an optional name; None for None and ""."""
    return str(value) if value not in (None, "") else None


def one_of(choices: type[_E]) -> ValueParser[_E]:
    """Parser of an enumeration's value."""

    def parse(name: str, value: object) -> _E:
        if value not in list(choices):
            near = suggestion(str(value), choices)
            known = ", ".join(choices)
            raise OptionError(f"{name} is {str(value)!r}; it must be one of {known}{near}")
        return choices(str(value))

    return parse


def path(name: str, value: object) -> str | None:
    """Parses a file path. The result is absolute, as other processes have other directories.

    None or "" means no file and gives None.
    """
    if value in (None, ""):
        return None
    if not isinstance(value, str | os.PathLike):
        raise OptionError(f"{name} is {value!r}; it must be the path of a file")
    try:
        return os.path.abspath(os.fsdecode(value))
    except FileNotFoundError:
        raise OptionError(f"{name} is {value!r}, but the current folder was removed") from None


REMOTE = "adb"
"""The runtime of the phone that is attached."""


def is_remote(runtime: str) -> bool:
    """True for the runtimes behind nnapi_agent: adb, adb:SERIAL, exec:COMMAND."""
    return runtime == REMOTE or runtime.startswith((f"{REMOTE}:", "exec:"))


def _from_anywhere(runtime: str) -> str:
    """The runtime with the whole path of its program: worker processes are in other folders."""
    how, _, command = runtime.partition(":")
    program, space, rest = command.lstrip().partition(" ")
    if how != "exec" or "/" not in program or not os.path.isfile(program):
        return runtime
    return f"{how}:{os.path.abspath(program)}{space}{rest}"


def name_or_path(first: str, *others: str) -> ValueParser[str]:
    """Parser of one of these names, a remote runtime's or a file's path; "" gives the first name.

    None gives it, too.
    """

    def parse(name: str, value: object) -> str:
        if isinstance(value, str) and is_remote(value):
            return _from_anywhere(value)
        file = path(name, value) if value not in (first, *others) else None
        if file is not None and not os.path.isfile(file):
            known = ", ".join((first, *others, REMOTE, f"{REMOTE}:SERIAL, exec:COMMAND"))
            raise OptionError(f"{name} is {value!r}; it must be {known} or the path of a file")
        return file or str(value or first)

    return parse


class Preferred(StrEnum):
    """What computes an alternative of a prepared model; `nnapi` is accelerators of NNAPI."""

    NNAPI = "nnapi"
    LITERT_NPU = "litert-npu"
    LITERT_GPU = "litert-gpu"
    NNAPI_CPU = "nnapi-cpu"
    LITERT_CPU = "litert-cpu"
    CPU = "cpu"


def preferred(name: str, value: object) -> tuple[Preferred, ...]:
    """Parses an order of preference, given as a list or separated by commas."""
    found = names(name, value)
    for part in found:
        if part not in list(Preferred):
            raise OptionError(f"{name} has {part!r}; give some of {','.join(Preferred)}")
    return tuple(map(Preferred, found))


def names(name: str, value: object) -> tuple[str, ...]:
    """Parses names, given as a list or separated by commas."""
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, tuple | list):
        raise OptionError(f"{name} is {value!r}; it must be names separated by commas")
    found = tuple(str(p).strip() for p in parts if str(p).strip())
    for part in found:
        if "," in part:
            raise OptionError(f"{name} has {part!r}, but a comma separates names")
    return found


def tolerance(name: str, value: object) -> float | None:
    """Parses a tolerance: a number of at least 0, also infinity; None is for none."""
    if value is None:
        return None
    try:
        found = float(str(value))
    except ValueError:
        found = -1.0
    if not found >= 0:
        raise OptionError(f"{name} is {value}; it must be a number of at least 0")
    return found
