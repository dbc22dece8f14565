"""Candidates are those of a machine with two cores."""

import pytest

from ep_nnapi.tuning import candidates


@pytest.fixture(autouse=True)
def _two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates.os, "cpu_count", lambda: 2)
