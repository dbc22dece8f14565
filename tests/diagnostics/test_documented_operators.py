"""The lists of documented operators name operators that exist."""

from __future__ import annotations

import onnx
import pytest

from ep_nnapi.diagnostics.documented_operators import QNN, XNNPACK


@pytest.mark.parametrize("listed", [XNNPACK, QNN], ids=["XNNPACK", "QNN"])
def test_onnx_has_them(listed: frozenset[str]) -> None:
    known = {schema.name for schema in onnx.defs.get_all_schemas()}
    unknown = {name for name in listed if ":" not in name} - known
    assert not unknown
    assert all(name.startswith("com.microsoft:") for name in listed if ":" in name)
