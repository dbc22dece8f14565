"""The checklist of a release: version, tag, changelog, links, the documents' commands, the wheels.

    python -m release.check

Run it in a clean clone, by `make release-check`. It goes on after a failure and ends with code 1 if
there was one.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]


class Unready(Exception):
    """What is not ready for a release."""


def git(*arguments: str, root: Path = ROOT) -> str:
    """Returns what git prints."""
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.rstrip()


def version(root: Path = ROOT) -> str:
    """Returns the project's version; raises Unready if it is none that PyPI takes."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found: str = project["version"]
    if re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+)?", found) is None:
        raise Unready(f"the version {found} is not MAJOR.MINOR.PATCH")
    return found


def clean_tree(root: Path = ROOT) -> str:
    """All that git knows is committed."""
    changed = git("status", "--porcelain", root=root)
    if changed:
        raise Unready(f"not committed:\n{changed}")
    return git("rev-parse", "--short", "HEAD", root=root)


def tag_and_changelog(root: Path = ROOT) -> str:
    """The changelog's newest section is this version's, with a date once there is its tag."""
    now = version(root)
    text = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.search(r"^## \[(.+?)\] - (\S+)\n+(### \w+\n+- )?", text, re.MULTILINE)
    if newest is None or newest[1] != now:
        raise Unready(f"the newest section of CHANGELOG.md is not that of {now}")
    if newest[3] is None:
        raise Unready(f"CHANGELOG.md says nothing of {now}")
    tag = f"v{now}"
    if not git("tag", "--list", tag, root=root):
        return f"{now}, not tagged yet: git tag {tag}"
    if git("rev-list", "-n1", tag, root=root) != git("rev-parse", "HEAD", root=root):
        raise Unready(f"{tag} is another commit: raise the version in pyproject.toml")
    if re.fullmatch(r"\d{4}-\d\d-\d\d", newest[2]) is None:
        raise Unready(f"{tag} is tagged and CHANGELOG.md has no date for it")
    return f"{tag}, {newest[2]}"


def anchors(text: str) -> set[str]:
    """Returns the anchors that headings of a Markdown document have."""
    plain = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    heads = re.findall(r"^#+ (.+)$", plain, re.MULTILINE)
    words = (re.sub(r"[^\w\- ]", "", re.sub(r"\[(.+?)\]\(.*?\)", r"\1", h)) for h in heads)
    return {w.strip().lower().replace(" ", "-") for w in words}


def broken_links(path: Path) -> Iterator[str]:
    """Yields the links of a document to files or headings of the clone that are not there."""
    text = re.sub(r"^```.*?^```$", "", path.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    targets = re.findall(r"\]\(([^)\s]+)\)|(?:src|srcset)=\"([^\"]+)\"", text)
    for target in (a or b for a, b in targets):
        if re.match(r"\w+:", target):
            continue  # of the network
        name, _, anchor = target.partition("#")
        file = path.parent / name if name else path
        if not file.exists():
            yield f"{path.name}: {target} is missing"
        elif anchor and anchor not in anchors(file.read_text("utf-8")):
            yield f"{path.name}: {target} has no such heading"


def links(root: Path = ROOT) -> str:
    """Every link in a document leads to a file or heading."""
    documents = [root / name for name in git("ls-files", "*.md", root=root).splitlines()]
    broken = [link for document in documents for link in broken_links(document)]
    if broken:
        raise Unready("\n".join(broken))
    return f"{len(documents)} documents"


def document_tests(root: Path = ROOT) -> list[str]:
    """Returns the test files that run what documents show: they read the blocks of these."""
    files = sorted(root.glob("tests/**/test_*.py"))
    found = (f for f in files if "from tests.documents import" in f.read_text("utf-8"))
    return [str(file.relative_to(root)) for file in found]


def commands() -> str:
    """What README and the documents show is what happens."""
    python = ROOT / ".venv" / "bin" / "python"
    command = (str(python), "-m", "pytest", "-m", "not torch and not web", *document_tests())
    return _output(*command).rpartition("\n")[2]


def wheels() -> str:
    """Two builds of each file are equal; each is used in an empty environment."""
    return "\n" + _output("make", "--silent", "wheels")


def beside_other_builds() -> str:
    """The wheel works with onnxruntime-gpu, and pip leaves that alone."""
    wheel = next((ROOT / "dist").glob("ep_nnapi-*.whl"))
    prove = (sys.executable, "release/prove.py", str(wheel), "--onnxruntime", "onnxruntime-gpu")
    return "\n" + _output(*prove, "tests/ort/test_reader.py", "tests/ort/test_session.py")


def _output(*command: str) -> str:
    """Returns a command's output; raises Unready with it if the command fails."""
    done = subprocess.run(
        command, check=False, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        raise Unready(done.stdout)
    return done.stdout.strip()


CHECKS: tuple[Callable[[], str], ...] = (
    clean_tree,
    tag_and_changelog,
    links,
    commands,
    wheels,
    beside_other_builds,
)


def main() -> int:
    """Runs every check; returns 1 if one fails."""
    failed = 0
    for check in CHECKS:
        begun = time.monotonic()
        try:
            found, state = check(), "ok"
        except Unready as error:
            found, state = str(error), "NOT READY"
            failed = 1
        name = check.__name__.replace("_", " ")
        print(f"{state:9}  {time.monotonic() - begun:5.0f} s  {name}: {found}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
