"""Public functions name an argument of a wrong type in one sentence, before they do anything."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from pathlib import Path

import pytest

import ep_nnapi
from ep_nnapi import OptionError
from ep_nnapi.options.parameters import checked_arguments

PARAMETERS = [
    ("bundle", "model out abi native"),
    ("calibrate", "path device runtime progress"),
    ("compare", "progress"),
    ("devices", "runtime"),
    ("doctor", "path runtime device operations timeout progress"),
    ("fix", "out ranges progress"),
    ("prepare", "out timeout progress"),
    ("record_profile", "path models runtime device progress"),
    ("run", "profile"),
    ("tune", "out seconds progress"),
    ("write_report", "output advance"),
]


@pytest.mark.parametrize(("name", "parameters"), PARAMETERS)
def test_arguments_of_wrong_types(
    name: str, parameters: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    function: Callable[..., object] = getattr(ep_nnapi, name)
    named = signature(function).parameters.values()
    needed = {p.name: "x" for p in named if p.default is p.empty and p.kind is not p.VAR_KEYWORD}
    for parameter in parameters.split():
        for wrong in (object(), {3}, b"bytes"):
            with pytest.raises(OptionError) as caught:
                function(**{**needed, parameter: wrong})
            assert str(caught.value).startswith(f"{parameter} is {wrong!r}; it must be a ")
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("wrong", [None, 3, [], b"bytes"])
def test_session_options(wrong: object):
    with pytest.raises(OptionError, match=r"^session_options is .*; it must be a SessionOptions$"):
        ep_nnapi.append_execution_provider(wrong)


@checked_arguments
def named(path: Path | None = None, *, of: str = "", count: int = 0) -> str:
    """A text."""
    return f"{path} {of} {count}"


def test_the_function_stays_what_it_is():
    assert (named(Path("a"), of="b", count=2), named(None)) == ("a b 2", "None  0")
    assert (named.__name__, named.__doc__) == ("named", "A text.")
    with pytest.raises(TypeError, match=r"named\(\) got an unexpected keyword argument 'other'"):
        named(other=1)
    with pytest.raises(TypeError, match="multiple values for argument 'path'"):
        named(None, path=None)
    with pytest.raises(OptionError, match=r"^of is 3; it must be a string$"):
        named(of=3)
    assert named(count="x") == "None  x"  # a number is checked where it is read
