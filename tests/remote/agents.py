"""Agents in folders, with libraries behind them, and a phone that is one of these folders."""

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread

import ep_nnapi
from ep_nnapi.remote.agent import Agent
from ep_nnapi.remote.runtime import RemoteRuntime
from tests.native.build import COMPILER, Build

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Bench:
    """The agent and two libraries: this project's own, and one that does what it is told to."""

    build: Build

    @property
    def agent(self) -> Path:
        return self.build.folder / "nnapi_agent"

    @property
    def altered(self) -> Path:
        return self.build.folder / "libaltered.so"

    def command(self, folder: Path, library: object = None, **environment: str) -> str:
        """The command of an agent with that library (default: the project's own)."""
        folder.mkdir(exist_ok=True)
        library = library or ep_nnapi.libneuralnetworks_path()
        said = " ".join(f"{name}={value}" for name, value in environment.items())
        return f"env {said} {self.agent} --folder {folder} --runtime {library}"

    def runtime(self, folder: Path, library: object = None, **environment: str) -> RemoteRuntime:
        """The runtime of a new agent."""
        words = self.command(folder, library, **environment).split()
        return RemoteRuntime("exec:agent", words.copy)


def bench(folder: Path, flags: tuple[str, ...] = ("-O2",)) -> Bench:
    """Builds them in a folder."""
    made = Bench(Build(folder, COMPILER or "cc", flags))
    made.build.program("nnapi_agent")
    real = Path(ep_nnapi.libneuralnetworks_path())
    folders = (f"-L{real.parent}", f"-Wl,-rpath,{real.parent}")
    linked = (*folders, "-Wl,--no-as-needed", f"-l:{real.name}")
    made.build.compiled("libaltered.so", HERE / "altered.c", "-shared", "-fPIC", *linked)
    return made


@contextmanager
def killed_in(call: str, agent: Callable[[], Agent]) -> Iterator[None]:
    """In the block, the agent is killed whenever its library, `altered`, is in that call."""
    over = Event()

    def kill() -> None:
        while not over.wait(0.01):
            stream = agent()._stream
            if any(f"says {call}" in line for line in list(stream._said)) and not stream.closed:
                os.killpg(stream._process.pid, signal.SIGKILL)

    killer = Thread(target=kill)
    killer.start()
    try:
        yield
    finally:
        over.set()
        killer.join()


ADB = """\
#!/bin/sh
# The phone's files are below $PHONE; LOG gets every command.
set -eu
echo "$*" >> "$PHONE/log"
on_phone() { printf %s "$1" | sed "s#/data/local/tmp#$PHONE/data/local/tmp#g"; }
case $1 in
  devices) printf 'List of devices attached\\n'; cat "$PHONE/phones"; exit ;;
  -s) serial=$2; shift 2 ;;
esac
if ! grep -q "^$serial	device" "$PHONE/phones"; then
  printf "* daemon started successfully\\nerror: device '$serial' not found\\nTry again\\n" >&2
  exit 1
fi
case $1 in
  shell)
    shift
    if test "$1" = -T; then shift; fi
    case $* in
      "getprop ro.product.cpu.abilist") cat "$PHONE/abis" ;;
      "exec "*)
        exec $(cat "$PHONE/before") $(on_phone "$*" | sed 's/^exec //') \\
          --runtime "$(cat "$PHONE/library")" ;;
      *) exec sh -c "$(on_phone "$*")" ;;
    esac ;;
  push) cp "$2" "$(on_phone "$3")"; chmod 644 "$(on_phone "$3")" ;;
esac
"""


@dataclass(frozen=True)
class Phone:
    """A folder that stands for a phone, and the adb that reaches it."""

    root: Path
    tools: Path

    def says(self, what: str, text: str) -> None:
        """What adb says of: phones, abis; library behind the agent, words before its command."""
        (self.root / what).write_text(text)

    @property
    def log(self) -> list[str]:
        """The commands so far."""
        return (self.root / "log").read_text().splitlines()

    @property
    def pushed(self) -> Path:
        """The folder of the agent."""
        return self.root / "data/local/tmp/ep-nnapi-agent"


def phone(folder: Path, abi: str, set_variable: Callable[[str, str], None]) -> Phone:
    """An attached phone of that ABI with this project's library, for this process's adb."""
    made = Phone(folder / "phone", folder / "tools")
    (made.root / "data/local/tmp").mkdir(parents=True)
    made.tools.mkdir()
    (made.tools / "adb").write_text(ADB)
    (made.tools / "adb").chmod(0o755)
    made.says("phones", "one\tdevice\n")
    made.says("abis", f"{abi},other\n")
    made.says("library", ep_nnapi.libneuralnetworks_path())
    made.says("before", "")
    set_variable("PATH", f"{made.tools}:/usr/bin:/bin")
    set_variable("PHONE", str(made.root))
    return made


def agents_folder(made: Bench, folder: Path, abi: str) -> Path:
    """A folder for EP_NNAPI_AGENTS."""
    (folder / abi).mkdir(parents=True)
    shutil.copy(made.agent, folder / abi)
    return folder


@dataclass
class Reach:
    """Agents over exec:, or on a phone over adb, which share a folder.

    A call prepares another one, of which each session and verb of that name starts its own.

    phone  None: over exec:
    """

    bench: Bench
    folder: Path
    phone: Phone | None
    made: int = 0

    def __call__(self, library: object = None, before: str = "", **environment: str) -> str:
        """The name of its runtime; all on the phone have the library and words of the last call.

        library      default: the project's own
        before       words that its command follows
        environment  its variables
        """
        self.made += 1
        named = {"N": str(self.made), **environment}
        if self.phone is None:
            return f"exec:{before} {self.bench.command(self.folder / 'agent', library, **named)}"
        serials = [f"{self.folder.name}-{n}" for n in range(1, self.made + 1)]
        self.phone.says("phones", "".join(f"{serial}\tdevice\n" for serial in serials))
        said = " ".join(f"{name}={value}" for name, value in named.items())
        self.phone.says("before", f"{before} env {said}")
        self.phone.says("library", str(library or ep_nnapi.libneuralnetworks_path()))
        return f"adb:{serials[-1]}"

    @property
    def files(self) -> Path:
        """The folder of weights."""
        return self.folder / "agent" if self.phone is None else self.phone.pushed
