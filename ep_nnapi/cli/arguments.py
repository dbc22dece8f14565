"""Arguments of the commands `run`, `listing` and `lib`, and shared parser code."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from operator import attrgetter

from ep_nnapi.installed import onnxruntime_version
from ep_nnapi.nnapi.errors import OptionError
from ep_nnapi.options.table import OPTIONS, OptionKeywords, parse, without
from ep_nnapi.options.values import Option

_REFERENCE = "nnapi-reference"  # as nnapi.runtime.REFERENCE_DEVICE, which imports numpy


class Parser(argparse.ArgumentParser):
    """An argument parser that raises OptionError."""

    def error(self, message: str) -> None:  # type: ignore[override]
        """Raises OptionError, for which `main` returns exit code 2."""
        raise OptionError(f"{message}; see {self.prog} --help")


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
                group.add_argument(_flag(option), metavar=option.metavar, help=option.help)
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


def add_model(parser: argparse.ArgumentParser, what: str) -> None:
    """Adds the model and all options; --help shows the provider's only with --help-options."""
    parser.add_argument("model", help=what)
    names = ", ".join(_flag(o) for o in _provider_options()[:3])
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
        group.add_argument(_flag(option), metavar=option.metavar, help=help_text)
    device.add_argument(
        "--reference",
        action="store_const",
        const=_REFERENCE,
        dest="device",
        help=f"the same as --device {_REFERENCE}: slow, and independent of ONNX Runtime",
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    """Adds --json."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def options_of(given: argparse.Namespace) -> OptionKeywords:
    """Returns the given options after validation; raises OptionError.

    A file of settings is read by the command: `prepare` takes those that choose the CPU too.
    """
    values = {o.name: getattr(given, o.name) for o in OPTIONS}
    chosen = without(values, *(name for name, value in values.items() if value is None))
    parse(without(chosen, "settings"))
    return chosen


def add_input(argument: Callable[..., argparse.Action], name: str) -> None:
    """Adds --input by `argument`, the add_argument of a parser or group; `name` begins its help."""
    argument(
        "--input",
        action="append",
        default=[],
        metavar="[NAME=]FILE",
        help=f"{name}: .npy, .npz or image; may be repeated (default: random)",
    )


def add_inputs(parser: argparse.ArgumentParser) -> None:
    """Adds --input and --seed."""
    add_input(parser.add_argument, "input")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random inputs (default 0)")


def add_run(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments specific to `run`."""
    add_inputs(parser)
    parser.add_argument("--random", action="store_true", help="random inputs (the default)")
    parser.add_argument("--no-latency", action="store_true", help="do not measure latency")
    parser.add_argument(
        "--profile",
        metavar="FILE",
        help="write ONNX Runtime's profile of one more session, with each NNAPI operation, as JSON "
        "for Perfetto",
    )
    parser.add_argument(
        "--tolerance",
        type=float,
        help="largest difference of an output, relative to its spread (default: by its kind, 1e-4 "
        "for float32); exit 1 beyond it, unless a more exact computation shows that NNAPI is no "
        "less accurate than the CPU",
    )


def add_listing(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments specific to `listing`."""
    parser.add_argument(
        "--weights",
        action="store_true",
        help="print constants in full (default: sizes and digests of large ones)",
    )


def add_devices(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `devices`: what to measure, which runtime and model it is about."""
    parser.add_argument(
        "--calibrate",
        metavar="FILE",
        help="measure a device for --partitioning worth_it (a few seconds) and write FILE",
    )
    parser.add_argument("--device", metavar="NAME", help="the device to measure")
    parser.add_argument("model", nargs="?", help="an .onnx or .ort file: what each takes of it")
    runtime = next(o for o in OPTIONS if o.name == "runtime")
    parser.add_argument(_flag(runtime), metavar=runtime.metavar, help=runtime.help)


def add_profile(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `profile`."""
    parser.add_argument(
        "models", nargs="*", metavar="MODEL", help="record the very operations of this model too"
    )
    parser.add_argument("--runtime", metavar="RUNTIME", help="as the provider's option")
    parser.add_argument(
        "--device", metavar="NAME", help="the device (default: the first, CPUs last)"
    )
    parser.add_argument(
        "-o", "--output", required=True, metavar="FILE", help="the profile to write, as JSON"
    )
    parser.add_argument(
        "--times",
        action="store_true",
        help="measure the device and the CPU beside it too (some seconds more), for "
        "--partitioning worth_it",
    )


def add_lib(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `lib`, each of which replaces the default output (the path)."""
    parser.add_argument("--cflags", action="store_true", help="print compiler flags")
    parser.add_argument("--libs", action="store_true", help="print linker flags")
    others = parser.add_mutually_exclusive_group()
    others.add_argument("--pkgconfigdir", action="store_true", help="print the PKG_CONFIG_PATH")
    others.add_argument("--cmakedir", action="store_true", help="print the NeuralNetworks_DIR")
    others.add_argument("--header", metavar="DIR", help="write the headers to DIR/android")


def _provider_options() -> Sequence[Option]:
    return [o for o in OPTIONS if o.provider]


def _flag(option: Option) -> str:
    return "--" + option.name.replace("_", "-")
