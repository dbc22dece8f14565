"""`make generate`: what programs write is what is committed."""

import filecmp
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.long
def test_make_generate_changes_nothing(tmp_path: Path) -> None:
    """In a copy, whose tests import the copy."""
    copy = tmp_path / "copy"
    ignored = shutil.ignore_patterns(".*", "build", "__pycache__", "*.egg-info")
    shutil.copytree(ROOT, copy, ignore=ignored)
    made = ["-o", ".venv/.ready", f"BIN={Path(sys.executable).parent}"]
    subprocess.run(
        ["make", "-s", *made, "generate"],
        check=True,
        cwd=copy,
        env=os.environ | {"PYTHONPATH": str(copy)},
    )
    written = [p.relative_to(copy) for p in copy.rglob("*") if p.suffix in {".h", ".md", ".py"}]
    changed = [str(p) for p in written if not filecmp.cmp(copy / p, ROOT / p, shallow=False)]
    assert changed == []
    assert len(written) > 500
