"""Element-wise arithmetic with broadcasting."""

from __future__ import annotations

from ep_nnapi.nnapi.spec import ADD
from ep_nnapi.ops.node import one_to_one

ONE_TO_ONE = (one_to_one("Add", ADD, since=7),)
