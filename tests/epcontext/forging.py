"""Lowered clusters for tests of containers, and containers with one fact changed."""

import hashlib
import random
import struct
import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import onnx

from ep_nnapi.diagnostics.check import partitioned
from ep_nnapi.epcontext import layout
from ep_nnapi.epcontext.alternatives import Alternative, Linked, plain_crossing
from ep_nnapi.epcontext.container import split
from ep_nnapi.graph.value import DType
from ep_nnapi.lowering.border import Border, Crossing
from ep_nnapi.lowering.model_builder import Lowered
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.model import Data, Operand
from ep_nnapi.nnapi.spec import ADD, IF, RELU
from ep_nnapi.options.table import parse
from ep_nnapi.provider.compiled_cluster import CompiledCluster
from models.quantized import quantized
from tests.nnapi.build import one
from tests.ort_devices.networks import Network
from tests.provider.test_planner import model

CHECKSUM = layout.CHECKED_FROM - 32  # its offset
INTEGERS = (0, 1, 2, 3, 4, 7, 8, 15, 16, 63, 64, 65, 255, 2**16, 2**31 - 1, 2**31, 2**32 - 1)
FLOATS = (0.0, -1.0, 1e-300, 1e300, float("inf"), float("nan"))


def edited(data: bytes, edit: Callable[[dict[str, Any]], object]) -> bytes:
    """The container after a change of its tables, of which "header" is one, with a new checksum.

    Later alternatives, which are deflated as following tables, stay what they are.
    """
    header, program, _ = split(data)
    writable = bytearray(program)
    tables = {"header": np.frombuffer(writable, layout.HEADER.dtype, 1)}
    for table in layout.TABLES:
        first, count = header[table.name].tolist()
        tables[table.name] = np.frombuffer(writable, table.dtype, count, first)
    edit(tables)
    found = layout.with_checksum(bytes(writable)) + data[len(program) :]
    if tables["header"].tobytes() != header.tobytes() or _before(data) == _before(found):
        return found
    old, new = (
        np.frombuffer(each, layout.ALTERNATIVE.dtype, *_place(header)) for each in (data, found)
    )
    # an earlier edit may have made the number of choices anything
    for index in range(1, min(int(header["choices"]), len(old))):
        if old[index] == new[index]:
            found = _with_own(found, index, _own(data, index))
    return found


def _place(header: Any) -> tuple[int, int]:
    """Number and offset of alternatives."""
    first, count = header["alternatives"].tolist()
    return count, first


def _before(data: bytes) -> bytes:
    """What later alternatives are deflated as following."""
    header = np.frombuffer(data, layout.HEADER.dtype, 1)[0]
    return data[header["models"]["first"] : sum(header["text"].tolist())]


def _own(data: bytes, index: int) -> bytes:
    """The program of a later alternative."""
    header = np.frombuffer(data, layout.HEADER.dtype, 1)[0]
    row = np.frombuffer(data, layout.ALTERNATIVE.dtype, *_place(header))[index]
    start = int(header["packed"]["first"]) + int(row["offset"])
    engine = zlib.decompressobj(-zlib.MAX_WBITS, zdict=_before(data)[-layout.DICTIONARY :])
    return engine.decompress(data[start:][: row["size"]][4:])


def _with_own(data: bytes, index: int, own: bytes) -> bytes:
    """The container with another program of a later alternative, with a new checksum."""
    header, program, _ = split(data)
    start, size = header["packed"].tolist()
    packed = layout.deflated(own, _before(data))
    grown = bytearray(program[: start + size] + packed)
    grown += b"\0" * (-len(grown) % layout.ALIGNMENT)
    rows = np.frombuffer(grown, layout.ALTERNATIVE.dtype, *_place(header))
    rows[index]["offset"], rows[index]["size"] = size, len(packed)
    headers = np.frombuffer(grown, layout.HEADER.dtype, 1)
    headers[0]["program_size"], headers[0]["packed"]["count"] = len(grown), size + len(packed)
    return layout.with_checksum(bytes(grown)) + data[len(program) :]


def changed(data: bytes, table: str, row: int, change: Callable[[Any], None]) -> bytes:
    """The container after `change` of one row of a table (or of "header"), with a new checksum."""
    return edited(data, lambda tables: change(tables[table][row : row + 1 or None]))


def repacked(data: bytes, index: int, change: Callable[[bytes], bytes]) -> bytes:
    """The container after `change` of that of a later alternative, with a new checksum.

    That has a checksum of its own when it is changed, which is taken away afterwards.
    """
    own = change(layout.with_checksum(_own(data, index)) + layout.TERMINATOR)[
        : -len(layout.TERMINATOR)
    ]
    return _with_own(data, index, own[:CHECKSUM] + bytes(32) + own[CHECKSUM + 32 :])


def edited_each(data: bytes, edit: Callable[[dict[str, Any]], object]) -> bytes:
    """The container after a change of the tables of all of its alternatives."""
    data = edited(data, edit)
    for index in range(1, int(split(data)[0]["choices"])):
        data = repacked(data, index, lambda own: edited(own, edit))
    return data


def forged(data: bytes, rng: random.Random, without: str = "") -> bytes:
    """The container with one number or text of any table replaced, and a new checksum.

    without   name of a table that stays as it is
    """
    header, _, _ = split(data)
    if header["choices"] > 1 and rng.random() < 0.5:
        index = rng.randrange(1, int(header["choices"]))
        return repacked(data, index, lambda own: forged(own, rng, without))
    filled = [t.name for t in layout.TABLES if header[t.name]["count"] and t.name != without]
    table = rng.choice(["header", *filled])
    row = 0 if table == "header" else rng.randrange(int(header[table]["count"]))
    return changed(data, table, row, lambda rows: _replace(rows, rng))


def reweighed(data: bytes, rng: random.Random) -> bytes:
    """The container with one byte of its embedded weights replaced, and new checksums."""
    program, rest = split(data)[1:]
    weights = bytearray(rest)
    weights[rng.randrange(len(weights))] = rng.randrange(256)
    digest = np.frombuffer(hashlib.sha256(weights).digest(), np.uint8)

    def change(rows: Any) -> None:
        rows["weights_sha256"] = digest

    return changed(program + bytes(weights) + layout.TERMINATOR, "header", 0, change)


def _replace(rows: Any, rng: random.Random) -> None:
    while rows.dtype.names:
        names = [n for n in rows.dtype.names if n not in ("magic", "sha256")]
        rows = rows[rng.choice(names)]
    rows = rows.reshape(-1)
    rows = rows[rng.randrange(rows.size) :][:1]
    if rows.dtype.kind == "f":
        rows[0] = rng.choice(FLOATS)
        return
    limits = np.iinfo(rows.dtype)
    near = int(rows[0]) + rng.choice((-1, 1, 4, 8, 64))
    value = rng.choice((near, rng.choice(INTEGERS), limits.max, limits.min))
    rows[0] = min(max(value, int(limits.min)), int(limits.max))


SUM = model("Add x w -> a", "Mul a v -> b", "Tanh b -> y", constants="w v")
VECTOR = Operand(OperandCode.TENSOR_FLOAT32, (4,))


def lowered(source: onnx.ModelProto = SUM, **options: object) -> Lowered:
    """The first cluster of a model."""
    cluster = partitioned(source, parse(options)).clusters[0]
    assert isinstance(cluster, CompiledCluster)
    return cluster.lowered


def quantized_digits() -> Lowered:
    """With scales per channel."""
    return lowered(quantized("digits", "u8s8"))


def branching() -> Lowered:
    """IF, both of whose branches refer to one model, which adds what it finds in the weights."""
    net = Network(Operand(OperandCode.TENSOR_BOOL8, (1,)), VECTOR)
    flag, x = net.inputs
    branch = one(ADD, [VECTOR, np.ones(4), 0], [VECTOR])
    y = net.operation(IF, [flag, branch, branch, x], VECTOR, "a", "b")
    whole = net.model(net.operation(RELU, [y], VECTOR))
    crossings = [
        Crossing("which", DType.BOOL, (), 0, None, (1,), np.dtype(np.bool_)),
        Crossing("x", DType.FLOAT, (2, 2), 1, (1, 0), (4,), np.dtype(np.float32)),
        Crossing("y", DType.FLOAT, (4,), 0, None, (4,), np.dtype(np.float32)),
    ]
    return Lowered(whole, Border(tuple(crossings[:2]), tuple(crossings[2:])))


def several() -> tuple[Alternative, ...]:
    """Of every kind, over one copy of the weights; the parts of the last one divide SUM in two."""
    whole = lowered()
    weights = [o.value.bytes for o in whole.model.operands if isinstance(o.value, Data)]
    plain = [
        tuple(plain_crossing(c.name, c.dtype, c.shape, n) for n, c in enumerate(side))
        for side in (whole.border.inputs, whole.border.outputs)
    ]
    (x,), (y,) = plain

    program = Linked(tuple(weights), lambda offsets: struct.pack("<2Q", *offsets[:2]))
    between = replace(y, name="between")
    parts = tuple(
        Alternative(name, layout.AlternativeKind.ONNX, Border((a,), (b,)), linked=program)
        for name, a, b in (("first", x, between), ("second", between, y))
    )
    border = Border((x,), (y,))
    return (
        Alternative.nnapi(whole),
        Alternative("litert", layout.AlternativeKind.LITERT, border, linked=program),
        Alternative.nnapi(whole, "again"),
        Alternative("cpu", layout.AlternativeKind.ONNX, border, linked=program),
        Alternative("nnapi:0", layout.AlternativeKind.PARTITION, border, parts=parts),
    )
