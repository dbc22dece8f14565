"""Probes: models whose work is what the cost model counts, of one family each."""

from __future__ import annotations

import onnx
import pytest

from ep_nnapi.costs.cost_model import CostClass, cost_class
from ep_nnapi.diagnostics.probe_models import Probe, chain, family_probes
from ep_nnapi.sessions.cpu import session_of

FAMILIES = dict(family_probes())


def test_every_family_has_a_probe() -> None:
    assert FAMILIES.keys() == set(CostClass)


@pytest.mark.parametrize(("family", "probe"), FAMILIES.items(), ids=[str(f) for f in FAMILIES])
def test_a_probe_is_a_valid_model_of_its_family_that_runs(family: CostClass, probe: Probe) -> None:
    onnx.checker.check_model(onnx.load_from_string(probe.model))
    assert {cost_class(n) for n in probe.grouped_nodes} == {family}
    (found,) = session_of(probe.model).run(None, dict(probe.feeds))
    (given,) = probe.feeds.values()
    assert probe.border == given.nbytes + found.nbytes


@pytest.mark.parametrize("length", [1, 9])
def test_a_chain_adds_x_as_often_as_it_is_long(length: int) -> None:
    probe = chain(length, 8)
    (found,) = session_of(probe.model).run(None, dict(probe.feeds))
    (x,) = probe.feeds.values()
    assert len(probe.grouped_nodes) == length
    assert found == pytest.approx((length + 1) * x, rel=1e-6)  # up to nine roundings of float32
    assert probe.bytes == length * 3 * 8 * 4  # each reads two tensors of eight floats, writes one


def test_the_work_of_a_convolution_is_counted_by_hand() -> None:
    probe = FAMILIES[CostClass.CONVOLUTION]
    assert probe.macs == 56 * 56 * 32 * 32 * 3 * 3
