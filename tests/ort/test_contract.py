"""The package's provider, clusters and runners have what the plugin asks of them."""

import inspect

import pytest

from ep_nnapi.ort import compute
from ep_nnapi.provider import compiled_cluster
from ep_nnapi.provider.choice import Bound, ChosenCluster
from ep_nnapi.provider.compiled_cluster import CompiledCluster
from ep_nnapi.provider.dynamic_cluster import DynamicCluster, DynamicRunner
from ep_nnapi.provider.load_epcontext import UnusableCluster
from ep_nnapi.provider.provider import open_provider
from tests.ort.fake import Cluster, Runner

IMPLEMENTATIONS = [
    (compute.Cluster, CompiledCluster),
    (compute.Cluster, DynamicCluster),
    (compute.Cluster, UnusableCluster),
    (compute.Cluster, Cluster),
    (compute.Cluster, ChosenCluster),
    (compute.Runnable, Runner),
    (compute.DirectRunner, compiled_cluster.Runner),
    (compute.DirectRunner, DynamicRunner),
    (compute.DirectRunner, Bound),
]


def members(protocol: type) -> dict[str, object]:
    own = {n: m for n, m in vars(protocol).items() if callable(m) or isinstance(m, property)}
    return {n: m for n, m in own.items() if not n.startswith("_") or n == "__call__"}


def parameters(function: object) -> list[str]:
    return list(inspect.signature(function).parameters)


@pytest.mark.parametrize(("protocol", "implementation"), IMPLEMENTATIONS)
def test_members_and_their_parameters(protocol: type, implementation: type) -> None:
    wanted = members(protocol)
    assert wanted
    for name, member in wanted.items():
        found = inspect.getattr_static(implementation, name)
        if not isinstance(member, property):
            assert parameters(found) == parameters(member), name


def test_a_provider_begins_without_an_error() -> None:
    assert open_provider({}).error is None
