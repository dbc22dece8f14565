"""Phones that are attached: which there are, and the command that starts an agent on one."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from shlex import quote

from ep_nnapi.nnapi.errors import OptionError, printable
from ep_nnapi.nnapi.files import digest_of
from ep_nnapi.remote.binaries import ABIS, find_binary, folder_of

AGENT = "nnapi_agent"
FOLDER = PurePosixPath("/data/local/tmp/ep-nnapi-agent")
"""Folder of agents and weights on the phone: the shell may execute files there, drivers read them.
"""
_NO_PHONE = (
    "runtime adb: no phone is attached; switch on USB debugging in its developer options, or `adb "
    "connect` it"
)
AGENTS = "EP_NNAPI_AGENTS"
"""Environment variable: a folder with a folder for each ABI, which has the agent."""
_SECONDS = 120
_READY = "device"
_NOT_READY = {
    "unauthorized": "is unauthorized; confirm this computer's key on its screen",
    "offline": "is offline; `adb reconnect offline`, or unplug it and plug it in again",
    "no permissions": "may not be opened by this user; `adb devices` says more",
}
"""What is amiss, and the way out, by the state that adb names."""


def phones() -> dict[str, str]:
    """The serial numbers of the phones that are attached, and what is amiss with one; else "".

    Raises OptionError if there is no adb, or no phone.
    """
    lines = _adb("devices").splitlines()[1:]
    states = dict(line.split("\t", 1) for line in lines if "\t" in line)
    if not states:
        raise OptionError(_NO_PHONE)
    return {serial: _why(state.strip()) for serial, state in states.items()}


def _why(state: str) -> str:
    if state == _READY:
        return ""
    other = f"is in state {printable(state)}"
    return next((why for name, why in _NOT_READY.items() if state.startswith(name)), other)


def agent_command(serial: str) -> list[str]:
    """The command that starts the agent on a phone, which is pushed unless it is there.

    serial  of the phone; empty: the only one
    Raises OptionError with what adb says.
    """
    found = phones()
    serial = serial or os.environ.get("ANDROID_SERIAL") or _only_phone(found)
    if why := found.get(serial):
        raise OptionError(f"runtime adb:{printable(serial)} {why}")
    program = _program(serial)
    remote = FOLDER / f"{AGENT}-{digest_of(program)[:16]}"
    path = quote(str(remote))
    if "there" not in _adb("-s", serial, "shell", f"test -x {path} && echo there; true"):
        _push(serial, program, remote)
    return [_adb_path(), "-s", serial, "shell", "-T", f"exec {path}"]


def _push(serial: str, program: Path, remote: PurePosixPath) -> None:
    """Copies the agent whole or not at all: another user may start it meanwhile."""
    part = f"{remote}.{secrets.token_hex(4)}"
    _adb("-s", serial, "shell", f"mkdir -p {quote(str(FOLDER))}")
    _adb("-s", serial, "push", str(program), part)
    done = f"chmod 755 {quote(part)} && mv {quote(part)} {quote(str(remote))}"
    _adb("-s", serial, "shell", done)


def _only_phone(found: Mapping[str, str]) -> str:
    ready = [serial for serial, why in found.items() if not why] or list(found)
    if len(ready) > 1:
        raise OptionError(
            f"runtime adb: {len(ready)} phones are attached; name one of "
            + ", ".join(f"adb:{serial}" for serial in ready)
        )
    return ready[0]


def _program(serial: str) -> Path:
    """The agent for the phone's first ABI; the file for another processor is refused."""
    said = _adb("-s", serial, "shell", "getprop ro.product.cpu.abilist").strip()
    abi = next((a for a in said.split(",") if a in ABIS), None)
    if abi is None:
        raise OptionError(f"runtime adb:{serial}: the phone says its ABIs are {said!r}")
    own = os.environ.get(AGENTS)
    try:
        return find_binary(Path(own, abi) if own else folder_of(None, abi), AGENT, abi)[0]
    except OptionError as error:
        raise OptionError(f"runtime adb:{serial}, whose ABI is {abi}: {error}") from None


def _adb_path() -> str:
    found = shutil.which("adb")
    for variable in ("ANDROID_HOME", "ANDROID_SDK_ROOT"):
        tools = Path(os.environ.get(variable, "/nowhere"), "platform-tools")
        found = found or shutil.which("adb", path=str(tools))
    if found is None:
        raise OptionError(
            "runtime adb: there is no adb on PATH or below ANDROID_HOME; install platform-tools"
        )
    return found


def _adb(*words: str) -> str:
    """What adb prints; raises OptionError with its complaint if it fails."""
    command: Sequence[str] = [_adb_path(), *words]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise OptionError(f"runtime adb: adb {words[-1]} does not end") from None
    if done.returncode:
        said = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
        # other lines tell of the start of its server
        errors = [line for line in said if line.startswith(("error: ", "adb: "))]
        why = printable((errors or said[-1:])[0]) if said else f"status {done.returncode}"
        raise OptionError(f"runtime adb: adb says: {why}")
    return done.stdout.decode(errors="replace")
