"""`ops`: every operator that can be taken."""

from __future__ import annotations

import json
import re

from ep_nnapi.ops import OPS
from tests.cli.command import DONE


def test_ops(cli):
    code, out, _ = cli("ops")
    assert code == DONE
    for op in OPS:
        assert re.search(rf"^({op.domain}:)?{op.op_type} +{op.since}\+", out, re.M), op.op_type
    rows = json.loads(cli("ops", "--json")[1])
    assert {(r["op_type"], r["since"]) for r in rows} == {(o.op_type, o.since) for o in OPS}
    assert all(1 <= r["level"] <= 8 and r["operations"] and r["summary"] for r in rows)


def test_the_level_is_the_lowest_of_the_operations(cli):
    """An operator that needs several of them may need a higher one."""
    head, *rows = cli("ops")[1].splitlines()
    assert "lowest level" in head
    at = head.index("lowest level")
    (row,) = (r for r in rows if r.startswith("DynamicQuantizeLinear "))
    assert row[at:].split()[0] == "1"
