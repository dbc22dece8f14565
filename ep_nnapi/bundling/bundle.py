"""Layout of a prepared model with what it takes to run it on a phone: `bundle`.

Beside the model: the C parts of `native/`, scripts for adb and the README. Names of files and
tensors are any text: they are quoted for the shell.
"""

from __future__ import annotations

import os
import secrets
import shutil
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from shlex import quote

import numpy as np
from onnx import ModelProto, TensorProto

from ep_nnapi.diagnostics.inputs import InputSpec, given_feeds
from ep_nnapi.diagnostics.inspect_context import containers
from ep_nnapi.diagnostics.model_sources import Inputs
from ep_nnapi.epcontext.container import ContainerContent, check_programs, unpack
from ep_nnapi.epcontext.contexts import verify_checksum
from ep_nnapi.graph.onnx_io import graphs, read_model
from ep_nnapi.nnapi.errors import ModelError, OptionError
from ep_nnapi.nnapi.files import (
    TEMPORARY_PREFIX,
    digest_of,
    file_name_of,
    os_errors,
    require_file,
)
from ep_nnapi.options.parameters import checked_arguments
from ep_nnapi.options.target import MAX_FEATURE_LEVEL
from ep_nnapi.remote.binaries import find_binary, folder_of

PROGRAM = "nnapi_run"
PLUGIN = "libonnxruntime_providers_nnapi_context.so"

DIGESTS = "SHA256SUMS"
DEVICE_SCRIPT = "run_here.sh"
REMOTE = PurePosixPath("/data/local/tmp/ep-nnapi")
"""Folder for bundles on the phone: below the one in which Android's shell may start programs."""


@dataclass(frozen=True, slots=True)
class PreparedFiles:
    """A prepared model whose digests are right.

    files          names of its own file and of those in its folder that it reads
    feature_level  the lowest NNAPI feature level that can run all of its clusters
    cpu_nodes      number of nodes that are left to ONNX Runtime's CPU provider
    inputs         of its cluster if that is the whole model; else None
    """

    files: tuple[str, ...]
    feature_level: int
    cpu_nodes: int
    inputs: tuple[InputSpec, ...] | None


def read_prepared_model(path: Path) -> PreparedFiles:
    """Returns a prepared model after checking all digests; raises ModelError."""
    require_file(path)
    with os_errors(f"{path} cannot be read", ModelError):
        proto = read_model(path.read_bytes())
    if proto is None:
        raise ModelError(f"{path} is no ONNX model")
    contents = [unpack(data, path.parent, MAX_FEATURE_LEVEL) for _, data in containers(proto)]
    if not contents:
        raise ModelError(
            f"{path} has no compiled cluster; make one with "
            f"ep-nnapi prepare {path} -o OUT --format context"
        )
    for content in contents:
        check_programs(content.alternatives)
    if any(content.model_has_checksum for content in contents):
        verify_checksum(path)
    beside = [content.file for content in contents if content.file is not None]
    names = dict.fromkeys([path.name, *beside, *_external_data(proto, path.parent)])
    nodes = sum(len(graph.node) for graph in graphs(proto.graph))
    return PreparedFiles(
        tuple(names),
        max(1, *(content.feature_level for content in contents)),
        nodes - len(contents),
        _inputs(contents[0]) if nodes == 1 else None,
    )


def _external_data(proto: ModelProto, folder: Path) -> Iterator[str]:
    """Yields the names of the files with the model's own weights; raises ModelError."""
    for graph in graphs(proto.graph):
        for tensor in graph.initializer:
            if tensor.data_location != TensorProto.EXTERNAL:
                continue
            name = next((e.value for e in tensor.external_data if e.key == "location"), "")
            path = folder / name
            if Path(name).name != name or path.resolve().parent != folder.resolve():
                raise ModelError(f"the model's weights {name!r} are outside of its folder")
            if not path.is_file():
                raise ModelError(f"{path}: no such file; it holds weights of the model")
            yield name


def _inputs(content: ContainerContent) -> tuple[InputSpec, ...]:
    """Returns the inputs; one that enters in two layouts is one."""
    entering = {c.name: c for c in content.first.border.inputs}.values()
    return tuple(InputSpec(c.name, c.dtype.numpy, c.shape) for c in entering)


_EXECUTABLE = {PROGRAM, DEVICE_SCRIPT, "push.sh", "run.sh"}
_ZIP_TIME = (1980, 1, 1, 0, 0, 0)  # the same bytes for the same files


@dataclass(frozen=True, slots=True)
class BundledFile:
    """A file of a bundle, by its path in it."""

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle that was written.

    out            the folder or .zip file
    abi            Android's name of the processor that it is for
    feature_level  the lowest NNAPI feature level that can run the model
    remote         folder on the phone; None if only applications with ONNX Runtime can run it
    notes          what the user should know
    """

    out: str
    abi: str
    feature_level: int
    remote: str | None
    files: tuple[BundledFile, ...]
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, object]:
        """Returns plain data for JSON."""
        return asdict(self)


@checked_arguments
def bundle(
    model: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    abi: str = "arm64-v8a",
    native: str | os.PathLike[str] | None = None,
    inputs: Inputs = (),
    seed: int = 0,
) -> Bundle:
    """Writes a prepared model, the C parts, inputs and scripts for adb to a folder or .zip file.

    model   written by `prepare` with format context; the digests of its files are checked
    out     folder that is not there or empty, or a file that ends with .zip, which is replaced
    abi     Android's name of the processor: arm64-v8a, armeabi-v7a, x86_64 or x86
    native  folder with nnapi_run and the plugin (default: build/android/ABI, where that is not
            there the package ep-nnapi-android's)
    inputs  for nnapi_run, as for `run` (default: random numbers from `seed`)
    The bundle is written whole or not at all. Raises ModelError or OptionError.
    """
    path, target = Path(model), Path(out)
    _check_target(target)
    with os_errors(f"{target} cannot be written"), _staging(target) as folder:
        prepared, notes = _fill(folder, path, abi, folder_of(native, abi), inputs, seed)
        files = tuple(_listed(folder))
        _publish(folder, target)
    remote = None if prepared.inputs is None else str(_remote(path))
    return Bundle(str(target), abi, prepared.feature_level, remote, files, tuple(notes))


def _check_target(out: Path) -> None:
    zipped = out.suffix.lower() == ".zip"
    if zipped and out.is_dir():
        raise OptionError(f"{out} is a folder; name another file")
    if not zipped and out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise OptionError(f"{out} is there already; remove it or name another folder")


@contextmanager
def _staging(out: Path) -> Iterator[Path]:
    """Makes a temporary folder beside `out`, which is removed in the end."""
    out.parent.mkdir(parents=True, exist_ok=True)
    folder = out.parent / f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}"
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _fill(
    folder: Path, model: Path, abi: str, native: Path, inputs: Inputs, seed: int
) -> tuple[PreparedFiles, list[str]]:
    """Writes all files of a bundle to `folder`; returns what the model is and what to note."""
    prepared = read_prepared_model(model)
    plugin, _ = find_binary(native, PLUGIN, abi)
    device = folder / "device"
    device.mkdir()
    for name in prepared.files:
        _check_name(name)
        _copy(model.parent / name, device / name)
    read_prepared_model(device / model.name)  # the copies have the bytes that were checked
    home = folder / "jniLibs" / abi
    home.mkdir(parents=True)
    _copy(plugin, home / PLUGIN)
    remote, notes = None, []
    if prepared.inputs is None:
        left = "1 node is" if prepared.cpu_nodes == 1 else f"{prepared.cpu_nodes} nodes are"
        why = f"{left} left to the CPU" if prepared.cpu_nodes else "the model has several clusters"
        run = f"{PROGRAM} cannot run the model, applications with ONNX Runtime can"
        notes.append(f"{why}: {run}")
    else:
        remote = _remote(model)
        notes += _add_program(device, native, abi)
        notes += _add_inputs(device, model.name, prepared.inputs, inputs, seed)
        _add_scripts(folder, remote)
    text = readme(model.name, prepared.files, abi, prepared.feature_level, remote)
    (folder / "README.md").write_text(text, encoding="utf-8")
    return prepared, notes


def _add_program(device: Path, native: Path, abi: str) -> list[str]:
    """Copies nnapi_run; returns a note if Android cannot start it."""
    path, found = find_binary(native, PROGRAM, abi)
    _copy(path, device / PROGRAM)
    if found.for_android:
        return []
    loader = found.loader.decode(errors="replace")
    return [f"{path} is built for Linux (it asks for {loader}); Android cannot start it"]


def _add_inputs(
    device: Path, model: str, specs: Sequence[InputSpec], inputs: Inputs, seed: int
) -> list[str]:
    """Writes the inputs of one run, and the script that names them; returns a note on the rest."""
    runs = given_feeds(inputs, specs, seed).runs
    files: dict[str, str] = {}
    (device / "inputs").mkdir()
    for name, array in runs[0].items():
        file = f"inputs/{file_name_of(name)}.npy"
        np.save(device / file, np.ascontiguousarray(array).reshape(array.shape))
        files[name] = file
    (device / DEVICE_SCRIPT).write_text(device_script(model, files), encoding="utf-8")
    if len(runs) == 1:
        return []
    return [f"the inputs have rows for {len(runs)} runs; the bundle has the first"]


def _add_scripts(folder: Path, remote: PurePosixPath) -> None:
    """Writes the digests of all files for the phone, and the scripts for adb."""
    device = folder / "device"
    names = sorted(p.relative_to(device).as_posix() for p in device.rglob("*") if p.is_file())
    digests = "".join(f"{digest_of(device / name)}  {name}\n" for name in names)
    scripts = {"push.sh": push_script(remote, names), "run.sh": run_script(remote)}
    for name, text in {DIGESTS: digests, **scripts}.items():
        (folder / name).write_text(text, encoding="utf-8")


def _check_name(name: str) -> None:
    """Refuses names that digests of `sha256sum` do not have as they are."""
    if not name.isprintable() or "\\" in name or name.startswith("-"):
        raise OptionError(
            f"the file name {name!r} begins with a dash, or has a backslash or a control "
            "character; prepare the model under another name"
        )


def _remote(model: Path) -> PurePosixPath:
    return REMOTE / file_name_of(model.stem)


def _copy(source: Path, target: Path) -> None:
    with os_errors(f"{source} cannot be copied"):
        shutil.copyfile(source, target)


def _listed(folder: Path) -> Iterator[BundledFile]:
    """Makes what is to be started executable; yields all files."""
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        path.chmod(0o755 if path.name in _EXECUTABLE else 0o644)
        name = path.relative_to(folder).as_posix()
        yield BundledFile(name, path.stat().st_size, digest_of(path))


def _publish(folder: Path, out: Path) -> None:
    """Moves the folder to `out`, or packs it there; raises OSError and leaves nothing half done."""
    if out.suffix.lower() != ".zip":
        folder.chmod(0o755)
        os.rename(folder, out)
        return
    packed = folder.with_name(f"{folder.name}.zip")
    try:
        with zipfile.ZipFile(packed, "x", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(p for p in folder.rglob("*") if p.is_file()):
                name = f"{out.stem}/{path.relative_to(folder).as_posix()}"
                facts = zipfile.ZipInfo(name, _ZIP_TIME)
                facts.compress_type = zipfile.ZIP_DEFLATED
                facts.external_attr = (0o100000 | path.stat().st_mode & 0o777) << 16
                facts.file_size = path.stat().st_size
                with path.open("rb") as source, archive.open(facts, "w") as target:
                    shutil.copyfileobj(source, target)
        os.replace(packed, out)
    finally:
        packed.unlink(missing_ok=True)


def device_script(model: str, inputs: Mapping[str, str]) -> str:
    """Returns the script that runs the model on the phone.

    inputs  files by the names of the inputs
    """
    given = [f"--input {quote(f'{name}={file}')}" for name, file in inputs.items()]
    command = " \\\n  ".join([f"exec ./{PROGRAM} {quote(model)}", *given, '--outputs outputs "$@"'])
    return f"""\
#!/system/bin/sh
# Runs the model on this device; arguments go to {PROGRAM}. Outputs are written to outputs/.
cd "$(dirname "$0")" || exit 2
rm -rf outputs && mkdir outputs || exit 2
{command}
"""


def push_script(remote: PurePosixPath, files: Sequence[str]) -> str:
    """Returns the script that copies the files to the phone and compares their digests there."""
    folder, names = quote(str(remote)), " ".join(map(quote, files))
    pushed = " ".join(quote(f"./{name}") for name in sorted({n.split("/")[0] for n in files}))
    prepare = quote(f"rm -rf {folder} && mkdir -p {folder}")
    digests = quote(f"cd {folder} && chmod 755 {PROGRAM} && sha256sum {names}")
    return f"""\
#!/bin/sh
# Copies device/ to {remote} on the phone and compares the digests of all files there.
# ADB: another adb than that of the path. ANDROID_SERIAL: one of several phones.
set -eu
: "${{ADB:=adb}}"
cd "$(dirname "$0")/device"
"$ADB" shell -n {prepare}
"$ADB" push {pushed} {quote(f"{remote}/")}
digests=$("$ADB" shell -n {digests} | tr -d '\\r')
if [ "$digests" != "$(cat ../{DIGESTS})" ]; then
  echo "push.sh: the files on the phone are not those of {DIGESTS}; make the bundle again" >&2
  exit 1
fi
echo "pushed to {remote}"
"""


def run_script(remote: PurePosixPath) -> str:
    """Returns the script that runs the model on the phone and brings its outputs."""
    start = quote(f"sh {quote(f'{remote}/{DEVICE_SCRIPT}')}")
    return f"""\
#!/bin/sh
# Runs the model on the phone and brings its outputs to outputs/. Arguments go to {PROGRAM}:
# ./run.sh --device all --runs 100
set -eu
: "${{ADB:=adb}}"
cd "$(dirname "$0")"
words=
for word in "$@"; do
  words="$words '$(printf %s "$word" | sed "s/'/'\\\\\\\\''/g")'"
done
"$ADB" shell -n {start}"$words"
rm -rf outputs
"$ADB" pull {quote(f"{remote}/outputs")} .
"""


def readme(
    model: str, files: Sequence[str], abi: str, level: int, remote: PurePosixPath | None
) -> str:
    """Returns the README.md of a bundle.

    files   names of the model's file and of those beside it that it reads
    remote  folder on the phone; None if only applications with ONNX Runtime can run the model
    """
    api = f" (Android API level {26 + level} or newer)" if level <= 5 else ""
    parts = [f"# {model} on NNAPI\n\nFor {abi} and NNAPI feature level {level} or higher{api}.\n"]
    if remote is not None:
        parts.append(_SHELL.format(remote=remote, program=PROGRAM, script=DEVICE_SCRIPT))
    listed = ", ".join(f"`{name}`" for name in files)
    parts.append(_APPLICATION.format(plugin=PLUGIN, abi=abi, files=listed))
    return "\n".join(parts)


_SHELL = """\
## From the shell

    ./push.sh                            copies device/ to the phone and compares digests there
    ./run.sh                             runs the model; brings its outputs to outputs/
    ./run.sh --device all --runs 100     times each NNAPI device
    ./run.sh --devices                   lists them

The variable ADB names another adb, ANDROID_SERIAL one of several phones. Without a shell for the
scripts, the same is:

    adb shell mkdir -p {remote}
    adb push device/. {remote}
    adb shell chmod 755 {remote}/{program}
    adb shell sh {remote}/{script}
    adb pull {remote}/outputs
"""

_APPLICATION = """\
## In an application with ONNX Runtime 1.25 or newer

1. Put `jniLibs/{abi}/{plugin}` into `src/main/jniLibs/{abi}/`.
2. Bring these files of `device/` to one folder of the application's files: {files}.
3. Register the library by its bare file name; select a device of `NnapiContextExecutionProvider`;
   open the model by its path.
"""
