"""The devices of a runtime, and what each of them takes of a model."""

from __future__ import annotations

from dataclasses import dataclass

from ep_nnapi.diagnostics.check import check
from ep_nnapi.diagnostics.model_sources import ModelSource
from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.nnapi.runtime import Device
from ep_nnapi.options.table import OptionKeywords, changed, parse
from ep_nnapi.provider.devices import devices
from ep_nnapi.report.report import Report, operator_counts


@dataclass(frozen=True, slots=True)
class DeviceSupport:
    """One device, and the report of `check` for it."""

    device: Device
    report: Report

    @property
    def taken(self) -> str:
        """The operators that run on the device: `2 Conv, 1 Gemm`."""
        return operator_counts(t for c in self.report.clusters for t in c.op_types)

    @property
    def declined(self) -> str:
        """The operators that NNAPI has and the device declines."""
        refused = self.report.rejections
        return operator_counts(r.op_type for r in refused if r.reason is Reason.DRIVER)

    def to_json(self) -> dict[str, object]:
        """Returns what `ep-nnapi devices MODEL` prints of the model, as JSON-serializable data."""
        return {
            "nodes": self.report.nodes,
            "nodes_taken": self.report.taken,
            "clusters": len(self.report.clusters),
            "taken": self.taken,
            "declined": self.declined,
        }


def device_support(model: ModelSource, options: OptionKeywords) -> list[DeviceSupport]:
    """Returns for each device of the runtime what it takes of `model`; raises as `check`."""
    return [
        DeviceSupport(device, check(model, **changed(options, device=device.name)))
        for device in devices(parse(options).runtime)
    ]
