"""Parsers of option values: what each reads, and its message with the option's name."""

import inspect
import os
from enum import StrEnum
from pathlib import Path

import pytest

from ep_nnapi import NnapiFlag, OptionError
from ep_nnapi.nnapi.codes import PreferenceCode, PriorityCode
from ep_nnapi.options import values
from ep_nnapi.options.table import parse, to_strings
from ep_nnapi.options.values import Category, Fallback, Preference, Preferred, Priority
from tests.refusal import refused


@pytest.mark.parametrize(
    ("given", "number"), [(3, 3), ("3", 3), (" 0x1F ", 31), ("-2", -2), (NnapiFlag.USE_NCHW, 2)]
)
def test_integer(given: object, number: int):
    assert values.integer("n", given) == number


@pytest.mark.parametrize("given", [True, 1.0, "1.0", "", None, "one"])
def test_integer_refuses(given: object):
    with pytest.raises(OptionError, match="; it must be a whole number"):
        values.integer("n", given)


@pytest.mark.parametrize(("given", "count"), [(1, 1), ("7", 7)])
def test_count(given: object, count: int):
    assert values.count("n", given) == count


@pytest.mark.parametrize("given", [0, -1])
def test_count_just_below_one(given: int):
    with pytest.raises(OptionError, match=f"n is {given}; it must be 1 or more"):
        values.count("n", given)


@pytest.mark.parametrize(
    ("parse", "given", "value"),
    [
        (values.threads, 1, 1),
        (values.threads, "1024", 1024),
        (values.seed, "0", 0),
        (values.tolerance, None, None),
        (values.tolerance, 0, 0.0),
        (values.tolerance, "inf", float("inf")),
    ],
)
def test_numbers_at_their_limits(parse: values.ValueParser[object], given: object, value: object):
    assert parse("n", given) == value


@pytest.mark.parametrize(
    ("parse", "given", "says"),
    [
        (values.threads, 0, "n is 0; it must be 1 to 1024"),
        (values.threads, 1025, "n is 1025; it must be 1 to 1024"),
        (values.seed, -1, "n is -1; it must be 0 or more"),
        (values.tolerance, -1e-9, "n is -1e-09; it must be a number of at least 0"),
        (values.tolerance, float("nan"), "n is nan; it must be a number of at least 0"),
        (values.tolerance, "x", "n is x; it must be a number of at least 0"),
    ],
)
def test_numbers_just_past_their_limits(
    parse: values.ValueParser[object], given: object, says: str
):
    with pytest.raises(OptionError) as refusal:
        parse("n", given)
    assert str(refusal.value) == says


def test_paths_are_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert values.path("file", "a/../b") == f"{tmp_path}/b"
    assert values.path("file", Path("b")) == f"{tmp_path}/b"
    assert [values.path("file", nothing) for nothing in (None, "")] == [None, None]
    with pytest.raises(OptionError, match="file is 3; it must be the path of a file"):
        values.path("file", 3)


def test_a_folder_that_was_removed_has_no_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert values.path("file", tmp_path) == str(tmp_path)
    with pytest.raises(OptionError, match=r"^file is 'a', but the current folder was removed$"):
        values.path("file", "a")


def test_one_of():
    parse = values.one_of(Fallback)
    assert parse("where", "cpu") is parse("where", Fallback.CPU) is Fallback.CPU
    with pytest.raises(OptionError, match="where is 'gpu'; it must be one of reference, cpu, none"):
        parse("where", "gpu")


def test_name_or_path(tmp_path: Path):
    parse, file = values.name_or_path("host", "system"), tmp_path / "libneuralnetworks.so"
    expected = [*("host", "system"), *("host", "host")]
    assert [parse("runtime", given) for given in ("host", "system", None, "")] == expected
    file.touch()
    assert parse("runtime", file) == str(file)
    remote = ("adb", "adb:one", "exec:ssh board nnapi_agent")
    assert [parse("runtime", given) for given in remote] == list(remote)
    there = os.path.relpath(file)  # worker processes are in other folders
    assert parse("runtime", f"exec:{there} --idle 3") == f"exec:{file} --idle 3"
    file.unlink()
    with pytest.raises(
        OptionError,
        match="host, system, adb, adb:SERIAL, exec:COMMAND or the path of a",
    ):
        parse("runtime", file)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (NnapiFlag.USE_FP16 | NnapiFlag.USE_NCHW, "USE_FP16|USE_NCHW"),
        (NnapiFlag.NONE, "0"),
        (("a", "b"), "a,b"),
        ((("x", (1, 2)), ("n", (3,))), "x=1,2;n=3"),
        (4, "4"),
        (Fallback.CPU, "cpu"),
    ],
)
def test_text_of_values(value: object, text: str):
    assert values.to_text(value) == text


KINDS = {
    name: kind
    for name, kind in vars(values).items()
    if inspect.isclass(kind)
    and issubclass(kind, StrEnum)
    and kind not in (StrEnum, Category, Preferred)
}
OPTIONS = {
    "fallback": "Fallback",
    "dynamic_shapes": "DynamicShapes",
    "partitioning": "Partitioning",
    "relaxed": "Relaxed",
    "preference": "Preference",
    "priority": "Priority",
    "spinning": "Spinning",
}


def test_every_kind_belongs_to_an_option() -> None:
    assert set(OPTIONS.values()) == set(KINDS)


@pytest.mark.parametrize("option", OPTIONS)
def test_values_are_their_names_and_are_read_back(option: str) -> None:
    for value in KINDS[OPTIONS[option]]:
        assert value == value.name.lower()
        given = parse({option: str(value)})
        assert getattr(given, option) is value
        assert to_strings(given).get(option, str(getattr(parse({}), option))) == value


def test_an_order_of_preference_is_read_back() -> None:
    given = parse({"prefer": "cpu, nnapi"})
    assert given.prefer == (Preferred.CPU, Preferred.NNAPI)
    assert to_strings(given) == {"prefer": "cpu,nnapi"}
    refused({"prefer": "cpu,npu"}, "prefer", "npu", *Preferred)


@pytest.mark.parametrize("option", OPTIONS)
def test_other_values_are_refused_with_those_that_there_are(option: str) -> None:
    refused({option: "other"}, option, "other", *KINDS[OPTIONS[option]])


@pytest.mark.parametrize(
    ("kind", "codes"), [(Preference, PreferenceCode), (Priority, PriorityCode)]
)
def test_the_ndks_names(kind: type[StrEnum], codes: type) -> None:
    """PRIORITY_DEFAULT of the NDK is another name of MEDIUM."""
    assert {value.name for value in kind} == {code.name for code in codes}


def test_a_failed_cluster_runs_elsewhere_unless_told_otherwise() -> None:
    assert parse({}).fallback is not Fallback.NONE
