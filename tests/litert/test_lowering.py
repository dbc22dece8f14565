"""The table of lowerings: what LiteRT has no operators for, as docs/prepare.md lists it.

`python -m tests.litert.test_lowering` writes the table anew.
"""

import re
from pathlib import Path

import pytest

import ep_nnapi
from ep_nnapi.litert.to_tflite import lowering
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.codes import OperandCode
from models import zoo
from tests.end_to_end.test_quantized import built as quantized
from tests.end_to_end.test_zoo import built
from tests.litert.needs import LITERT

DOCS = Path(__file__).resolve().parents[2] / "docs" / "prepare.md"
HEAD = "| NNAPI operation | types that LiteRT does not compute |\n|---|---|\n"


def refused(row: spec.OperationSpec) -> list[OperandCode | None]:
    codes = dict.fromkeys(typing.types.get("T") for typing in row.typings)
    return [code for code in codes if lowering(row, code) is None]


def table() -> str:
    found = {row: refused(row) for row in spec.BY_CODE.values()}
    rows = []
    for row, codes in sorted(found.items(), key=lambda item: item[0].name):
        every = {typing.types.get("T") for typing in row.typings}
        types = "all" if {*codes} == every else ", ".join(f"`{c.name}`" for c in codes if c)
        rows += [f"| `{row.name}` | {types} |\n"] if codes else []
    return HEAD + "".join(rows)


def written(text: str) -> str:
    return re.sub(re.escape(HEAD) + r"(\|.*\n)*", table(), text)


def test_the_documents_list_what_is_refused() -> None:
    text = DOCS.read_text(encoding="utf-8")
    assert text == written(text)
    assert "| `ROI_ALIGN` | all |\n" in table()


@LITERT
@pytest.mark.long
@pytest.mark.parametrize("form", ["float", "u8s8"])
def test_it_takes_the_networks_whole(form: str) -> None:
    declined = {}
    for name in zoo.MODELS:
        made = built(name, published=False) if form == "float" else quantized(name, form)
        found = ep_nnapi.check(made, runtime="litert").rejections
        declined[name] = [r.detail for r in found if "declines" in r.detail]
    assert not any(declined.values()), declined


if __name__ == "__main__":
    DOCS.write_text(written(DOCS.read_text(encoding="utf-8")), encoding="utf-8")
