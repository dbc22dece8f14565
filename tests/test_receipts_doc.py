"""docs/receipts.md: its program prints what it says, and its tables have the keys of a receipt."""

import json
import re
import sys
from pathlib import Path

from tests.documents import blocks
from tests.programs import ran
from tests.runtimes import host_only

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "receipts.md"


@host_only
def test_the_program_prints_what_the_document_says(tmp_path: Path) -> None:
    (program,), (output,) = (blocks(DOCUMENT, kind) for kind in ("python", "output"))
    (tmp_path / "models").symlink_to(ROOT / "models")
    done = ran(sys.executable, "-W", "ignore", "-c", program, cwd=tmp_path, timeout=300)
    assert done.stdout == output
    found = json.loads((tmp_path / "receipt.json").read_text())
    keys = re.findall(r"^\| (`.*?) \|", DOCUMENT.read_text(), re.M)
    named = {name for row in keys for name in re.findall(r"`(\w+)`", row)}
    of_alternatives = {"alternative", "tried"}
    assert named == {*found, *found["clusters"][0]} | of_alternatives
