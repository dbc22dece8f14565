"""Settings files: what they hold, and that they name no file, library or runtime."""

import json
from pathlib import Path

import pytest

from ep_nnapi.nnapi.errors import OptionError
from ep_nnapi.options.settings import FILE_OPTIONS, Chosen, Settings, read_settings
from ep_nnapi.options.table import OPTIONS, parse
from ep_nnapi.options.target import NnapiFlag

GOOD = {
    "format": "ep-nnapi settings",
    "version": 1,
    "provider": "NNAPI",
    "optimization_level": "nnapi-aware",
    "options": {"flags": "USE_FP16", "exclude": ["Softmax", "Gemm"], "max_clusters": 3},
}


def saved(folder: Path, data: object) -> Path:
    path = folder / "settings.json"
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return path


def test_what_is_written_is_read(tmp_path: Path):
    written = Settings(Chosen.NNAPI, "basic", {"device": "host-cpu"}, {"milliseconds": 0.25})
    written.write(tmp_path / "s.json")
    assert read_settings(tmp_path / "s.json") == written
    assert read_settings(str(tmp_path / "s.json")) == written


def test_options_of_settings_are_parsed_as_any(tmp_path: Path):
    found = parse({"settings": saved(tmp_path, GOOD)})
    assert found.flags == NnapiFlag.USE_FP16
    assert found.exclude == ("Softmax", "Gemm")
    assert found.max_clusters == 3


def test_options_given_beside_settings_take_precedence(tmp_path: Path):
    path = saved(tmp_path, {**GOOD, "options": {"feature_level": 8, "flags": "USE_FP16"}})
    found = parse({"settings": path, "flags": 0, "api_level": 29})
    assert (found.flags, found.feature_level) == (NnapiFlag.NONE, 3)


@pytest.mark.parametrize("nothing", [None, ""])
def test_no_settings(nothing: object):
    assert parse({"settings": nothing}) == parse({})


@pytest.mark.parametrize("name", sorted(FILE_OPTIONS))
def test_options_that_name_files_are_refused(tmp_path: Path, name: str):
    path = saved(tmp_path, {**GOOD, "options": {name: "/tmp/evil.so"}})
    with pytest.raises(OptionError, match=f"option {name} names a file or a library"):
        parse({"settings": path})
    with pytest.raises(OptionError, match=f"option {name} names a file or a library"):
        Settings(Chosen.NNAPI, "basic", {name: "x"}).write(tmp_path / "new.json")
    assert not (tmp_path / "new.json").exists()


def test_every_option_with_a_file_is_among_them():
    assert {o.name for o in OPTIONS if o.metavar in ("FILE", "DIR", "RUNTIME")} == FILE_OPTIONS


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"format": "other"}, "not a settings file"),
        ({"version": 2}, "version 2 of the settings is unknown; this ep-nnapi reads version 1"),
        ({"version": None}, "version None of the settings is unknown"),
        ({"provider": "GPU"}, "provider 'GPU' with optimization_level 'nnapi-aware' is unknown"),
        ({"optimization_level": "disable"}, "optimization_level 'disable' is unknown"),
        ({"runtime": "/tmp/x.so"}, "key 'runtime' is unknown; options belong below options"),
        ({"options": ["flags"]}, "options is .*; it must be an object"),
        ({"options": {"flags": {"a": 1}}}, "option flags is .*; it must be text or a number"),
        ({"options": {"exclude": [None]}}, "option exclude is .*; it must be text or a number"),
        ({"options": {"flag": 1}}, "option 'flag' is unknown"),
        ({"options": {"flags": "FAST"}}, "flag 'FAST' is unknown"),
        ({"measured": 3}, "measured is 3; it must be an object"),
    ],
)
def test_what_is_no_settings_is_refused(tmp_path: Path, change: dict[str, object], says: str):
    with pytest.raises(OptionError, match=says):
        parse({"settings": saved(tmp_path, {**GOOD, **change})})


@pytest.mark.parametrize("text", ["", "[]", "{", "\x00\xff", "[" * 100_000, '"x"', "NaN"])
def test_other_files_are_refused(tmp_path: Path, text: str):
    with pytest.raises(OptionError, match="not a settings file"):
        read_settings(saved(tmp_path, text))


def test_files_that_are_not_there_or_too_large(tmp_path: Path):
    with pytest.raises(OptionError, match="no such settings file; ep-nnapi tune writes one"):
        read_settings(tmp_path / "none.json")
    with pytest.raises(OptionError, match="cannot be read: it has more than 1048576 bytes"):
        read_settings(saved(tmp_path, " " * ((1 << 20) + 1)))
    with pytest.raises(OptionError, match="cannot be read: Is a directory"):
        read_settings(tmp_path)
    with pytest.raises(OptionError, match="settings is 3; it must be the path of a file"):
        read_settings(3)
    with pytest.raises(OptionError, match="cannot be written"):
        Settings(Chosen.CPU, "all", {}).write(tmp_path / "none" / "s.json")


def test_settings_that_choose_the_cpu_have_no_options_for_nnapi(tmp_path: Path):
    path = saved(tmp_path, {**GOOD, "provider": "CPU", "optimization_level": "all", "options": {}})
    with pytest.raises(OptionError, match="chooses the CPU provider, as NNAPI was slower"):
        parse({"settings": path})
