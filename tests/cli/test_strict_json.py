"""JSON that every reader takes: null and a reason in place of infinity and NaN."""

from __future__ import annotations

import json
import math

import pytest

from ep_nnapi.cli.strict_json import strict


@pytest.mark.parametrize(
    ("number", "reason"),
    [(math.inf, "infinite"), (-math.inf, "infinite"), (math.nan, "not a number")],
)
def test_json_has_null_with_a_reason_for_what_is_no_number(number: float, reason: str):
    data = strict({"rows": [{"absolute": number, "largest": 1.0}], "name": "x"})
    assert data == {
        "rows": [{"absolute": None, "largest": 1.0, "absolute_reason": reason}],
        "name": "x",
    }
    assert json.loads(json.dumps(data, allow_nan=False)) == data


def test_json_of_numbers_is_as_it_is():
    data = {"a": [1, 2.5, True, None, "x"], "b": {"c": 0.0}}
    assert strict(data) == data
