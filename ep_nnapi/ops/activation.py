"""Activations."""

from __future__ import annotations

from ep_nnapi.nnapi.spec import RELU
from ep_nnapi.ops.node import one_to_one

ONE_TO_ONE = (one_to_one("Relu", RELU, since=1),)
