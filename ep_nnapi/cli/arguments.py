"""Arguments that several verbs share, and calls of library functions with them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from inspect import signature
from itertools import groupby
from operator import attrgetter
from typing import Any, TypeVar

from ep_nnapi.installed import onnxruntime_version
from ep_nnapi.nnapi.errors import OptionError
from ep_nnapi.options.table import OPTIONS, OptionKeywords, without
from ep_nnapi.options.values import Option

UNLESS_MORE_EXACT = (
    ", unless a more exact computation shows that NNAPI is no less accurate than the CPU"
)
"""End of the help of --tolerance, where what is beyond it may be right."""
_T = TypeVar("_T")
_NOT = "--no-"
_TYPES = {"N": int, "SECONDS": float, "GB": float}
"""Types of values by their names; of all others text."""
_SEPARATORS = {"NAME=SIZES": ";", "NAMES": ",", "OPS": ","}
"""Separators of several values in one text, by the names of these."""
_REFERENCE = "nnapi-reference"  # as nnapi.runtime.REFERENCE_DEVICE, which imports numpy


class Parser(argparse.ArgumentParser):
    """An argument parser that raises OptionError."""

    def error(self, message: str) -> None:  # type: ignore[override]
        """Raises OptionError, for which `main` returns exit code 2."""
        raise OptionError(f"{message}; see {self.prog} --help")

    def takes(self, declared: str, help: str, **how: Any) -> None:  # noqa: ANN401 (of argparse)
        """Adds an argument, declared as --help shows it: its names, and that of its value.

        `--strict` is a switch, and `--no-verify` turns `verify` off; `--jobs N` has a value, of the
        type that its name says; `--input FILE ...` may be repeated.

        how   as for `add_argument`; choices may be an enumeration
        """
        words = declared.split()
        names = [word for word in words if word.startswith("-")]
        if "choices" in how:
            how["choices"] = [*map(str, how["choices"])]
        if len(names) < len(words):
            value = words[len(names)]
            how = {"metavar": value, "type": _TYPES.get(value), **how}
            how |= {"action": "append", "default": []} if words[-1] == "..." else {}
        elif names[0].startswith(_NOT):
            how = {"action": "store_false", "dest": names[0].removeprefix(_NOT)}
        elif not how:
            how = {"action": "store_true"}
        self.add_argument(*names, help=help, **how)


class _Joined(argparse.Action):
    """An option of several values in one text, which has those of all its repetitions."""

    def __call__(self, _: argparse.ArgumentParser, given: object, value: Any, *__: object) -> None:  # noqa: ANN401
        earlier = getattr(given, self.dest)
        both = (earlier, value) if earlier else (value,)
        setattr(given, self.dest, _SEPARATORS[str(self.metavar)].join(both))


class _ShowVersion(argparse.Action):
    """Prints the versions of this package and of onnxruntime, then exits."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version  # imports a mail parser

        print(f"ep-nnapi {version('ep-nnapi')} (onnxruntime {onnxruntime_version()})")
        parser.exit()


class _ShowOptions(argparse.Action):
    """Prints the provider's options with their help, then exits."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        shown = argparse.ArgumentParser(prog=parser.prog, usage=argparse.SUPPRESS, add_help=False)
        shown.description = "provider options, as in Python and in sessions"
        for category, options in groupby(_provider_options(), key=attrgetter("category")):
            group = shown.add_argument_group(category)
            for option in options:
                group.add_argument(flag(option), metavar=option.metavar, help=option.help)
        print(shown.format_help(), end="")
        parser.exit()


def dashed(arguments: Iterable[str]) -> list[str]:
    """Returns the arguments with underscores in option names replaced by dashes."""
    found, ended = [], False
    for argument in arguments:
        ended = ended or argument == "--"
        name, equals, value = argument.partition("=")
        is_name = argument.startswith("--") and not ended
        found.append(f"{name.replace('_', '-')}{equals}{value}" if is_name else argument)
    return found


def add_version(parser: argparse.ArgumentParser) -> None:
    """Adds --version."""
    parser.add_argument("--version", action=_ShowVersion, nargs=0, help="print versions and exit")


def add_model(parser: Parser, what: str = "an .onnx or .ort file") -> None:
    """Adds the model and all options; --help shows the provider's only with --help-options."""
    parser.add_argument("model", help=what)
    names = ", ".join(flag(o) for o in _provider_options()[:3])
    parser.add_argument(
        "--help-options",
        action=_ShowOptions,
        nargs=0,
        help=f"show the provider's options ({names} and {len(_provider_options()) - 3} more)",
    )
    device = parser.add_mutually_exclusive_group()
    for option in OPTIONS:
        help_text = argparse.SUPPRESS if option.provider else option.help
        group = device if option.name == "device" else parser
        action = _Joined if option.metavar in _SEPARATORS else "store"
        group.add_argument(flag(option), metavar=option.metavar, help=help_text, action=action)
    device.add_argument(
        "--reference",
        action="store_const",
        const=_REFERENCE,
        dest="device",
        help=f"the same as --device {_REFERENCE}: slow, and independent of ONNX Runtime",
    )


def add_json(parser: Parser) -> None:
    """Adds --json."""
    parser.takes("--json", "print JSON")


def options_of(given: argparse.Namespace) -> OptionKeywords:
    """Returns the given options as they are: what is called parses them."""
    values = {o.name: getattr(given, o.name) for o in OPTIONS}
    return without(values, *(name for name, value in values.items() if value is None))


def add_input(parser: Parser, name: str) -> None:
    """Adds --input; `name` begins its help."""
    what = f"{name}: .npy, .npz or image; may be repeated (default: random)"
    parser.takes("--input [NAME=]FILE ...", what, dest="inputs")


def add_inputs(parser: Parser) -> None:
    """Adds --input and --seed."""
    add_input(parser, "input")
    parser.takes("--seed", "seed of the random inputs (default 0)", type=int, default=0)


def add_tolerance(parser: Parser, rest: str = "", of: str = "an output") -> None:
    """Adds --tolerance; `rest` ends its help."""
    by_kind = "relative to its spread (default: by its kind, 1e-4 for float32)"
    parser.takes("--tolerance", f"largest difference of {of}, {by_kind}{rest}", type=float)


def call(function: Callable[..., _T], given: argparse.Namespace, **more: object) -> _T:
    """Calls a library function with the arguments of its parameters' names, and with `more`.

    What is not given has the function's own default.
    """
    parameters = signature(function).parameters.values()
    values = {p.name: getattr(given, p.name, None) for p in parameters}
    chosen = {name: value for name, value in values.items() if value is not None}
    options = options_of(given) if any(p.kind is p.VAR_KEYWORD for p in parameters) else {}
    return function(**chosen, **more, **options)


def _provider_options() -> Sequence[Option]:
    return [o for o in OPTIONS if o.provider]


def flag(option: Option) -> str:
    """The option's flag."""
    return "--" + option.name.replace("_", "-")
