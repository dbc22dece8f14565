"""Device profile files: JSON with a version and a checksum, refused in one sentence if damaged."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from math import isfinite
from pathlib import Path
from typing import TypeAlias, TypeVar

from ep_nnapi.nnapi.codes import HIGHEST_LEVEL, DeviceCode
from ep_nnapi.nnapi.errors import OptionError
from ep_nnapi.nnapi.files import os_errors, read_regular, write_output
from ep_nnapi.nnapi.profile.device import Conditions, Group, Profile
from ep_nnapi.nnapi.profile.flaws import Defect, Flaw, Flaws, Kind
from ep_nnapi.nnapi.runtime import Device

EXAMPLES = Path(__file__).with_name("devices")
"""Folder of profiles in this package: of sample devices, and of a device of each feature level."""
FORMAT = "ep-nnapi device profile"
VERSION, EXAMINED = 1, 2
"""Versions that are read: that of a device that was asked, and with its flaws."""
MAX_BYTES = 64 << 20
"""Largest profile that is read; one of all samples has about 1 MB."""
_MAX_TEXT = 1000
_AGAIN = "record it again with ep-nnapi profile"

Json: TypeAlias = Mapping[str, object]
T = TypeVar("T")


def write(profile: Profile, path: Path) -> None:
    """Write a profile atomically, compressed if the name ends with .gz.

    Raises OptionError if the file cannot be written.
    """
    content = to_text(profile).encode()
    write_output(path, gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)


def to_text(profile: Profile) -> str:
    """The content of a profile's file, the same for equal profiles.

    Groups with equal conditions are listed together; the conditions are numbered.
    """
    data = _to_json(profile)
    version = VERSION if profile.flaws is None else EXAMINED
    head = {"format": FORMAT, "version": version, "sha256": _checksum(data)}
    lines = [f" {json.dumps(k)}: {json.dumps(v)}" for k, v in head.items()]
    lines += [f" {json.dumps(k)}: {_indented(v)}" for k, v in data.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def read(path: Path) -> Profile:
    """The profile in a file.

    Raises OptionError with one sentence if the file is missing, too large, of another version,
    damaged, or no profile.
    """
    content = _content(path)
    try:
        data = json.loads(content)
    except (RecursionError, ValueError):
        raise OptionError(f"device profile {path} is no JSON; {_AGAIN}") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise OptionError(f"{path} is no device profile; {_AGAIN}")
    version = data.get("version")
    if version not in (VERSION, EXAMINED) or isinstance(version, bool):
        known = f"{str(version)[:20]}, not {VERSION} or {EXAMINED}"
        raise OptionError(f"device profile {path} has version {known}; {_AGAIN}")
    if data.get("sha256") != _checksum({k: v for k, v in data.items() if k not in _HEAD}):
        raise OptionError(f"device profile {path} is damaged or was changed; {_AGAIN}")
    try:
        return _profile(data)
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise OptionError(f"device profile {path} is malformed ({error}); {_AGAIN}") from None


def _content(path: Path) -> bytes:
    """The bytes of a file, unpacked if they are compressed."""
    with os_errors(f"device profile {path} cannot be read"):
        content = read_regular(path, MAX_BYTES)
    if not content.startswith(_GZIP):
        return content
    try:
        with gzip.open(io.BytesIO(content)) as packed:
            unpacked = packed.read(MAX_BYTES + 1)
    except (EOFError, OSError, zlib.error):
        raise OptionError(f"device profile {path} cannot be unpacked; {_AGAIN}") from None
    if len(unpacked) > MAX_BYTES:
        raise OptionError(f"device profile {path} unpacks to more than {MAX_BYTES} bytes; {_AGAIN}")
    return unpacked


_GZIP = b"\x1f\x8b"
_HEAD = ("format", "version", "sha256")


def _checksum(data: Json) -> str:
    """SHA-256 of the data in a canonical text."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _indented(value: object) -> str:
    """JSON with one line for each entry of a list or an object."""
    if isinstance(value, list):
        return "[\n" + ",\n".join(f"  {json.dumps(v)}" for v in value) + "\n ]"
    if isinstance(value, dict):
        lines = (f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in value.items())
        return "{\n" + ",\n".join(lines) + "\n }"
    return json.dumps(value)


def _to_json(profile: Profile) -> dict[str, object]:
    numbers: dict[Conditions, int] = {}
    operations: dict[str, dict[str, dict[str, list[str]]]] = {}
    for (operation, types, ranks), conditions in profile.groups.items():
        number = -1 if conditions is None else numbers.setdefault(conditions, len(numbers))
        by_types = operations.setdefault(operation, {}).setdefault(types, {})
        by_types.setdefault(str(number), []).append(ranks)
    found: dict[str, object] = {
        "device": {**asdict(profile.device), "type": profile.device.type.name},
        "runtime_level": profile.runtime_level,
        "conditions": [
            {"supported": _by_name(c.supported), "declined": [sorted(t) for t in c.declined]}
            for c in numbers
        ],
        "operations": operations,
        "exact": {
            name: sorted(k for k, answer in profile.exact.items() if answer is yes)
            for yes, name in _KINDS.items()
        },
    }
    if profile.calibration is not None:
        found["calibration"] = profile.calibration
    if profile.flaws is not None:
        found["flaws"] = [
            {"operation": name, "types": types, **asdict(flaw), "traits": sorted(flaw.traits)}
            for (name, types), each in profile.flaws.items()
            for flaw in each
        ]
    return found


def _by_name(traits: Iterable[str]) -> dict[str, list[str]]:
    """The classes of traits `name=class`, by name."""
    found: dict[str, list[str]] = {}
    for name, _, chosen in sorted(trait.partition("=") for trait in traits):
        found.setdefault(name, []).append(chosen)
    return found


def _profile(data: Json) -> Profile:
    device = _is(dict, data["device"])
    level, runtime_level = _level(device, "feature_level"), _level(data, "runtime_level")
    if level > runtime_level:
        raise ValueError(f"feature_level {level} above runtime_level {runtime_level}")
    name, version = _text(device["name"]), _text(device["version"])
    found = Device(name, DeviceCode[_text(device["type"])], version, level)
    conditions = [_conditions(c) for c in _is(list, data["conditions"])]
    exact = _is(dict, data["exact"])
    answers = {_text(k): yes for yes, kind in _KINDS.items() for k in _is(list, exact[kind])}
    groups = _groups(_is(dict, data["operations"]), conditions)
    calibration = _is(dict, data["calibration"]) if "calibration" in data else None
    flaws = _flaws(_is(list, data["flaws"])) if data["version"] == EXAMINED else None
    return Profile(found, runtime_level, groups, answers, calibration, flaws)


def _flaws(listed: Sequence[object]) -> Flaws:
    found: dict[Kind, tuple[Flaw, ...]] = {}
    for given in listed:
        each = _is(dict, given)
        error = None if each["error"] is None else _number(each["error"])
        measured = error, _number(each["allowed"]), _text(each["detail"])
        flaw = Flaw(_traits(each["traits"]), Defect(_text(each["defect"])), *measured)
        kind = _text(each["operation"]), _text(each["types"])
        found[kind] = (*found.get(kind, ()), flaw)
    return found


_KINDS = {True: "supported", False: "declined"}


def _groups(operations: Json, conditions: Sequence[Conditions]) -> dict[Group, Conditions | None]:
    groups: dict[Group, Conditions | None] = {}
    for operation, by_types in operations.items():
        for types, by_number in _is(dict, by_types).items():
            for number, ranks in _is(dict, by_number).items():
                answer = None if number == "-1" else conditions[_index(number)]
                groups.update({(operation, types, _text(r)): answer for r in _is(list, ranks)})
    return groups


def _conditions(value: object) -> Conditions:
    given = _is(dict, value)
    declined = tuple(_traits(traits) for traits in _is(list, given["declined"]))
    classes = _is(dict, given["supported"])
    supported = (f"{name}={_text(c)}" for name in classes for c in _is(list, classes[name]))
    return Conditions(frozenset(supported), declined)


def _traits(value: object) -> frozenset[str]:
    return frozenset(map(_text, _is(list, value)))


def _is(kind: type[T], value: object) -> T:
    """The value, which must be of that type."""
    if not isinstance(value, kind):
        raise TypeError(f"a {kind.__name__} is missing")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str) or len(value) > _MAX_TEXT:
        raise TypeError("a text is missing or too long")
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise TypeError("a number is missing")
    return value


def _index(text: str) -> int:
    if not text.isdecimal():
        raise ValueError(f"{text} is no number of conditions")
    return int(text)


def _level(data: Json, name: str) -> int:
    value = data[name]
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= HIGHEST_LEVEL:
        raise ValueError(f"{name} is not 1 to {HIGHEST_LEVEL}")
    return value
