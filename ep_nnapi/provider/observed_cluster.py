"""Clusters that run on NNAPI and on the CPU provider from the same inputs, for comparisons.

Later nodes get the CPU provider's outputs, so that an error is seen only in the cluster that makes
it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np

from ep_nnapi.lowering.border import Allocate, Stop
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.errors import RuntimeFailure
from ep_nnapi.nnapi.immutable import frozen, replace
from ep_nnapi.options.values import Fallback
from ep_nnapi.provider.compiled_cluster import CompiledCluster
from ep_nnapi.provider.dynamic_cluster import DynamicCluster
from ep_nnapi.provider.fallback import ClusterRun, CpuModel
from ep_nnapi.report.report import ClusterReport


@frozen
class Observation:
    """One run of a cluster on both providers. The arrays are valid during the observer's call only.

    model    path of the cluster's nodes as an ONNX model
    nnapi    the outputs that the device computed; None if it failed
    cpu      the outputs that the CPU provider computed
    failure  the device's failure, if any
    """

    report: ClusterReport
    model: Path
    inputs: Mapping[str, Array]
    nnapi: Mapping[str, Array] | None
    cpu: Mapping[str, Array]
    failure: RuntimeFailure | None


Observer: TypeAlias = Callable[[Observation], None]


@frozen
class ObservedCluster:
    """A compiled cluster; `observe` is called after each of its runs.

    The cluster has its ONNX nodes for the CPU provider, as with `fallback` = cpu.
    """

    cluster: CompiledCluster | DynamicCluster
    observe: Observer

    @property
    def node_ids(self) -> tuple[int, ...]:
        """Ids of the graph's nodes in the cluster."""
        return self.cluster.node_ids

    def bind(self, input_names: Sequence[str], output_names: Sequence[str]) -> ClusterRun:
        """Returns what runs the cluster on both; thread-safe if the observer is.

        The cluster is bound without its fallback, which would hide the failures of its device. The
        outputs are the CPU provider's.
        """
        inputs, outputs, on_cpu = tuple(input_names), tuple(output_names), self.cpu_model()
        on_device = replace(self.cluster, fallback=Fallback.NONE).bind(inputs, outputs)

        def run(arrays: Sequence[Array], allocate: Allocate, stop: Stop) -> None:
            feeds = dict(zip(inputs, arrays, strict=True))
            want = on_cpu.run(feeds, outputs)
            got: dict[int, Array] = {}
            failure = None
            try:
                on_device(arrays, lambda i, s: got.setdefault(i, np.empty(s, want[i].dtype)), stop)
            except RuntimeFailure as error:
                failure = error.of_cluster(error.nodes)  # without traceback, which holds arrays
            computed = None if failure else {n: got[i] for i, n in enumerate(outputs)}
            expected = dict(zip(outputs, want, strict=True))
            about = self.cluster.report, on_cpu.path, feeds
            self.observe(Observation(*about, computed, expected, failure))
            for i, array in enumerate(want):
                np.copyto(allocate(i, array.shape), array)

        return run

    def cpu_model(self) -> CpuModel:
        """Returns the cluster's nodes for the CPU provider; raises ValueError without them."""
        cluster = self.cluster
        model = cluster.cpu_model() if isinstance(cluster, DynamicCluster) else cluster.cpu
        if model is None:
            raise ValueError("an observed cluster needs the option fallback = cpu")
        return model
