"""What the device host-cpu makes of NNAPI models."""

from collections import Counter

import numpy as np

from ep_nnapi.nnapi.host.reference import ReferenceDevice
from ep_nnapi.nnapi.model import Model
from ep_nnapi.ort_devices.device import CpuDevice
from ep_nnapi.ort_devices.operation import Kernels
from ep_nnapi.ort_devices.to_onnx import convert
from tests.ort_devices.networks import computed

FUSED = Kernels(fused=True)


def operators(model: Model, kernels: Kernels = FUSED) -> Counter[str]:
    return Counter(node.op_type for node in convert(model, kernels).proto.graph.node)


def differences(model: Model) -> list[float]:
    """Greatest differences of the outputs from the reference's."""
    found = (computed(model, d) for d in (CpuDevice(threads=1), ReferenceDevice()))
    return [float(np.abs(a - b.astype(float)).max()) for a, b in zip(*found, strict=True)]
