"""The table of options: what each takes, what each refuses, and in which words."""

import inspect
import re
from itertools import groupby
from pathlib import Path
from typing import get_type_hints

import pytest

import ep_nnapi
from ep_nnapi import OptionError
from ep_nnapi.options.table import (
    OPTIONS,
    OptionKeywords,
    Options,
    PrepareKeywords,
    changed,
    parse,
    to_strings,
    without,
)
from ep_nnapi.options.target import NnapiFlag, RuleSet, Target, feature_level_of_api
from ep_nnapi.options.values import Partitioning
from ep_nnapi.preparation.job import Format, job_of
from tests.refusal import refused


def test_nothing_given_is_the_default():
    assert parse({}) == Options()


def test_rows_are_the_fields_and_the_api_level():
    """`api_level` is another spelling of `feature_level`, `settings` a file with any of them."""
    fields = set(Options.__dataclass_fields__)
    assert {o.name for o in OPTIONS} == fields | {"api_level", "settings"}


def test_help_texts_name_the_default_of_the_parser():
    """Every word or number before `(default)`, or after it in the parentheses, is the default."""
    shown = {}
    for option in OPTIONS:
        found = re.search(r"(\S+) \(default\)|\(default (\S+)\)", option.help)
        if found:
            shown[option.name] = next(filter(None, found.groups()))
    assert {"flags", "fallback", "shape_cache", "relaxed"} <= shown.keys()
    for name, text in shown.items():
        assert parse({name: text}) == Options(), name


def test_categories_are_contiguous():
    """`--help-options` prints a heading for each run of options of one category."""
    runs = [category for category, _ in groupby(o.category for o in OPTIONS)]
    assert len(runs) == len(set(runs))


def test_bytes_of_dequantized_weights():
    for given, most in ({}, 1 << 30), ({"max_dequantized_bytes": "4096"}, 4096):
        assert parse(given).lowering_target(8).max_dequantized_bytes == most
    refused({"max_dequantized_bytes": "0"}, "max_dequantized_bytes is 0; it must be 1 or more")


@pytest.mark.parametrize("size", ["nodes", "weight_bytes", "activation_bytes"])
def test_limits_of_a_clusters_size(size: str):
    name = f"max_cluster_{size}"
    assert getattr(parse({}), name) is None
    assert getattr(parse({name: "1"}), name) == 1
    refused({name: 0}, f"{name} is 0", "1 or more")


# levels --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("api", "level"), [(27, 1), (28, 2), (29, 3), (30, 4), (31, 5)])
def test_api_level(api: int, level: int):
    """Source: developer.android.com, NDK feature levels 1 to 5 came with API levels 27 to 31."""
    assert feature_level_of_api(api) == level
    assert parse({"api_level": api}).feature_level == level
    assert parse({"api_level": str(api)}) == parse({"feature_level": level})


@pytest.mark.parametrize("names", [("feature_level", "api_level"), ("api_level", "feature_level")])
def test_both_levels_are_refused(names: tuple[str, str]):
    values = {"feature_level": 4, "api_level": 30}
    refused({n: values[n] for n in names}, "feature_level and api_level are both given")


def test_level_is_the_runtimes_own_unless_given():
    assert parse({}).lowering_target(6).feature_level == 6
    assert parse({"feature_level": 6}).lowering_target(6).feature_level == 6
    of_profile = parse({"device_profile": "p.json.gz"}).lowering_target(3)
    assert (of_profile.feature_level, of_profile.kernel_level) == (3, 8)
    with pytest.raises(OptionError, match="feature_level is 7, but the runtime offers 6"):
        parse({"feature_level": 7}).lowering_target(6)


@pytest.mark.parametrize("level", [0, 9])
def test_a_target_outside_the_levels_is_refused(level: int):
    with pytest.raises(OptionError, match="must be 1 to 8"):
        Target(level)


# the others ----------------------------------------------------------------------------------


VALUES = [
    *(("feature_level", given, int(str(given), 0)) for given in (1, 8, "1", "8", " 5 ", "0x8")),
    *(("device", given, given or None) for given in ("nnapi-reference", "", None)),
    *(("mask", given, given or None) for given in ("m", "", None)),
    *(("shape_cache", given, int(str(given))) for given in (1, "1", 100)),
    *(("exclude", given, ("Conv",)) for given in ("Conv", ("Conv",))),
    *(("exclude", g, ("Conv", "pool1")) for g in ("Conv,pool1", " Conv , ,pool1 ")),
    ("exclude", ["Conv", "pool1"], ("Conv", "pool1")),
    ("exclude", "", ()),
]


@pytest.mark.parametrize(("name", "given", "value"), VALUES)
def test_values(name: str, given: object, value: object):
    assert getattr(parse({name: given}), name) == value


LEVELS = (0, 9, -1, "0", "9", 27, 1000000)
NO_NUMBERS = ("four", "", "4.0", 4.5, True, None, [4])
REFUSED = [
    *(("feature_level", g, f"feature_level is {int(g)}", "must be 1 to 8") for g in LEVELS),
    *(("feature_level", g, f"feature_level is {g!r}", "whole number") for g in NO_NUMBERS),
    *(
        ("api_level", given, f"api_level is {given}", "27 to 31", "feature_level")
        for given in (26, 32, 33, 36, "1000006")
    ),
    *(
        ("fallback", given, f"fallback is {str(given)!r}", "reference", "none")
        for given in ("red", "", "Reference", None, 1)
    ),
    *((name, "phone", f"{name} is 'phone'") for name in ("runtime", "target")),
    *(("exclude", g, "exclude is", "names separated by commas") for g in (1, None, {"Conv"})),
    ("exclude", ["a,b"], "exclude", "'a,b'", "comma"),  # not two names
    *(("dynamic_shapes", g, "dynamic_shapes is", "specialize", "off") for g in ("on", "", None)),
    *(("shape_cache", g, f"shape_cache is {g}", "1 or more") for g in (0, -1, "0")),
]


@pytest.mark.parametrize(("name", "given", "parts"), [(n, g, parts) for n, g, *parts in REFUSED])
def test_values_that_are_refused(name: str, given: object, parts: list[str]):
    refused({name: given}, *parts)


def test_unknown_option_names_the_known():
    refused({"colour": "red"}, "option 'colour' is unknown", *(o.name for o in OPTIONS))
    refused({"shape_cash": 1}, "did you mean shape_cache?")
    refused({"fallback": "reverence"}, "did you mean reference?")


def test_runtime_and_target():
    assert parse({"runtime": "host", "target": "ep-nnapi"}) == Options()
    assert parse({"target": RuleSet.EP_NNAPI}) == Options()


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({}, "specialize"),
        ({"target": "ep-nnapi"}, "specialize"),
        ({"target": "builtin-nnapi"}, "off"),
        ({"target": "builtin-nnapi", "dynamic_shapes": "specialize"}, "specialize"),
        ({"dynamic_shapes": "specialize", "target": "builtin-nnapi"}, "specialize"),
    ],
)
def test_the_builtin_target_refuses_symbolic_sizes_unless_told_otherwise(given, wanted):
    """ONNX Runtime's own provider takes no node with a dimension that is not a number."""
    assert parse(given).dynamic_shapes == wanted


# to strings and back -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"flags": 1},
        {"flags": 11},
        {"feature_level": 8},
        {"api_level": 29, "device": "nnapi-reference"},
        {"fallback": "none", "exclude": "Conv,pool1"},
        {"dynamic_shapes": "off", "shape_cache": 2, "target": "builtin-nnapi"},
        {"target": "builtin-nnapi"},
        {"dynamic_shapes": "specialize", "target": "builtin-nnapi"},
        {"fix": {"x": (1, 3), "y": (2,)}},
        {"sizes": {"n": (3, 1), "m": (2,)}, "mask": "attention_mask"},
    ],
)
def test_strings_are_parsed_to_the_same_options(given: dict[str, object]):
    """ONNX Runtime passes provider options as strings."""
    options = parse(given)
    strings = to_strings(options)
    assert all(isinstance(s, str) for s in strings.values())
    assert parse(strings) == options


def test_defaults_need_no_strings():
    assert to_strings(Options()) == {}
    assert to_strings(parse({"flags": 3})) == {"flags": "USE_FP16|USE_NCHW"}


def test_there_is_a_keyword_for_each_option():
    assert sorted(OptionKeywords.__annotations__) == sorted(o.name for o in OPTIONS)


def test_every_option_may_be_a_string():
    hints = get_type_hints(OptionKeywords)
    assert not [
        name for name, hint in hints.items() if hint is not str and str not in hint.__args__
    ]


def test_values_of_the_declared_types_are_parsed(tmp_path: Path):
    typed: OptionKeywords = {
        "flags": NnapiFlag.USE_NCHW,
        "feature_level": 4,
        "partitioning": Partitioning.WORTH_IT,
        "exclude": ["Conv", "Relu"],
        "fix": {"batch": 1, "x": (1, 3)},
        "compilation_timeout": 0.5,
        "cache_dir": tmp_path,
        "device": None,
    }
    texts: OptionKeywords = {
        "flags": "USE_NCHW",
        "feature_level": "4",
        "partitioning": "worth_it",
        "exclude": "Conv,Relu",
        "fix": "batch=1;x=1,3",
        "compilation_timeout": "0.5",
        "cache_dir": str(tmp_path),
    }
    assert parse(typed) == parse(texts) != Options()


def test_what_prepare_takes_beside_them_is_what_its_job_takes():
    own = PrepareKeywords.__annotations__.keys() - OptionKeywords.__annotations__.keys()
    assert own == job_of({}).to_json().keys() - {o.name for o in OPTIONS}
    assert job_of(PrepareKeywords(format="context", embed=True)).format is Format.CONTEXT


@pytest.mark.parametrize(
    "name", ["append_execution_provider", "check", "compare", "fix", "run", "tune", "write_report"]
)
def test_editors_see_the_options(name: str):
    (keywords,) = (
        p.annotation
        for p in inspect.signature(getattr(ep_nnapi, name)).parameters.values()
        if p.kind is p.VAR_KEYWORD
    )
    assert keywords == "Unpack[OptionKeywords]"


def test_options_are_changed_and_left_out():
    given = OptionKeywords(device="host-cpu", fix="batch=1")
    assert changed(given, feature_level=3) == {**given, "feature_level": 3}
    assert without(given, "fix", "flags") == {"device": "host-cpu"}
