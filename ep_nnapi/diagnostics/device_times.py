"""Times that devices measured themselves, by cluster."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from ep_nnapi.nnapi.runtime import Duration
from ep_nnapi.provider.provider import Provider


@dataclass(frozen=True, slots=True)
class DeviceTime:
    """Median durations of a cluster's runs in milliseconds, None where they are not measured.

    cluster      its number in the report
    on_hardware  on the device's hardware
    in_driver    in the driver, with the transport within the device
    """

    cluster: int
    device: str
    on_hardware: float | None
    in_driver: float | None


def device_times(provider: Provider) -> tuple[DeviceTime, ...]:
    """Returns the times of the clusters whose device measured them."""
    found = (
        _time(number, cluster.report.device, cluster.durations)
        for number, cluster in enumerate(provider.clusters)
    )
    return tuple(t for t in found if (t.on_hardware, t.in_driver) != (None, None))


def _time(cluster: int, device: str, durations: Iterable[Duration]) -> DeviceTime:
    runs = tuple(durations)
    hardware = [d.on_hardware for d in runs if d.on_hardware is not None]
    driver = [d.in_driver for d in runs if d.in_driver is not None]
    return DeviceTime(cluster, device, _milliseconds(hardware), _milliseconds(driver))


def _milliseconds(nanoseconds: list[int]) -> float | None:
    return median(nanoseconds) / 1e6 if nanoseconds else None
