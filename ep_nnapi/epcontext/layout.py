"""Records of a container, format version 5: every field with its type, offset and meaning.

All numbers are little-endian, and every field is aligned to its own size. docs/context.md and
native/format.h are generated from these records: `python -m tests.epcontext.test_layout`.
"""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Any

import numpy as np

from ep_nnapi.graph.graph import GraphNode

FORMAT_VERSION = 5
"""Version of the containers that are written."""

CONTEXT_OP, CONTEXT_DOMAIN = "EPContext", "com.microsoft"
CONTEXT_EP = "NnapiContextExecutionProvider"
"""Name of the plugin in C that runs prepared models; `native/plugin.h` has it too."""

EP_SOURCE = "NnapiPluginExecutionProvider"
"""Value of the attribute `source` in EPContext nodes of this provider."""


def aligned(size: int) -> int:
    """The next multiple of `ALIGNMENT` bytes: where weights follow a flatbuffer of that size."""
    return size + -size % ALIGNMENT


def is_own(node: GraphNode) -> bool:
    """Returns True if the node is an EPContext node that this provider compiled."""
    kind = (node.domain, node.op_type) == (CONTEXT_DOMAIN, CONTEXT_OP)
    return kind and node.attributes.get("source") == EP_SOURCE


MAGIC = b"EP-NNAPI"
ALIGNMENT = 64
"""Alignment of the weights and of each constant in bytes: a cache line, enough for SIMD loads."""

TERMINATOR = b"."
"""Last byte of a container: trailing zeros of a string attribute are lost when it is read."""

MODEL_HAS_CHECKSUM = 1
"""Flag of the header: the model's file has a checksum of itself (`ep_nnapi.epcontext.contexts`)."""

MAX_DEPTH = 64
"""Limit for the nesting of referenced models."""

DICTIONARY = 1 << 15
"""The most bytes that deflate refers back to: a packed alternative, to tables before it."""

MOST_INFLATED = 256
"""A packed alternative has at most so many times the bytes that it is packed in."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a record.

    type   u8, i32, u32, i64, u64, f64; with [n] an array; range: two u32, `first` and `count`
    """

    name: str
    type: str
    meaning: str

    @property
    def numpy(self) -> Any:  # noqa: ANN401 (what numpy takes as a field's type)
        """The field's type for numpy."""
        scalar, _, count = self.type.rstrip("]").partition("[")
        if scalar == "range":
            return np.dtype([("first", "<u4"), ("count", "<u4")])
        found = np.dtype(f"<{scalar[0]}{int(scalar[1:]) // 8}")
        return np.dtype((found, int(count))) if count else found


@dataclass(frozen=True)
class Record:
    """A record of fixed size."""

    name: str
    meaning: str
    fields: tuple[Field, ...]

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The record as a numpy type; its fields lie one after the other."""
        return np.dtype([(f.name, f.numpy) for f in self.fields])


OPERAND = Record(
    "operand",
    "An operand of a model.",
    (
        Field("type", "i32", "the NDK's OperandCode"),
        Field("value", "u32", "source of the value, a value kind"),
        Field("scale", "f64", "scale, for NNAPI rounded to float; 0 if there is none"),
        Field("zero_point", "i32", "zero point; 0 if there is none"),
        Field("channel_dimension", "u32", "dimension of the scales per channel; 0 without them"),
        Field("dimensions", "range", "sizes, in `numbers`; 0 for an unknown one"),
        Field("channel_scales", "range", "scales per channel, in `scales`; none for other types"),
        Field("offset", "u64", "constant: first byte in the weights; model: its index in `models`"),
        Field("size", "u64", "constant: number of bytes; else 0"),
    ),
)
OPERATION = Record(
    "operation",
    "An operation of a model.",
    (
        Field("type", "i32", "the NDK's OperationCode"),
        Field("inputs", "range", "operands of the model, by index in it, in `numbers`"),
        Field("outputs", "range", "operands of the model, by index in it, in `numbers`"),
        Field("origin", "range", "names of the ONNX nodes it was lowered from, in `names`"),
    ),
)
MODEL = Record(
    "model",
    "An NNAPI model. The first of an alternative computes it; others are values of operands.",
    (
        Field("operands", "range", "its operands, in `operands`"),
        Field("operations", "range", "its operations, in `operations`"),
        Field("inputs", "range", "its inputs, by index among its operands, in `numbers`"),
        Field("outputs", "range", "its outputs, by index among its operands, in `numbers`"),
        Field("relaxed", "u32", "1 if float32 may be computed as float16, else 0"),
    ),
)
CROSSING = Record(
    "crossing",
    "An ONNX tensor at the cluster's border, and the operand that it becomes or comes from.",
    (
        Field("name", "range", "the tensor's name: bytes of `text`"),
        Field("element_type", "i32", "ONNX's TensorProto.DataType of the tensor"),
        Field("operand", "u32", "position among the model's inputs or outputs"),
        Field("shape", "range", "the tensor's sizes, in `sizes`"),
        Field("permutation", "range", "axis i of the operand is this axis; none: same layout"),
    ),
)
ALTERNATIVE = Record(
    "alternative",
    "A way to compute the cluster, or a part of an alternative that is a partition.",
    (
        Field("kind", "u32", "what it is, an alternative kind"),
        Field("feature_level", "u32", "NNAPI, packed: the level that it needs, 1 to 8; else 0"),
        Field("name", "range", "its name, such as nnapi:4: bytes of `text`"),
        Field("models", "range", "NNAPI: its model and those that it refers to, in `models`"),
        Field("inputs", "range", "the tensors that enter it, in `crossings`"),
        Field("outputs", "range", "the tensors that leave it, in `crossings`"),
        Field("parts", "range", "partition: its parts in the order of their runs, in this table"),
        Field("composites", "range", "NNAPI: its composites, JSON in `text`; may be empty"),
        Field("offset", "u64", "LiteRT, ONNX, packed: its first byte in `packed`"),
        Field("size", "u64", "LiteRT, ONNX, packed: its bytes; else 0"),
    ),
)
TEXT_RANGE = Record("name", "A name.", (Field("text", "range", "its bytes in `text`, UTF-8"),))


@dataclass(frozen=True, slots=True)
class Table:
    """One table of a container; `element` is a record or the type of a number."""

    name: str
    element: Record | str
    meaning: str

    @property
    def dtype(self) -> np.dtype[Any]:
        """The numpy type of an element."""
        element = self.element
        return element.dtype if isinstance(element, Record) else Field("", element, "").numpy


TABLES = (
    Table("alternatives", ALTERNATIVE, "those of the cluster, the preferred first, then parts"),
    Table("models", MODEL, "the models of all alternatives"),
    Table("operands", OPERAND, "the operands of all models"),
    Table("operations", OPERATION, "the operations of all models"),
    Table("crossings", CROSSING, "the ONNX tensors that enter or leave alternatives"),
    Table("numbers", "u32", "dimensions, indexes and permutations"),
    Table("sizes", "i64", "sizes of ONNX tensors"),
    Table("scales", "f64", "scales per channel"),
    Table("names", TEXT_RANGE, "names of ONNX nodes"),
    Table("text", "u8", "the bytes of all names and composites"),
    Table("packed", "u8", "flatbuffers, ONNX models, and the alternatives after the first"),
)
HEADER = Record(
    "header",
    "The first record of a container.",
    (
        Field("magic", "u8[8]", f"`{MAGIC.decode()}`"),
        Field("version", "u32", f"format version, {FORMAT_VERSION}"),
        Field("reserved", "u32", "0"),
        Field(
            "sha256", "u8[32]", "SHA-256 of all bytes of the program after this field; if packed: 0"
        ),
        Field("program_size", "u64", "bytes of header and tables, a multiple of 64"),
        Field("weights_sha256", "u8[32]", "SHA-256 of the weights; if packed: 0"),
        Field("weights_offset", "u64", "first byte of the weights in their file; 0 if embedded"),
        Field("weights_size", "u64", "bytes of the weights"),
        Field("weights_file_size", "u64", "bytes of the whole file of weights; 0 if embedded"),
        Field("weights_file", "range", "name of that file: bytes of `text`; empty if embedded"),
        Field("choices", "u32", "so many alternatives, the first, compute the cluster; at least 1"),
        Field("flags", "u32", "1: the model's file has a checksum of itself; else 0"),
        *(
            Field(t.name, "range", f"the table `{t.name}`: its offset, and its count")
            for t in TABLES
        ),
    ),
)
RECORDS = (HEADER, ALTERNATIVE, MODEL, OPERAND, OPERATION, CROSSING, TEXT_RANGE)
CHECKED_FROM = sum(f.numpy.itemsize for f in HEADER.fields[:4])
"""Offset of the bytes that the header's field `sha256` covers."""

COMPUTED, CONSTANT, OMITTED, REFERENCED_MODEL = range(4)


class AlternativeKind(IntEnum):
    """What an alternative is."""

    NNAPI = 0
    LITERT = 1
    ONNX = 2
    PARTITION = 3


ALTERNATIVE_KINDS = {
    AlternativeKind.NNAPI: "an NNAPI model",
    AlternativeKind.LITERT: "a LiteRT flatbuffer (.tflite): its buffers count weights as behind it",
    AlternativeKind.ONNX: "an ONNX model, whose external data are the weights",
    AlternativeKind.PARTITION: "others, run one after the other",
}
VALUE_KINDS = {
    "COMPUTED": (COMPUTED, "none: a model's input, or written by an operation"),
    "CONSTANT": (CONSTANT, "a constant in the weights"),
    "OMITTED": (OMITTED, "an omitted optional operand"),
    "MODEL": (REFERENCED_MODEL, "a model with a higher index than the operand's own"),
}


def with_checksum(program: bytes) -> bytes:
    """Returns header and tables with the checksum of their bytes in the header."""
    digest = hashlib.sha256(program[CHECKED_FROM:]).digest()
    return program[: CHECKED_FROM - len(digest)] + digest + program[CHECKED_FROM:]


def deflated(data: bytes, before: bytes = b"") -> bytes:
    """Returns the number of bytes and the bytes, deflated (RFC 1951) as following others."""
    known, memory = before[-DICTIONARY:], zlib.DEF_MEM_LEVEL
    for level in (9, 0):
        engine = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS, memory, zdict=known)
        found = len(data).to_bytes(4, "little") + engine.compress(data) + engine.flush()
        if len(data) <= MOST_INFLATED * len(found):
            break
    return found
