"""docs/context.md and native/format.h have the records of `ep_nnapi.epcontext.layout`.

`python -m tests.epcontext.test_layout` writes their tables anew.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ep_nnapi.epcontext import layout
from ep_nnapi.graph.value import DType
from ep_nnapi.nnapi.codes import OperandCode

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs" / "context.md"
HEADER = ROOT / "native" / "format.h"
C_TYPES = {
    "u8": "uint8_t",
    "i32": "int32_t",
    "u32": "uint32_t",
    "i64": "int64_t",
    "u64": "uint64_t",
    "f64": "double",
    "range": "ctx_range",
}


def element(table: layout.Table) -> str:
    return table.element.name if isinstance(table.element, layout.Record) else table.element


def documented() -> str:
    """The tables of docs/context.md."""
    lines = []
    for record in layout.RECORDS:
        lines += ["", f"### {record.name}: {record.dtype.itemsize} bytes", "", record.meaning, ""]
        lines += ["| offset | type | field | meaning |", "| --- | --- | --- | --- |"]
        for field in record.fields:
            offset = record.dtype.fields[field.name][1]
            lines.append(f"| {offset} | {field.type} | `{field.name}` | {field.meaning} |")
    lines += ["", "### Tables", "", "| table | elements | what it holds |", "| --- | --- | --- |"]
    lines += [f"| `{t.name}` | {element(t)} | {t.meaning} |" for t in layout.TABLES]
    lines += ["", "### Value kinds", "", "| code | value of an operand |", "| --- | --- |"]
    lines += [f"| {code} | {meaning} |" for code, meaning in layout.VALUE_KINDS.values()]
    lines += ["", "### Alternative kinds", "", "| code | what it is |", "| --- | --- |"]
    lines += [f"| {kind} | {meaning} |" for kind, meaning in layout.ALTERNATIVE_KINDS.items()]
    return "\n".join(lines) + "\n"


def declared(field: layout.Field) -> str:
    scalar, bracket, count = field.type.partition("[")
    return f"  {C_TYPES[scalar]} {field.name}{bracket}{count}; /* {field.meaning} */"


def operand_type(code: OperandCode) -> str:
    size = 0 if code is OperandCode.MODEL else code.numpy.itemsize
    onnx = DType.of(code.numpy).value if code.tensor else 0
    return f"  X({code.name}, {code.value}, {size}, {onnx})"


def header() -> Iterator[str]:
    """The lines of native/format.h."""
    yield "/* The records of a container. Generated from ep_nnapi/epcontext/layout.py:"
    yield " * python -m tests.epcontext.test_layout writes it. docs/context.md specifies it. */"
    yield "#ifndef NNAPI_CONTEXT_FORMAT_H\n#define NNAPI_CONTEXT_FORMAT_H\n\n#include <stdint.h>\n"
    yield f'#define CTX_MAGIC "{layout.MAGIC.decode()}"'
    constants = {
        "VERSION": layout.FORMAT_VERSION,
        "ALIGNMENT": layout.ALIGNMENT,
        "MAX_DEPTH": layout.MAX_DEPTH,
        "DICTIONARY": layout.DICTIONARY,
        "MOST_INFLATED": layout.MOST_INFLATED,
        "TERMINATOR": layout.TERMINATOR[0],
        "CHECKED_FROM": layout.CHECKED_FROM,
        "MODEL_HAS_CHECKSUM": layout.MODEL_HAS_CHECKSUM,
        **{f"VALUE_{name}": code for name, (code, _) in layout.VALUE_KINDS.items()},
        **{f"KIND_{kind.name}": kind.value for kind in layout.ALTERNATIVE_KINDS},
    }
    yield "enum {"
    yield from (f"  CTX_{name} = {value}," for name, value in constants.items())
    yield "};\n\n/* X(name, code, bytes of an element, its ONNX type) for every OperandCode."
    yield " * MODEL has no elements; scalars, which cross no border, have no ONNX type: 0. */"
    yield "#define CTX_OPERAND_TYPES(X) \\"
    yield " \\\n".join(map(operand_type, OperandCode))
    yield "\n/* X(name, code, bytes of an element, numpy's name) for each TensorProto.DataType of"
    yield " * ONNX's that crosses the border. */"
    yield "#define CTX_ONNX_TYPES(X) \\"
    readable = [d for d in DType if d.readable]
    names = [f'  X({d.name}, {d.value}, {d.numpy.itemsize}, "{d.numpy.str}")' for d in readable]
    yield " \\\n".join(names)
    yield "\n#define CTX_OPERAND(name, code, bytes, onnx) CTX_##name = code,"
    yield "#define CTX_ONNX(name, code, bytes, numpy) CTX_ONNX_##name = code,"
    yield "enum { CTX_OPERAND_TYPES(CTX_OPERAND) };\nenum { CTX_ONNX_TYPES(CTX_ONNX) };"
    yield "\ntypedef struct {\n  uint32_t first;\n  uint32_t count;\n} ctx_range;\n"
    for record in sorted(layout.RECORDS, key=lambda r: r.name == "header"):
        yield f"/* {record.meaning} */\ntypedef struct {{"
        yield from map(declared, record.fields)
        size = record.dtype.itemsize
        yield f"}} ctx_{record.name};"
        yield f'_Static_assert(sizeof(ctx_{record.name}) == {size}, "{record.name}");\n'
    yield "#endif"


def split(text: str) -> tuple[str, str]:
    """The text before the tables of the document, and the tables."""
    before, mark, rest = text.partition("<!-- records -->\n")
    return before + mark, rest


def test_the_document_has_the_records() -> None:
    assert split(DOCS.read_text(encoding="utf-8"))[1] == documented()


def test_the_header_has_the_records() -> None:
    assert HEADER.read_text(encoding="utf-8") == "\n".join(header()) + "\n"


@pytest.mark.parametrize("record", layout.RECORDS, ids=lambda r: r.name)
def test_fields_are_aligned_to_their_size(record: layout.Record) -> None:
    """So that a C compiler pads nothing."""
    for field in record.fields:
        size = int(re.search(r"\d+", "32" if field.type == "range" else field.type)[0]) // 8
        assert record.dtype.fields[field.name][1] % size == 0, field.name


def write() -> None:
    DOCS.write_text(split(DOCS.read_text(encoding="utf-8"))[0] + documented(), encoding="utf-8")
    HEADER.write_text("\n".join(header()) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write()
