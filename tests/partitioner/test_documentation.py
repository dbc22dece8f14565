"""docs/partitioner.md: its examples are true, and its pictures show the clusters they follow."""

import doctest
import json
import re
from itertools import pairwise
from pathlib import Path

import pytest

from bench import partitioner_figures

PAGE = Path(__file__).parents[2] / "docs" / "partitioner.md"


def test_examples():
    failed, tried = doctest.testfile(str(PAGE), module_relative=False)
    assert tried
    assert not failed


def test_pictures_show_the_clusters():
    """The nodes of each `subgraph` of a picture, against the clusters printed above it."""
    first, second = re.findall(r"```mermaid\n(.*?)```", PAGE.read_text(), re.DOTALL)
    expected = [{"fetch", "compile", "docs", "link", "test"}, {"package", "publish"}]
    assert clusters_of(first) == expected
    wanted = [{"fetch", "compile", "docs"}, {"link", "test"}, {"package", "publish"}]
    assert clusters_of(second) == wanted
    assert edges_of(first) == edges_of(second)


def test_figures_without_pytorch_do_not_replace_those_with_it(tmp_path, monkeypatch):
    ways = ("partition", "forward", "backward", "waves")
    found = tmp_path / "peers.json"
    found.write_text(json.dumps({"gnmt (96) 5%": {way: {"clusters": 1} for way in ways}}))
    monkeypatch.setattr(partitioner_figures, "OUTPUT", found)
    before = PAGE.read_text()
    with pytest.raises(SystemExit, match="no figures of PyTorch's partitioner: install torch"):
        partitioner_figures.main()
    assert PAGE.read_text() == before


def clusters_of(picture: str) -> list[set[str]]:
    parts = re.findall(r"subgraph [^\n]*\n(.*?)\n  end", picture, re.DOTALL)
    return [set(re.findall(r"\w+", part)) for part in parts]


def edges_of(picture: str) -> set[tuple[str, str]]:
    paths = [re.findall(r"\w+", line) for line in picture.splitlines() if "-->" in line]
    return {edge for path in paths for edge in pairwise(path)}
