"""First samples: of every operation there is a legal one, of every data type and rank."""

from __future__ import annotations

import pytest

from ep_nnapi.nnapi.profile.form import form_of
from ep_nnapi.nnapi.profile.sample import use_of
from ep_nnapi.nnapi.profile.seeds import NOT_SAMPLED, seeds, seeds_of
from ep_nnapi.nnapi.spec import BY_NAME, OPERATIONS


@pytest.mark.parametrize("name", [o.name for o in OPERATIONS if o.name not in NOT_SAMPLED])
def test_every_operation_has_a_legal_sample(name: str):
    assert any(use_of(sample) for sample in seeds_of(BY_NAME[name]))


def test_operations_are_in_the_order_of_their_codes():
    assert next(seeds()).spec.name == OPERATIONS[0].name
    assert NOT_SAMPLED == ("IF", "WHILE")


def test_types_ranks_and_lengths_of_lists():
    found = {form_of(use[0]) for s in seeds_of(BY_NAME["SOFTMAX"]) if (use := use_of(s))}
    assert {f.ranks for f in found} == {f"{n} > {n}" for n in range(1, 5)}
    assert {f.types.split()[0] for f in found} == {
        "TENSOR_FLOAT32",
        "TENSOR_FLOAT16",
        "TENSOR_QUANT8_ASYMM",
        "TENSOR_QUANT8_ASYMM_SIGNED",
    }
    lists = {f.types.split(" > ")[0].partition(" ")[2] for f in found}
    assert lists == {"FLOAT32", "FLOAT32 INT32", "FLOAT16", "FLOAT16 INT32"}


def test_an_lstm_omits_what_belongs_together():
    name = "UNIDIRECTIONAL_SEQUENCE_LSTM"
    found = {form_of(use[0]).types for s in seeds_of(BY_NAME[name]) if (use := use_of(s))}
    assert not all("-" in types for types in found)  # all features
    assert len({types.split(" > ")[0] for types in found}) == 2 * 24  # of float32 and of float16
