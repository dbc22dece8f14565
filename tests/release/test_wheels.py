import os
import subprocess
import sys
import tarfile
from importlib.util import find_spec
from pathlib import Path
from platform import machine

import pytest

from release.wheels import PROCESSORS, Unfit, digest, normalized, place, run, same

ROOT = Path(__file__).parents[2]


def archive(folder: Path, names: list[str], mode: int, time: int) -> Path:
    """An sdist as one machine or another writes it."""
    folder.mkdir()
    for name in names:
        (folder / name).write_text(f"{name}\n")
        (folder / name).chmod(mode)
        os.utime(folder / name, (time, time))
    with tarfile.open(folder / "made.tar.gz", "w:gz") as file:
        for name in names:
            file.add(folder / name, f"ep_nnapi-1/{name}")
    return folder / "made.tar.gz"


def test_an_sdist_does_not_tell_who_made_it_when(tmp_path: Path):
    first = archive(tmp_path / "a", ["x.py", "y.py"], 0o664, 1_000_000_000)
    second = archive(tmp_path / "b", ["y.py", "x.py"], 0o600, 1_700_000_000)
    assert digest(first) != digest(second)
    plain = [normalized(p, p.with_name("ep.tar.gz"), 1_600_000_000) for p in (first, second)]
    assert same(*plain) == plain[0]
    with tarfile.open(plain[0]) as file:
        assert [m.name for m in file.getmembers()] == ["ep_nnapi-1/x.py", "ep_nnapi-1/y.py"]
        expected = {(0, "", 0o644, 1_600_000_000)}
        assert {(m.uid, m.uname, m.mode, m.mtime) for m in file.getmembers()} == expected
    third = normalized(first, tmp_path / "later.tar.gz", 1_600_000_001)
    with pytest.raises(Unfit, match=r"two builds of ep\.tar\.gz differ"):
        same(plain[0], third)


def test_a_command_that_fails_is_shown_with_its_output():
    with pytest.raises(Unfit, match="failed:\nno compiler"):
        run(sys.executable, "-c", "import sys; sys.exit('no compiler')")


@pytest.mark.long
def test_wheels(tmp_path: Path):
    """Both wheels, twice each, with all that release.audit asks of them."""
    tools = ("abi3audit", "auditwheel", "build", "cyclonedx", "twine", "ziglang")
    absent = [tool for tool in tools if find_spec(tool) is None]
    if absent:
        pytest.skip(f"`make wheels` does this; not installed here: {', '.join(absent)}")
    command = [sys.executable, "-m", "release.wheels", "--out", tmp_path / "dist"]
    done = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    names = sorted(path.name.split("-", 1)[1] for path in (tmp_path / "dist").rglob("*.whl"))
    expected = ["aarch64.whl", "x86_64.whl"]
    assert [name.partition("-cp311-abi3-manylinux_2_28_")[2] for name in names] == expected
    assert done.stdout.count("auditwheel: manylinux_2_") == 2


def test_pip_can_install_all_wheels_of_the_folder(tmp_path: Path):
    out = tmp_path / "dist"
    for name in (f"ep_nnapi-1-cp311-abi3-manylinux_2_28_{machine()}.whl", "ep_nnapi-1.tar.gz"):
        assert place(tmp_path / name, out) == out
    for other in {*PROCESSORS} - {machine()}:
        wheel = tmp_path / f"ep_nnapi-1-cp311-abi3-manylinux_2_28_{other}.whl"
        assert place(wheel, out) == out / other
