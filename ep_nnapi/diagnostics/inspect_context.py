"""Inspection of compiled clusters, those of EPContext nodes, and what phones take of them."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import ModelProto, NodeProto

from ep_nnapi.epcontext.alternatives import Alternative, LaterAlternative, constants, everything
from ep_nnapi.epcontext.container import ContainerContent, check_programs, unpack
from ep_nnapi.epcontext.layout import (
    CONTEXT_DOMAIN,
    CONTEXT_OP,
    EP_SOURCE,
    AlternativeKind,
    aligned,
)
from ep_nnapi.epcontext.onnx_program import external_places
from ep_nnapi.graph.onnx_io import all_nodes, mentions, read_model
from ep_nnapi.litert.flat_graph import outside_buffers
from ep_nnapi.litert.package import is_installed
from ep_nnapi.lowering.border import Crossing
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.errors import ModelError, module_logger
from ep_nnapi.nnapi.model import Data, Operation
from ep_nnapi.options.target import MAX_FEATURE_LEVEL
from ep_nnapi.provider.compiler import Compiler
from ep_nnapi.provider.device_health import Declined
from ep_nnapi.provider.devices import choose_device, default_device, runtime_of
from ep_nnapi.provider.virtual_devices import VirtualDevice, level_devices, profiled_devices

logger = module_logger(__name__)


@dataclass(frozen=True, slots=True)
class AlternativeContent:
    """One alternative of a cluster.

    feature_level  the NNAPI feature level that it needs; 0 if it needs none
    operations     number of its NNAPI operations
    parts          of a partition: programs and groups of ONNX nodes; else 0
    bytes          what a file without it would have less: its constants that no other one has, and
                   its own; tables are not counted
    runs_on        the systems that have what it needs
    """

    name: str
    kind: str
    feature_level: int
    operations: int
    parts: int
    bytes: int
    runs_on: str

    @property
    def row(self) -> tuple[str, ...]:
        """The fields as strings for a table."""
        kind = f"{self.kind} of {self.parts}" if self.parts else self.kind
        return (self.name, kind, str(self.operations or "-"), str(self.bytes), self.runs_on)


@dataclass(frozen=True, slots=True)
class Content:
    """One compiled cluster.

    feature_level    the lowest NNAPI feature level that can run it; 0 if it runs without NNAPI too
    operations       number of NNAPI operations
    nodes            names of the ONNX nodes that it computes, those that left no operation too
    inputs, outputs  as "name TYPE [shape]"
    weights          size in bytes
    file             file next to the model that holds the weights; None: the model itself
    of_two_types     number of constants that stand as int8 and as uint8, and the bytes of one of
                     the two
    """

    name: str
    feature_level: int
    operations: int
    nodes: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    weights: int
    file: str | None
    alternatives: tuple[AlternativeContent, ...] = ()
    of_two_types: tuple[int, int] = (0, 0)

    @property
    def row(self) -> tuple[str, ...]:
        """The fields as strings for a table."""
        weights = f"{self.weights} bytes in {self.file or 'the model'}"
        inputs, outputs, nodes = map("; ".join, (self.inputs, self.outputs, self.nodes))
        sizes = (str(self.feature_level), str(self.operations))
        return (self.name, *sizes, inputs, outputs, weights, nodes)


def contents(model: str | os.PathLike[str] | bytes) -> tuple[Content, ...]:
    """Returns the compiled clusters of a model in graph order; empty for other models.

    Raises ModelError if a context is corrupt.
    """
    return tuple(_content(*found) for found in unpacked(model))


def unpacked(
    model: str | os.PathLike[str] | bytes,
) -> Iterator[tuple[NodeProto, ContainerContent, tuple[Alternative, ...]]]:
    """Yields node, container and checked alternatives of each compiled cluster, each read once.

    Raises as `contents`.
    """
    folder = None if isinstance(model, bytes) else Path(model).parent
    for node, data in _own_nodes(_proto(model)):
        content = unpack(data, folder, MAX_FEATURE_LEVEL)
        alternatives = content.alternatives
        check_programs(alternatives)
        yield node, content, alternatives


def containers(proto: ModelProto) -> Iterator[tuple[str, bytes]]:
    """Yields name and container of each EPContext node of this provider, in graph order."""
    return ((node.name, data) for node, data in _own_nodes(proto))


def _own_nodes(proto: ModelProto) -> Iterator[tuple[NodeProto, bytes]]:
    for node in all_nodes(proto.graph):
        known = {a.name: a.s for a in node.attribute}
        own = (CONTEXT_DOMAIN, CONTEXT_OP, EP_SOURCE.encode())
        if (node.domain, node.op_type, known.get("source")) == own:
            yield node, known.get("ep_cache_context", b"")


def _proto(model: str | os.PathLike[str] | bytes) -> ModelProto:
    """Returns the parsed model, or an empty one if a fast text search finds no EPContext node."""
    there = isinstance(model, bytes) or Path(model).is_file()
    if not there or not mentions(model, CONTEXT_OP.encode()):
        return ModelProto()
    # none: an .ort file, or malformed; loading it reports errors
    return read_model(model, weights=False) or ModelProto()


def _content(
    node: NodeProto, context: ContainerContent, alternatives: Sequence[Alternative]
) -> Content:
    first = context.first
    border, operations = first.border, _operations(first)
    return Content(
        node.name,
        context.feature_level,
        len(operations),
        _nodes(node, operations),
        _described(border.inputs),
        _described(border.outputs),
        context.weights.size,
        context.file,
        tuple(_alternatives(context, alternatives)),
        _of_two_types(alternatives) if context.later else (0, 0),
    )


def _nodes(node: NodeProto, operations: Sequence[Operation]) -> tuple[str, ...]:
    """The ONNX nodes that it computes; in files of earlier versions those of its operations."""
    notes = next((a.s for a in node.attribute if a.name == "notes"), b"")
    with suppress(ValueError):
        names = json.loads(notes)
        if isinstance(names, list):
            return tuple(map(str, names))
    return tuple(dict.fromkeys(name for op in operations for name in op.origin))


def _of_two_types(alternatives: Sequence[Alternative]) -> tuple[int, int]:
    """Number and bytes of the 8-bit constants of which one program has the unsigned form."""
    signed, unsigned = set[bytes](), dict[bytes, int]()
    for each in everything(alternatives):
        for operand in each.model.operands if each.model else ():
            if isinstance(operand.value, Data) and operand.type.tensor:
                data = operand.value.bytes
                if operand.type is OperandCode.TENSOR_QUANT8_ASYMM:
                    unsigned[sha256((data ^ 0x80).data).digest()] = data.size
                elif operand.type.numpy == np.int8:
                    signed.add(sha256(data.data).digest())
    both = [size for digest, size in unsigned.items() if digest in signed]
    return len(both), sum(both)


def _operations(alternative: Alternative) -> list[Operation]:
    return [op for each in everything([alternative]) if each.model for op in each.model.operations]


_ANDROID = ("8.1", "9", "10", "11", "12")
"""Android versions of NNAPI's feature levels from 1 on; later levels came to them by updates."""


def _alternatives(
    context: ContainerContent, given: Sequence[Alternative]
) -> Iterator[AlternativeContent]:
    """Yields the alternatives of a cluster, if it has more than one program."""
    if len(given) == 1 and given[0].model is not None:
        return
    try:
        held = [_places(each, context.weights) for each in given]
    except _MALFORMED:
        raise ModelError("an alternative is corrupt; prepare the model again") from None
    for n, each in enumerate(given):
        others = set[tuple[int, int]]().union(*(h for i, h in enumerate(held) if i != n))
        own = sum(size for _, size in held[n] - others) + _packed_bytes(context.given[n])
        yield AlternativeContent(
            each.name,
            each.kind.name,
            each.needed,
            len(_operations(each)),
            len(each.parts),
            own,
            _runs_on(each),
        )


_MALFORMED = (DecodeError, KeyError, IndexError, TypeError, ValueError, struct.error)


def _runs_on(alternative: Alternative) -> str:
    level = alternative.needed
    if level:
        least = f"Android {_ANDROID[level - 1]}" if level <= len(_ANDROID) else "updates of NNAPI"
        return f"NNAPI of feature level {level}: {least} and later"
    return "libLiteRt.so" if alternative.kind is AlternativeKind.LITERT else "any ONNX Runtime"


def _places(alternative: Alternative, weights: Array) -> set[tuple[int, int]]:
    """Offsets and sizes of what an alternative has in the weights."""
    found = set[tuple[int, int]]()
    for each in everything([alternative]):
        for constant in constants(each):
            found.add((constant.ctypes.data - weights.ctypes.data, constant.size))
        if each.kind is AlternativeKind.ONNX:
            found.update(external_places(each))
        elif each.data is not None and is_installed():  # buffers behind LiteRT's flatbuffer
            start = aligned(len(each.data))
            found.update((at - start, size) for at, size in outside_buffers(each.data))
    return found


def _packed_bytes(given: Alternative | LaterAlternative) -> int:
    """The bytes of an alternative that is packed, or of the models of one that is not NNAPI's."""
    if isinstance(given, LaterAlternative):
        return given.size
    return sum(len(each.data or b"") for each in everything([given]))


def _described(crossings: Sequence[Crossing]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(f"{c.name} {c.dtype.name} {list(c.shape)}" for c in crossings))


WITHOUT_NNAPI = "without NNAPI"


@dataclass(frozen=True, slots=True)
class Phone:
    """What one phone takes of the compiled clusters of a model.

    name           of the virtual device, or `without NNAPI`
    feature_level  0 without NNAPI
    declined       of each cluster, by the names of its alternatives: why; empty if it takes it
    """

    name: str
    feature_level: int
    declined: tuple[Mapping[str, str], ...]

    def takes(self, alternative: str, cluster: int) -> bool:
        """Returns True if it takes an alternative of a cluster, by its position in the model."""
        return self.declined[cluster].get(alternative) == ""

    def answer(self, alternative: str) -> str:
        """Returns `yes`, or the reason of the first cluster that it does not take; "-": unknown."""
        found = [each[alternative] for each in self.declined if alternative in each]
        reasons = [why for why in found if why]
        if not reasons:
            return "yes" if found else "-"
        of = f"{len(reasons)} of {len(found)} not: " if len(found) > 1 else ""
        return of + reasons[0]


def phones(model: str | os.PathLike[str] | bytes) -> tuple[Phone, ...]:
    """Returns the virtual devices, then a phone without NNAPI; empty without compiled clusters.

    A device profile that cannot be read is left out, which is logged. Raises as `contents`.
    """
    clusters = [alternatives for _, _, alternatives in unpacked(model)]
    if not clusters:
        return ()
    return (
        *(_phone(device, clusters) for device in (*level_devices(), *_profiled())),
        Phone(WITHOUT_NNAPI, 0, tuple({a.name: _why(a, 0, None) for a in c} for c in clusters)),
    )


def table_of(found: Sequence[Phone]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Returns the columns and the rows of a table of phones x alternatives."""
    names = dict.fromkeys(name for phone in found for each in phone.declined for name in each)
    rows = [(p.name, str(p.feature_level or "-"), *map(p.answer, names)) for p in found]
    return ("phone", "level", *names), rows


def takers(found: Sequence[Phone], alternative: str, cluster: int) -> str:
    """Returns the names of phones that take an alternative, such as `levels 4 to 8, npu`; `all`."""
    by_level = {device.name for device in level_devices()}
    taking = [phone for phone in found if phone.takes(alternative, cluster)]
    if len(taking) == len(found):
        return "all"
    levels = [phone.feature_level for phone in taking if phone.name in by_level]
    names = [phone.name for phone in taking if phone.name not in by_level]
    if levels:
        lowest, highest = min(levels), max(levels)
        names.insert(0, f"levels {lowest} to {highest}" if highest > lowest else f"level {lowest}")
    return ", ".join(names) or "-"


def _profiled() -> Iterator[VirtualDevice]:
    for device in profiled_devices():
        if isinstance(device, VirtualDevice):
            yield device
        else:
            logger.warning("no phone: %s", device)


def _phone(device: VirtualDevice, clusters: Sequence[Sequence[Alternative]]) -> Phone:
    compiler = None
    if device.option[0] == "device_profile":  # those by level take all operations of theirs
        options = device.session_options()
        runtime = runtime_of(options)
        name = default_device(runtime, options.flags)
        chosen = choose_device(runtime, name, options.flags)
        compiler = Compiler(options.lowering_target(chosen.feature_level), runtime, chosen)
    level = device.feature_level
    declined = ({a.name: _why(a, level, compiler) for a in each} for each in clusters)
    return Phone(device.name, level, tuple(declined))


def _why(alternative: Alternative, level: int, compiler: Compiler | None) -> str:
    """Returns why the device declines an alternative; empty if it takes it."""
    if alternative.kind is AlternativeKind.LITERT:
        return "if libLiteRt.so is there"
    if alternative.needed > level:
        return f"needs level {alternative.needed}"
    for each in everything([alternative]):
        if each.model is not None and compiler is not None:
            try:
                compiler.check_supported(each.lowered)
            except Declined as declined:
                return declined.detail.removeprefix(f"{compiler.device.name} ")
    return ""
