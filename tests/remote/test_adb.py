"""Phones over adb: which are there, the agent that is pushed, sentences of what is amiss."""

import json
import re
import shlex
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import pytest

from ep_nnapi import libneuralnetworks_path
from ep_nnapi.nnapi.errors import OptionError
from ep_nnapi.provider.devices import open_runtime
from ep_nnapi.remote import runtime
from ep_nnapi.remote.adb import AGENT, AGENTS, agent_command, phones
from ep_nnapi.remote.runtime import remote_runtime
from ep_nnapi.remote.stream import Kind, Stream
from tests.bundling.phone import ABI, needs_abi
from tests.cli.command import DONE, FAILED, UNUSABLE
from tests.documents import calls, replaced
from tests.programs import ROOT
from tests.remote.agents import Bench, Phone, agents_folder, phone
from tests.runtimes import library

pytestmark = needs_abi


@pytest.fixture
def attached(built: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Phone:
    monkeypatch.setenv(AGENTS, str(agents_folder(built, tmp_path / "agents", ABI)))
    monkeypatch.delenv("ANDROID_SERIAL", raising=False)
    runtime._opened.cache_clear()
    return phone(tmp_path, ABI, monkeypatch.setenv)


def test_the_agent_is_pushed_once_and_started(attached: Phone):
    assert phones() == {"one": ""}
    for name in ("adb", "adb:one"):
        assert open_runtime(name).devices() == library().devices()
    (agent,) = attached.pushed.glob(f"{AGENT}*")
    assert agent.name == f"{AGENT}-{agent.name.rpartition('-')[2]}"  # whole: no part is left
    assert sum(line.startswith("-s one push") for line in attached.log) == 1
    assert f"-s one shell -T exec /data/local/tmp/ep-nnapi-agent/{agent.name}" in attached.log


def test_the_commands_of_the_document(attached: Phone, built: Bench, cli):
    stand_ins = {
        "model.onnx": ROOT / "models" / "digits.onnx",
        "adb:SERIAL": "adb:one",
        "ssh board ./nnapi_agent": built.agent,
        "./libneuralnetworks.so": libneuralnetworks_path(),
    }
    made = calls(ROOT / "docs" / "agent.md")
    assert len(made) == 3
    for command in replaced("\n".join(made), stand_ins).splitlines():
        assert cli(*shlex.split(command)[1:])[0] == DONE, command
    assert attached.log


def test_threads_have_one_agent(attached: Phone):
    with ThreadPoolExecutor(4) as threads:
        first, *others = threads.map(remote_runtime, ["adb:one"] * 4)
    assert all(other is first for other in others)
    assert sum("exec" in line for line in attached.log) == 1


def test_phones_and_their_devices_are_one_table(attached: Phone, cli):
    attached.says("phones", "one\tdevice\ntwo\tdevice\n")
    code, out, _ = cli("devices", "--runtime", "adb")
    assert code == DONE
    rows = [line.split()[:2] for line in out.splitlines() if line.startswith("adb:")]
    names = [d.name for d in library().devices()]
    assert rows == [[f"adb:{phone}", name] for phone in ("one", "two") for name in names]
    found = json.loads(cli("devices", "--runtime", "adb", "--json")[1])
    assert [[d["runtime"], d["name"]] for d in found] == rows
    assert "sessions use: " in cli("devices", "--runtime", "adb:two")[1]


def test_pushed_weights_are_listed_and_removed(attached: Phone, cli):
    open_runtime("adb:one")
    file = attached.pushed / f"weights-{'0' * 64}"
    for path in (file, attached.pushed / "mine"):
        path.write_bytes(b"12345")
    assert cli("devices", "--runtime", "adb", "--clean")[0] == DONE
    assert [p.name for p in attached.pushed.iterdir() if p.name[:2] != "nn"] == ["mine"]
    file.with_suffix(".part").write_bytes(b"123")
    removed = json.loads(cli("devices", "--runtime", "adb:one", "--clean", "--json")[1])
    assert removed == [{"runtime": "adb:one", "file": f"{file.name}.part", "bytes": 3}]
    code, _, err = cli("devices", "--clean")
    assert code == UNUSABLE
    assert "--clean is for --runtime adb and exec:COMMAND, not host" in err


def test_several_phones(attached: Phone, monkeypatch: pytest.MonkeyPatch):
    attached.says("phones", "one\tdevice\ntwo\tdevice\nthree\tunauthorized\n")
    assert [serial for serial, amiss in phones().items() if not amiss] == ["one", "two"]
    with pytest.raises(OptionError, match="2 phones are attached; name one of adb:one, adb:two"):
        agent_command("")
    monkeypatch.setenv("ANDROID_SERIAL", "two")
    assert agent_command("")[1:3] == ["-s", "two"]


@pytest.mark.parametrize(
    ("what", "text", "says"),
    [
        ("phones", "\n", "adb: no phone is attached; switch on USB debugging in its developer opt"),
        ("phones", "one\toffline\n", "adb:one is offline; `adb reconnect offline`, or unplug it"),
        ("phones", "one\tunauthorized\n", "adb:one is unauthorized; confirm this computer's key"),
        ("phones", "one\tno permissions (user)\n", "adb:one may not be opened by this user; `adb"),
        ("phones", "one\trecovery\n", "adb:one is in state recovery"),
        ("abis", "mips\n", "adb:one: the phone says its ABIs are 'mips'"),
        (
            "abis",
            "armeabi-v7a\n",
            "adb:one, whose ABI is armeabi-v7a: .*nnapi_agent is missing; pip",
        ),
        ("library", "/none.so", "runtime: /none.so: cannot open shared object file"),
    ],
)
def test_what_is_amiss(what: str, text: str, says: str, attached: Phone):
    attached.says(what, text)
    for name in ("adb", "adb:one") if text.strip() else ("adb",):
        with pytest.raises(OptionError, match=says):
            open_runtime(name)


def test_a_phone_that_cannot_be_used_hides_no_other(attached: Phone, cli):
    attached.says("phones", "one\toffline\ntwo\tdevice\n")
    for words in ((), ("--clean",)):
        code, out, err = cli("devices", "--runtime", "adb", *words)
        assert code == DONE
        assert err.startswith("ep-nnapi: runtime adb:one is offline; ")
        assert err.count("\n") == 1
        assert "adb:one" not in out
    code, out, _ = cli("devices", "--runtime", "adb")
    assert "adb:two  nnapi-reference" in out
    assert "sessions use: " in out
    attached.says("phones", "one\toffline\nthree\tunauthorized\n")
    code, _, err = cli("devices", "--runtime", "adb")
    assert code == UNUSABLE
    assert "adb:one is offline; " in err
    assert "adb:three is unauthorized; " in err


@pytest.mark.parametrize(("words", "kind"), [((), Kind.DEVICES), (("--clean",), Kind.STORE)])
@pytest.mark.parametrize("lost", [1, 2])
def test_a_phone_that_is_lost_while_it_answers_hides_no_other(
    lost: int,
    words: tuple[str, ...],
    kind: Kind,
    attached: Phone,
    cli,
    monkeypatch: pytest.MonkeyPatch,
):
    attached.says("phones", "one\tdevice\ntwo\tdevice\n")
    request, asked = Stream.request, count()

    def unplugged(stream: Stream, asks: Kind, *more: object, **named: object) -> object:
        if asks is kind and next(asked) < lost:
            stream._process.kill()
            stream._process.wait()
        return request(stream, asks, *more, **named)

    monkeypatch.setattr(Stream, "request", unplugged)
    code, out, err = cli("devices", "--runtime", "adb", *words)
    told = [re.search(f"adb:{phone}.*its stream has ended", err) for phone in ("one", "two")]
    assert list(map(bool, told)) == [True, lost == 2]
    assert err.count("\n") == lost
    if lost == 1:
        assert code == DONE
        assert ("adb:two  nnapi-reference" in out) == (not words)
    else:
        assert code == (FAILED if words else UNUSABLE)


def test_one_of_another_abi_is_refused(attached: Phone, tmp_path: Path):
    other = "x86" if ABI != "x86" else "arm64-v8a"
    (tmp_path / "agents" / other).symlink_to(tmp_path / "agents" / ABI)
    attached.says("abis", other)
    with pytest.raises(OptionError, match=f"nnapi_agent is built for {ABI}, not {other}"):
        open_runtime("adb")


def test_an_unknown_phone(attached: Phone):
    with pytest.raises(OptionError, match=r"adb says: error: device .none. not found$"):
        open_runtime("adb:none")


def test_without_adb(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("ANDROID_HOME", raising=False)
    with pytest.raises(OptionError, match="there is no adb on PATH or below ANDROID_HOME"):
        phones()
    tools = tmp_path / "platform-tools"
    tools.mkdir()
    (tools / "adb").write_text("#!/bin/sh\n")
    (tools / "adb").chmod(0o755)
    monkeypatch.setenv("ANDROID_HOME", str(tmp_path))
    with pytest.raises(OptionError, match="no phone is attached"):
        phones()


@pytest.mark.parametrize(("name", "says"), [("exec:", "a command is missing"), ("exec:'", "is no")])
def test_commands(name: str, says: str):
    with pytest.raises(OptionError, match=says):
        remote_runtime(name)
