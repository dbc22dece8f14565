"""Variations of samples: what is tried of an operation."""

from __future__ import annotations

from itertools import product

import pytest

from ep_nnapi.nnapi.profile.form import form_of
from ep_nnapi.nnapi.profile.sample import use_of
from ep_nnapi.nnapi.profile.variations import variations
from tests.nnapi.profile.test_sample import first


def tried(name: str, **ranks: int) -> set[frozenset[str]]:
    """The traits of the variations in which they differ from the sample, in its group."""
    sample = first(name, **ranks)
    base = form_of(use_of(sample)[0])
    found = (form_of(use[0]) for v in variations(sample) if (use := use_of(v)))
    same = (f for f in found if (f.types, f.ranks) == (base.types, base.ranks))
    return {f.traits - base.traits for f in same}


@pytest.mark.parametrize(
    ("name", "traits"),
    [
        ("CONV_2D", {"activation=1"}),
        ("CONV_2D", {"filter=variable"}),
        ("CONV_2D", {"filter=variable", "bias=variable"}),
        ("CONV_2D", {"relaxed=yes"}),
        ("CONV_2D", {"padding_left=+", "symmetric_columns=no"}),
        ("CONV_2D", {"stride_width=2", "stride_height=2"}),
        ("CONV_2D", {"stride_width=3+", "square_strides=no"}),
        ("CONV_2D", {"input.sizes=unknown", "output.sizes=unknown"}),
        ("ADD", {"input2.shape=last axis"}),
        ("ADD", {"input1=constant", "input2=constant"}),
        ("CONCATENATION", {"inputs.count=9+"}),
        ("SPLIT", {"outputs.count=9+", "num_splits=3+"}),
        ("DEPTHWISE_CONV_2D", {"depth_multiplier=2"}),
        ("GROUPED_CONV_2D", {"num_groups=1"}),
        ("DEPTH_TO_SPACE", {"block_size=3+"}),
    ],
)
def test_what_is_tried(name: str, traits: set[str]):
    found = tried(name, **({"input1": 4, "input2": 4} if name == "ADD" else {}))
    assert traits in found, sorted(map(sorted, found))


def test_windows_of_one_element_with_strides():
    found = tried("MAX_POOL_2D")
    for width, height in product(("1", "2", "3+"), repeat=2):
        window = {"filter_width=1", "filter_height=1"}
        window |= {f"stride_{n}={v}" for n, v in (("width", width), ("height", height)) if v != "1"}
        window |= {"square_strides=no"} if width != height else set()
        assert window in found


def test_ranks_that_change_begin_other_groups():
    sample = first("MEAN", input=4)
    ranks = {form_of(use[0]).ranks for v in variations(sample) if (use := use_of(v))}
    assert ranks == {"4 1 > 4", "4 1 > 3", "4 1 > 2", "4 1 > 1"}
