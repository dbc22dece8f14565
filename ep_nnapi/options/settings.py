"""Settings files: provider, optimization level and options that `ep-nnapi tune` found best.

A file is data: it never names a library, a runtime or any other file, so that it may come with a
model from somebody else.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from pathlib import Path

from ep_nnapi.nnapi.errors import OptionError
from ep_nnapi.nnapi.files import read_regular, write_output
from ep_nnapi.nnapi.immutable import frozen

FORMAT = "ep-nnapi settings"
VERSION = 1
LEVELS = ("basic", "extended", "all", "nnapi-aware")
FILE_OPTIONS = frozenset(
    (
        "runtime",
        "device_profile",
        "calibration",
        "cache_dir",
        "receipt",
        "custom_ops_library",
        "settings",
    )
)
"""Options that name a file or a library, which settings may not."""
_MAX_BYTES = 1 << 20


class Chosen(StrEnum):
    """The provider that the settings choose."""

    NNAPI = "NNAPI"
    CPU = "CPU"


@frozen
class Settings:
    """The contents of a settings file.

    level     the optimization level of `prepare`; of a session, nnapi-aware is extended
    options   provider options; with the CPU at most `intra_op_num_threads`
    measured  numbers behind the choice, for people
    """

    provider: Chosen
    level: str
    options: Mapping[str, object]
    measured: Mapping[str, object] = field(default_factory=dict)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes the file atomically; raises OptionError if that fails or reading it would."""
        data = {
            "format": FORMAT,
            "version": VERSION,
            "provider": str(self.provider),
            "optimization_level": self.level,
            "options": dict(self.options),
            "measured": dict(self.measured),
        }
        settings_of(data, str(path))
        write_output(Path(path), json.dumps(data, indent=2) + "\n")


def read_settings(path: object) -> Settings:
    """Returns the settings in a file; raises OptionError if it is not a valid settings file."""
    if not isinstance(path, str | os.PathLike):
        raise OptionError(f"settings is {path!r}; it must be the path of a file")
    name = os.fsdecode(path)
    unusable = "not a settings file of ep-nnapi tune"
    missing = "no such settings file; ep-nnapi tune writes one"
    data = read_json(name, "settings", missing, unusable, most=_MAX_BYTES)
    return settings_of(data, name)


def read_json(path: str, what: str, missing: str, unusable: str, *, most: int = 64 << 20) -> object:
    """Returns the data in a JSON file; raises OptionError with one sentence.

    what      is in the file, for an error of the operating system
    missing   the sentence for a file that is not there, `unusable` that for one that is no JSON
    most      bytes
    """
    try:
        return json.loads(read_regular(path, most))
    except FileNotFoundError:
        raise OptionError(f"{path}: {missing}") from None
    except OSError as error:
        raise OptionError(f"{path}: the {what} cannot be read: {error.strerror}") from None
    except (RecursionError, ValueError):
        raise OptionError(f"{path}: {unusable}") from None


def settings_of(data: object, name: str) -> Settings:
    """Returns the settings in plain data; `name` is the file's, for messages."""
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise OptionError(f"{name}: not a settings file of ep-nnapi tune")
    if data.get("version") != VERSION:
        raise OptionError(
            f"{name}: version {data.get('version')!r} of the settings is unknown; this ep-nnapi "
            f"reads version {VERSION}"
        )
    provider, level = data.get("provider"), data.get("optimization_level")
    if provider not in list(Chosen) or level not in LEVELS:
        raise OptionError(
            f"{name}: provider {provider!r} with optimization_level {level!r} is unknown; there "
            f"are {', '.join(Chosen)} and {', '.join(LEVELS)}"
        )
    known = {"format", "version", "provider", "optimization_level", "options", "measured"}
    for key in data.keys() - known:
        raise OptionError(f"{name}: key {key!r} is unknown; options belong below options")
    measured = data.get("measured", {})
    if not isinstance(measured, dict):
        raise OptionError(f"{name}: measured is {measured!r}; it must be an object")
    return Settings(Chosen(provider), str(level), _options(data.get("options", {}), name), measured)


def _options(given: object, name: str) -> dict[str, object]:
    if not isinstance(given, dict):
        raise OptionError(f"{name}: options is {given!r}; it must be an object")
    for key, value in given.items():
        if key in FILE_OPTIONS:
            raise OptionError(
                f"{name}: option {key} names a file or a library, which settings may not; give it "
                "in your own code or on the command line"
            )
        plain = value if isinstance(value, list) else [value]
        if not all(isinstance(v, str | int | float) for v in plain):
            raise OptionError(f"{name}: option {key} is {value!r}; it must be text or a number")
    return given


def with_settings(given: Mapping[str, object], fields: Mapping[str, str]) -> Mapping[str, object]:
    """Returns options with those of a settings file in place of its name, the option `settings`.

    fields   the field that each known option sets: given options replace the file's for theirs
    Raises OptionError if the file is invalid or chooses the CPU.
    """
    rest = {name: value for name, value in given.items() if name != "settings"}
    path = given.get("settings")
    if path in (None, ""):
        return rest
    found = read_settings(path)
    if found.provider is Chosen.CPU:
        raise OptionError(
            f"{path} chooses the CPU provider, as NNAPI was slower: use ONNX Runtime without "
            f"ep-nnapi at optimization level {found.level}, or drop settings"
        )
    replaced = {fields.get(name) for name in rest}
    return {n: v for n, v in found.options.items() if fields.get(n, n) not in replaced} | rest
