"""Loading of EPContext nodes: clusters that were compiled ahead of time."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import field
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING

from ep_nnapi.epcontext.layout import FORMAT_VERSION
from ep_nnapi.graph.dag import inputs_of, outputs_of
from ep_nnapi.graph.graph import Graph, GraphNode
from ep_nnapi.graph.value import Value
from ep_nnapi.lowering.border import Crossing
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.errors import ModelError
from ep_nnapi.nnapi.immutable import frozen, replace
from ep_nnapi.nnapi.model import Model
from ep_nnapi.nnapi.runtime import Device
from ep_nnapi.options.table import Options
from ep_nnapi.options.values import Preferred
from ep_nnapi.provider.cluster_record import ClusterRecord
from ep_nnapi.provider.compiled_cluster import CompiledCluster, Runner
from ep_nnapi.provider.compiler import Compiler
from ep_nnapi.provider.device_health import Declined
from ep_nnapi.provider.devices import placement
from ep_nnapi.provider.outline import report_of
from ep_nnapi.report.report import ClusterReport

if TYPE_CHECKING:
    from ep_nnapi.epcontext.container import ContainerContent
    from ep_nnapi.provider.choice import ChosenCluster


@frozen
class UnusableCluster:
    """An EPContext node that cannot be used; it is claimed so that Compile can report the error.

    If it were not claimed, the session would fail with an unknown operator instead.
    """

    node_ids: tuple[int, ...]
    report: ClusterReport
    error: ModelError
    models: tuple[Model, ...] = ()
    record: ClusterRecord = field(default_factory=ClusterRecord, compare=False)

    def bind(self, input_names: Sequence[str], output_names: Sequence[str]) -> Runner:
        """Raises the ModelError."""
        raise self.error


def load(
    node: GraphNode,
    graph: Graph,
    compiler: Compiler,
    options: Options,
    weights: Callable[[str], Array] | None = None,
) -> CompiledCluster | ChosenCluster | UnusableCluster:
    """Returns the cluster of an EPContext node of `graph`, compiled for the compiler's device.

    weights  returns what the application has under the name of external weights, in place of a file

    Returns an UnusableCluster if the container is invalid or the device declines it.
    """
    report = _report(node, compiler.device.name)
    try:
        content = _content(node, graph.path, compiler.target.feature_level, weights)
        if content.later or content.first.model is None:
            from ep_nnapi.provider.choice import choose  # most sessions have none

            return choose(node.id, report, content, compiler, options)
        lowered = compiler.prepare(content.lowered)
        compiler.check_supported(lowered)
        placed = compiler.compile(lowered)
    except ModelError as error:
        named = ModelError(f"{node.name}: {error}")
        return UnusableCluster((node.id,), report, named)
    except Declined as declined:
        refused = ModelError(f"{node.name} cannot run here: {declined.detail}")
        return UnusableCluster((node.id,), report, refused)
    return CompiledCluster.of((node.id,), report, placed, options.fallback)


def _report(node: GraphNode, device: str) -> ClusterReport:
    return report_of([node], inputs_of(node), outputs_of(node), device)


def without_runtime(node: GraphNode, why: str) -> UnusableCluster:
    """Returns a cluster of a node with which the creation of a session ends: there is no runtime.

    Otherwise the session would run on the CPU without a word.
    """
    return UnusableCluster((node.id,), _report(node, str(Preferred.NNAPI)), ModelError(why))


def _content(
    node: GraphNode, path: str, feature_level: int, weights: Callable[[str], Array] | None
) -> ContainerContent:
    """Returns the content of the node's container.

    Raises ModelError if it is corrupt, too new, or needs a higher feature level.
    """
    from ep_nnapi.epcontext.container import unpack
    from ep_nnapi.epcontext.contexts import verify_checksum  # most sessions read no context

    data = node.attributes.get("ep_cache_context")
    if not isinstance(data, str):
        raise ModelError("it has no ep_cache_context; prepare the model again")
    folder = Path(path).parent if path else None
    source = weights or folder
    content = unpack(data.encode("utf-8", "surrogateescape"), source, feature_level)
    if path and content.model_has_checksum:
        verify_checksum(Path(path))
    border = content.first.border
    entering, leaving = border.inputs, border.outputs
    if not _declared(entering, inputs_of(node)) or not (
        _declared(leaving, outputs_of(node)) and len(leaving) == len(outputs_of(node))
    ):
        raise ModelError("its tensors are not those of its context; prepare the model again")
    return content


def _declared(crossings: Sequence[Crossing], values: Sequence[Value]) -> bool:
    """Returns True if the graph declares each tensor with its element type and sizes.

    It may leave sizes open. ONNX Runtime allocates tensors as the graph declares them.
    """
    by_name = {value.name: value for value in values}
    for crossing in crossings:
        value, shape = by_name.get(crossing.name), crossing.shape
        if value is None or value.dtype is not crossing.dtype:
            return False
        pairs = zip(value.dims or (), shape, strict=False)
        open_or_equal = all(d == size or not isinstance(d, int) for d, size in pairs)
        if value.dims is not None and not (len(value.dims) == len(shape) and open_or_equal):
            return False
    return True


class Compatibility(IntEnum):
    """Answers of a provider about a compiled model. Source: OrtCompiledModelCompatibility."""

    NOT_APPLICABLE = 0
    OPTIMAL = 1
    PREFER_RECOMPILATION = 2
    UNSUPPORTED = 3


@frozen
class CompiledFor:
    """Conditions under which a model was compiled.

    level         feature level that it was lowered for
    needed        lowest feature level that has all of its operations; at most `level`; 0 if it
                  runs without NNAPI too
    alternatives  names of those that all clusters have, such as nnapi:1; none for one program
    """

    format: int
    level: int
    needed: int
    device: str
    alternatives: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The string in the metadata, which `parse` reads."""
        text = f"ep-nnapi format={self.format} level={self.level} needed={self.needed}"
        names = f" alternatives={','.join(self.alternatives)}" if self.alternatives else ""
        return f"{text}{names} device={self.device}"

    def on(self, device: Device) -> Compatibility:
        """Returns the compatibility with a device.

        UNSUPPORTED           its level is too low, or its format is another than this package's
        PREFER_RECOMPILATION  it runs; another level or device may get a better model; of
                              alternatives, the device can run none of NNAPI's
        """
        if self.needed > device.feature_level or self.format != FORMAT_VERSION:
            return Compatibility.UNSUPPORTED
        if self.alternatives:
            pairs = (name.partition(":") for name in self.alternatives)
            levels = [int(level) for kind, _, level in pairs if kind == "nnapi"]
            runs = min(levels, default=device.feature_level + 1) <= device.feature_level
            return Compatibility.OPTIMAL if runs else Compatibility.PREFER_RECOMPILATION
        same = (self.level, self.device) == (device.feature_level, device.name)
        return Compatibility.OPTIMAL if same else Compatibility.PREFER_RECOMPILATION


_PATTERN = re.compile(
    r"ep-nnapi format=(\d+) level=(\d+) needed=(\d+)(?: alternatives=(\S+))? device=(.+)"
)


def parse(info: str) -> CompiledFor | None:
    """Returns the conditions that `info` describes; None if it is of another form.

    >>> parse("ep-nnapi format=3 level=4 needed=3 device=nnapi-reference").needed
    3
    """
    match = _PATTERN.fullmatch(info)
    if match is None:
        return None
    written, level, needed = (int(number) for number in match.groups()[:3])
    names = tuple(match.group(4).split(",")) if match.group(4) else ()
    return CompiledFor(written, level, needed, match.group(5), names)


def validate(info: str, options: Options | None = None) -> Compatibility:
    """Returns the compatibility with the device of a session that has these options.

    NOT_APPLICABLE for a foreign string. Without options it is the default device.
    """
    compiled = parse(info)
    if compiled is None:
        return Compatibility.NOT_APPLICABLE
    _, device, target = placement(options or Options())
    return compiled.on(replace(device, feature_level=target.feature_level))
