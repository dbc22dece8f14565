"""The example profiles in the package are those that are recorded now."""

from __future__ import annotations

import pytest

from ep_nnapi.nnapi.profile.examples import FOLDER, devices, path_of, profiles
from ep_nnapi.nnapi.profile.file import read, to_text
from ep_nnapi.nnapi.profile.seeds import seeds_of
from ep_nnapi.nnapi.spec import BY_NAME

FEW = ("CONCATENATION", "MEAN", "SOFTMAX", "RESHAPE", "TRANSPOSE")


def test_each_example_has_a_file_and_each_file_an_example():
    assert {p.name for p in FOLDER.iterdir()} == {path_of(d.name).name for d in devices()}


def test_examples_are_up_to_date_in_a_few_operations():
    for made in profiles(s for name in FEW for s in seeds_of(BY_NAME[name])):
        stored = read(path_of(made.device.name))
        assert (stored.device, stored.runtime_level) == (made.device, made.runtime_level)
        found = {group: c for group, c in stored.groups.items() if group[0] in FEW}
        assert found == made.groups


@pytest.mark.long
def test_examples_are_up_to_date():
    for made in profiles():
        path = path_of(made.device.name)
        again = "record them again with python -m ep_nnapi.nnapi.profile.examples"
        assert to_text(read(path)) == to_text(made), f"{path}: {again}"
