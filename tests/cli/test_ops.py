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
