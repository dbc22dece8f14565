"""The typed keywords are the options, and what they declare is what the parsers take."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import get_type_hints

import pytest

import ep_nnapi
from ep_nnapi.options.option_keywords import OptionKeywords, PrepareKeywords, changed, without
from ep_nnapi.options.option_values import Partitioning
from ep_nnapi.options.table import OPTIONS, Options, parse
from ep_nnapi.options.target import NnapiFlag
from ep_nnapi.preparation.job import Format, job_of


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
