"""The provider's four flags: how they are written, which exclude each other, what levels ignore."""

import pytest

from ep_nnapi import NnapiFlag
from ep_nnapi.options.table import parse
from ep_nnapi.options.target import MAX_FEATURE_LEVEL, Target, _warn_of_ignored
from tests.refusal import refused

F = NnapiFlag


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
    expected = [("USE_FP16", 1), ("USE_NCHW", 2), ("CPU_DISABLED", 4), ("CPU_ONLY", 8)]
    assert [(f.name, int(f)) for f in F] == expected


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
        ("USE_FP32", "did you mean USE_FP16"),
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
def test_late_flags_are_ignored_below_level_3(level: int, flag: NnapiFlag, caplog):
    """Android 10 brought devices to choose from and NCHW operands: one warning for both."""
    _warn_of_ignored.cache_clear()
    options = parse({"flags": flag | F.USE_FP16, "feature_level": level})
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
