import subprocess
from pathlib import Path

import pytest

from release.check import (
    Unready,
    anchors,
    clean_tree,
    document_tests,
    git,
    links,
    tag_and_changelog,
    version,
)

ROOT = Path(__file__).parents[2]
CHANGELOG = "# Changelog\n\n## [{}] - {}\n\n### Added\n\n- It.\n"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A repository of version 1.2.3 with one commit."""
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    git("config", "user.email", "nobody@example.org", root=tmp_path)
    git("config", "user.name", "nobody", root=tmp_path)
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.2.3"\n')
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG.format("1.2.3", "unreleased"))
    commit(tmp_path)
    return tmp_path


def commit(clone: Path) -> None:
    git("add", "-A", root=clone)
    git("commit", "-q", "--allow-empty", "-m", "One", root=clone)


def test_before_the_tag(clone: Path):
    assert tag_and_changelog(clone) == "1.2.3, not tagged yet: git tag v1.2.3"
    assert clean_tree(clone) == git("rev-parse", "--short", "HEAD", root=clone)


def test_at_the_tag(clone: Path):
    git("tag", "v1.2.3", root=clone)
    with pytest.raises(Unready, match="has no date"):
        tag_and_changelog(clone)
    (clone / "CHANGELOG.md").write_text(CHANGELOG.format("1.2.3", "2026-12-01"))
    with pytest.raises(Unready, match=r"not committed:\n M CHANGELOG"):
        clean_tree(clone)
    commit(clone)
    with pytest.raises(Unready, match=r"v1\.2\.3 is another commit: raise the version"):
        tag_and_changelog(clone)
    git("tag", "--force", "v1.2.3", root=clone)
    assert tag_and_changelog(clone) == "v1.2.3, 2026-12-01"


@pytest.mark.parametrize(
    ("changelog", "why"),
    [
        (CHANGELOG.format("1.2.2", "2026-12-01"), r"newest section of CHANGELOG.md is not that"),
        ("# Changelog\n", "newest section of CHANGELOG.md is not that"),
        ("## [1.2.3] - unreleased\n\n## [1.2.2] - 2026-12-01\n", "says nothing of"),
    ],
)
def test_a_changelog_without_the_version(changelog: str, why: str, clone: Path):
    (clone / "CHANGELOG.md").write_text(changelog)
    with pytest.raises(Unready, match=why):
        tag_and_changelog(clone)


@pytest.mark.parametrize("bad", ["1.2", "1.2.3.dev0", "v1.2.3"])
def test_a_version_that_is_none(bad: str, clone: Path):
    (clone / "pyproject.toml").write_text(f'[project]\nversion = "{bad}"\n')
    with pytest.raises(Unready, match="is not MAJOR"):
        version(clone)


def test_links_to_files_and_headings(clone: Path):
    here = "[1](b.md) [2](b.md#d-e) [3](#a-b--c) [4](https://example.org/x) ![](p.png)"
    (clone / "a.md").write_text(f"# A `b` & c\n\n{here}\n")
    (clone / "b.md").write_text("## D: e\n\n```\n# no heading\n[no](link)\n```\n")
    (clone / "p.png").touch()
    commit(clone)
    assert links(clone) == "3 documents"
    (clone / "b.md").write_text('## D\n\n<img src="q.png">\n')
    with pytest.raises(Unready) as found:
        links(clone)
    assert str(found.value).splitlines() == [
        "a.md: b.md#d-e has no such heading",
        "b.md: q.png is missing",
    ]


def test_the_links_and_the_changelog_of_this_project():
    assert links().endswith(" documents")
    assert version() in tag_and_changelog()
    assert "select-the-provider" in anchors((ROOT / "README.md").read_text())


def test_what_all_documents_show_is_run():
    expected = {f"tests/test_{name}.py" for name in ("readme", "documents", "journeys")}
    assert expected | {"tests/remote/test_adb.py"} <= set(document_tests())
