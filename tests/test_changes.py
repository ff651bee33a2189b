"""changes/: every file says where its sentence belongs, and the command puts them into the changelog."""

import datetime
import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SPEC = importlib.util.spec_from_file_location("gather", ROOT / "changes" / "gather.py")
assert SPEC is not None
assert SPEC.loader is not None
gather = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(gather)

LOG = """\
# Changelog

## Unreleased

See changes/.

## 0.1.0 (2026-12-01)

The first release.
"""


@pytest.fixture
def root(tmp_path):
    (tmp_path / "CHANGELOG.md").write_text(LOG)
    (tmp_path / "changes").mkdir()
    write(tmp_path, "README", "How to write these.")
    return tmp_path


def write(root, name, text):
    (root / "changes" / f"{name}.md").write_text(text)


def test_files_of_this_repository_can_be_gathered():
    gather.read(ROOT / "changes")
    assert f"\n{gather.NEXT}\n" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_sentences_are_printed_by_section_with_wrong_numbers_first(root, capsys):
    write(root, "b", "Added: `b` is there.\n")
    write(root, "a", "Added: `a` is there.\n")
    write(root, "z", "Wrong numbers: The gradient of `z`\nwas twice PyTorch's.\n")
    assert gather.main([], root) == 0
    assert capsys.readouterr().out == (
        "### Wrong numbers\n\n- The gradient of `z`\n  was twice PyTorch's.\n\n"
        "### Added\n\n- `a` is there.\n- `b` is there.\n"
    )
    assert len(gather.fragments(root / "changes")) == 3


def test_a_release_moves_them_into_the_changelog(root):
    write(root, "a", "Fixed: `a` no longer raises.\n")
    assert gather.main(["0.1.1"], root) == 0
    new = f"## 0.1.1 ({datetime.date.today()})\n\n### Fixed\n\n- `a` no longer raises.\n\n"
    assert (root / "CHANGELOG.md").read_text() == LOG.replace("## 0.1.0", f"{new}## 0.1.0")
    assert [p.name for p in (root / "changes").iterdir()] == ["README.md"]


@pytest.mark.parametrize("text", ["`a` is there.", "New: `a` is there.", "Added: ", "Added: no full stop"])
def test_a_file_without_section_or_sentence_is_named_and_nothing_is_lost(root, capsys, text):
    write(root, "a", text)
    assert gather.main(["0.1.1"], root) == 1
    assert "a.md must hold" in capsys.readouterr().err
    assert (root / "CHANGELOG.md").read_text() == LOG
    assert (root / "changes" / "a.md").exists()


def test_a_release_of_nothing_is_refused(root, capsys):
    assert gather.main(["0.1.1"], root) == 1
    assert "no file to release" in capsys.readouterr().err


@pytest.mark.parametrize(
    "log, complaint",
    [
        (LOG.replace("See changes/.", "- something\n"), "move what stands below"),
        (LOG.replace("0.1.0 ", "0.1.1 "), "has a section for 0.1.1"),
        (LOG.replace("## Unreleased", ""), "no line"),
    ],
)
def test_a_changelog_that_is_not_ready_stays_as_it_is(root, capsys, log, complaint):
    (root / "CHANGELOG.md").write_text(log)
    write(root, "a", "Added: `a` is there.")
    assert gather.main(["0.1.1"], root) == 1
    assert complaint in capsys.readouterr().err
    assert (root / "CHANGELOG.md").read_text() == log
