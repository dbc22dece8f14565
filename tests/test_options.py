"""The table of options: what each takes, what each refuses, and in which words."""

import logging

import pytest

from ep_nnapi import NnapiFlag, OptionError
from ep_nnapi.options import OPTIONS, Options, _warn_of_ignored, parse, to_strings
from ep_nnapi.target import MAX_FEATURE_LEVEL, RuleSet, Target, feature_level_of_api

F = NnapiFlag


def refused(given: dict[str, object], *parts: str) -> None:
    """`parse` refuses in one sentence that has these parts."""
    with pytest.raises(OptionError) as caught:
        parse(given)
    sentence = str(caught.value)
    assert "\n" not in sentence
    for part in parts:
        assert part in sentence


def test_nothing_given_is_the_default():
    assert parse({}) == Options()


def test_rows_are_the_fields_and_the_api_level():
    """`api_level` is another spelling of `feature_level`, so it is no field."""
    fields = set(Options.__dataclass_fields__)
    assert {o.name for o in OPTIONS} == fields | {"api_level"}


# flags ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "flags"),
    [
        (0, F.NONE),
        (1, F.USE_FP16),
        (2, F.USE_NCHW),
        (4, F.CPU_DISABLED),
        (8, F.CPU_ONLY),
        (3, F.USE_FP16 | F.USE_NCHW),
        (11, F.USE_FP16 | F.USE_NCHW | F.CPU_ONLY),
        (F.USE_FP16 | F.CPU_DISABLED, F.USE_FP16 | F.CPU_DISABLED),
        ("3", F.USE_FP16 | F.USE_NCHW),
        ("0x3", F.USE_FP16 | F.USE_NCHW),
        (" 8 ", F.CPU_ONLY),
        ("USE_FP16", F.USE_FP16),
        ("USE_FP16|USE_NCHW", F.USE_FP16 | F.USE_NCHW),
        ("USE_FP16 | CPU_ONLY", F.USE_FP16 | F.CPU_ONLY),
        ("", F.NONE),
        ("0", F.NONE),
    ],
)
def test_flags(given: object, flags: NnapiFlag):
    assert parse({"flags": given}).flags == flags


def test_flag_values_are_those_of_onnxruntime():
    """Source: include/onnxruntime/core/providers/nnapi/nnapi_provider_factory.h, NNAPIFlags."""
    assert [(f.name, int(f)) for f in F] == [
        ("USE_FP16", 1),
        ("USE_NCHW", 2),
        ("CPU_DISABLED", 4),
        ("CPU_ONLY", 8),
    ]


@pytest.mark.parametrize(
    ("given", "part"),
    [
        (16, "flags is 16"),
        (-1, "flags is -1"),
        ("32", "flags is 32"),
        ("-1", "flags is -1"),
        (1 << 31, f"flags is {1 << 31}"),
        ("FP16", "flag 'FP16' is unknown"),
        ("use_fp16", "flag 'use_fp16' is unknown"),
        ("USE_FP16|", "flag '' is unknown"),
        ("USE_FP16,USE_NCHW", "flag 'USE_FP16,USE_NCHW' is unknown"),
        ("USE_FP16|NNAPI_FLAG_CPU_ONLY", "flag 'NNAPI_FLAG_CPU_ONLY' is unknown"),
        ("NONE", "flag 'NONE' is unknown"),
    ],
)
def test_unknown_flags_name_the_known(given: object, part: str):
    refused({"flags": given}, part, "USE_FP16 (1), USE_NCHW (2), CPU_DISABLED (4), CPU_ONLY (8)")


@pytest.mark.parametrize("given", [True, 1.0, None])
def test_flags_of_another_type_are_refused(given: object):
    refused({"flags": given}, "flag")


@pytest.mark.parametrize("given", [12, "12", "CPU_DISABLED|CPU_ONLY", F.CPU_ONLY | F.CPU_DISABLED])
def test_both_cpu_flags_are_refused(given: object):
    refused({"flags": given}, "CPU_DISABLED and CPU_ONLY exclude each other")


@pytest.mark.parametrize("level", [1, 2, 3, 8])
@pytest.mark.parametrize("flag", [F.CPU_DISABLED, F.USE_NCHW, F.CPU_DISABLED | F.USE_NCHW])
def test_late_flags_are_ignored_below_level_3(
    level: int, flag: NnapiFlag, caplog: pytest.LogCaptureFixture
):
    """Android 10 brought devices to choose from and NCHW operands: one warning for both."""
    _warn_of_ignored.cache_clear()
    options = parse({"flags": flag | F.USE_FP16, "feature_level": level})
    with caplog.at_level(logging.WARNING):
        target = options.lowering_target(MAX_FEATURE_LEVEL)
        assert options.lowering_target(MAX_FEATURE_LEVEL) == target
    if level >= 3:
        assert target == Target(level, flag | F.USE_FP16)
        assert not caplog.records
    else:
        assert target == Target(level, F.USE_FP16)
        assert len(caplog.records) == 1
        assert f"needs feature level 3; ignored at {level}" in caplog.text


def test_what_a_target_makes_of_flags():
    assert [Target(8, f).nchw for f in (F.NONE, F.USE_NCHW)] == [False, True]
    assert [Target(8, f).relaxed for f in (F.NONE, F.USE_FP16)] == [False, True]


# levels --------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [1, 8, "1", "8", " 5 ", "0x8"])
def test_feature_level(given: object):
    assert parse({"feature_level": given}).feature_level == int(str(given), 0)


@pytest.mark.parametrize("given", [0, 9, -1, "0", "9", 27, 1000000])
def test_feature_level_just_outside(given: object):
    refused({"feature_level": given}, f"feature_level is {int(given)}", "must be 1 to 8")


@pytest.mark.parametrize("given", ["four", "", "4.0", 4.5, True, None, [4]])
def test_feature_level_must_be_a_number(given: object):
    refused({"feature_level": given}, f"feature_level is {given!r}", "whole number")


@pytest.mark.parametrize(("api", "level"), [(27, 1), (28, 2), (29, 3), (30, 4), (31, 5)])
def test_api_level(api: int, level: int):
    """Source: developer.android.com, NDK feature levels 1 to 5 came with API levels 27 to 31."""
    assert feature_level_of_api(api) == level
    assert parse({"api_level": api}).feature_level == level
    assert parse({"api_level": str(api)}) == parse({"feature_level": level})


@pytest.mark.parametrize("given", [26, 32, 33, 36, "1000006"])
def test_other_api_levels_name_the_feature_level(given: object):
    refused({"api_level": given}, f"api_level is {given}", "27 to 31", "feature_level")


@pytest.mark.parametrize("names", [("feature_level", "api_level"), ("api_level", "feature_level")])
def test_both_levels_are_refused(names: tuple[str, str]):
    values = {"feature_level": 4, "api_level": 30}
    refused({n: values[n] for n in names}, "feature_level and api_level are both given")


def test_level_is_the_runtimes_own_unless_given():
    assert parse({}).lowering_target(6).feature_level == 6
    assert parse({"feature_level": 6}).lowering_target(6).feature_level == 6
    with pytest.raises(OptionError, match="feature_level is 7, but the runtime offers 6"):
        parse({"feature_level": 7}).lowering_target(6)


@pytest.mark.parametrize("level", [0, 9])
def test_a_target_outside_the_levels_is_refused(level: int):
    with pytest.raises(OptionError, match="must be 1 to 8"):
        Target(level)


# the others ----------------------------------------------------------------------------------


def test_unknown_option_names_the_known():
    refused({"colour": "red"}, "option 'colour' is unknown", *(o.name for o in OPTIONS))


@pytest.mark.parametrize("given", ["red", "", "Reference", None, 1])
def test_fallback_refuses(given: object):
    refused({"fallback": given}, f"fallback is {str(given)!r}", "reference", "none")


@pytest.mark.parametrize("given", ["reference", "none"])
def test_fallback(given: str):
    assert parse({"fallback": given}).fallback == given


@pytest.mark.parametrize("name", ["runtime", "target"])
def test_unknown_runtime_and_target_are_refused(name: str):
    refused({name: "phone"}, f"{name} is 'phone'")


def test_runtime_and_target():
    assert parse({"runtime": "host", "target": "ep-nnapi"}) == Options()
    assert parse({"target": RuleSet.EP_NNAPI}) == Options()


@pytest.mark.parametrize(
    ("given", "device"), [("nnapi-reference", "nnapi-reference"), ("", None), (None, None)]
)
def test_device(given: object, device: str | None):
    assert parse({"device": given}).device == device


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ("Conv", ("Conv",)),
        ("Conv,pool1", ("Conv", "pool1")),
        (" Conv , ,pool1 ", ("Conv", "pool1")),
        (["Conv", "pool1"], ("Conv", "pool1")),
        (("Conv",), ("Conv",)),
        ("", ()),
    ],
)
def test_exclude(given: object, names: tuple[str, ...]):
    assert parse({"exclude": given}).exclude == names


@pytest.mark.parametrize("given", [1, None, {"Conv"}])
def test_exclude_of_another_type_is_refused(given: object):
    refused({"exclude": given}, "exclude is", "names separated by commas")


@pytest.mark.parametrize("given", ["specialize", "off"])
def test_dynamic_shapes(given: str):
    assert parse({"dynamic_shapes": given}).dynamic_shapes == given


@pytest.mark.parametrize("given", ["on", "", None])
def test_dynamic_shapes_refuses(given: object):
    refused({"dynamic_shapes": given}, "dynamic_shapes is", "specialize", "off")


@pytest.mark.parametrize("given", [1, "1", 100])
def test_shape_cache(given: object):
    assert parse({"shape_cache": given}).shape_cache == int(str(given))


@pytest.mark.parametrize("given", [0, -1, "0"])
def test_shape_cache_just_below_one(given: object):
    refused({"shape_cache": given}, f"shape_cache is {given}", "1 or more")


@pytest.mark.parametrize(
    ("given", "fixed"),
    [
        ("x=1,3,224,224", (("x", (1, 3, 224, 224)),)),
        ("x=1;y=2,3", (("x", (1,)), ("y", (2, 3)))),
        (["x=1", "y=2,3"], (("x", (1,)), ("y", (2, 3)))),
        ({"x": (1, 2)}, (("x", (1, 2)),)),
        ({"x": [1, 2]}, (("x", (1, 2)),)),
        ("scope=a/x=4", (("scope=a/x", (4,)),)),
        ("", ()),
    ],
)
def test_fix(given: object, fixed: tuple[object, ...]):
    assert parse({"fix": given}).fix == fixed


@pytest.mark.parametrize("given", ["x", "=1", "x=", "x=a", "x=0", "x=-1", {"x": 3}, {"x": "3"}, 3])
def test_fix_refuses(given: object):
    refused({"fix": given}, "fix")


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
        {"fix": {"x": (1, 3), "y": (2,)}},
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


def test_names_with_commas_cannot_be_excluded_silently():
    """A comma separates names, so a list with one in a name must not become two names."""
    refused({"exclude": ["a,b"]}, "exclude", "'a,b'", "comma")
