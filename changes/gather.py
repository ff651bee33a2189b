"""Gathers changes/*.md into a section of the changelog: `python changes/gather.py [VERSION]`; see README.md."""

import argparse
import datetime
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SECTIONS = ("Wrong numbers", "Added", "Changed", "Deprecated", "Removed", "Fixed")
NEXT = "## Unreleased"


def read(folder: Path) -> dict[str, list[str]]:
    """The sentences of the files of a folder, by section and in the order of the files' names.

    Raises:
        ValueError: if a file does not begin with a section, or has no sentence.
    """
    found: dict[str, list[str]] = {section: [] for section in SECTIONS}
    for path in fragments(folder):
        section, _, sentence = path.read_text(encoding="utf-8").strip().partition(": ")
        if section not in SECTIONS or not sentence.endswith("."):
            raise ValueError(
                f"{path.name} must hold 'SECTION: sentence.', where SECTION is one of {', '.join(SECTIONS)}"
            )
        found[section].append(sentence.replace("\n", "\n  "))
    return found


def fragments(folder: Path) -> list[Path]:
    """The files with changes."""
    return sorted(path for path in folder.glob("*.md") if path.name != "README.md")


def text(changes: dict[str, list[str]]) -> str:
    """What the changelog says of them."""
    parts = [f"### {section}\n\n" + "".join(f"- {c}\n" for c in each) for section, each in changes.items() if each]
    return "\n".join(parts)


def release(changelog: str, version: str, changes: str, date: datetime.date) -> str:
    """The changelog with a section for a version, below the one for changes that are not released."""
    head, mark, rest = changelog.partition(f"{NEXT}\n")
    if not mark:
        raise ValueError(f"the changelog has no line {NEXT!r}")
    if f"\n## {version} " in rest:
        raise ValueError(f"the changelog has a section for {version}")
    waiting, old, rest = rest.partition("\n## ")
    if not changes:
        raise ValueError("changes/ has no file to release")
    if "\n- " in waiting:
        raise ValueError(f"move what stands below {NEXT!r} into files of changes/ first")
    return f"{head}{mark}{waiting}\n## {version} ({date})\n\n{changes}{old}{rest}"


def main(argv: list[str] | None = None, root: Path = ROOT) -> int:
    """Print the gathered changes, or write them into the changelog and remove their files."""
    parser = argparse.ArgumentParser(description="Gather changes/*.md into a section of CHANGELOG.md.")
    parser.add_argument("version", nargs="?", help="write the section for this version; without it, print the section")
    version, log = parser.parse_args(argv).version, root / "CHANGELOG.md"
    try:
        changes = text(read(root / "changes"))
        if version:
            log.write_text(
                release(log.read_text(encoding="utf-8"), version, changes, datetime.date.today()), encoding="utf-8"
            )
    except ValueError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    if not version:
        sys.stdout.write(changes)
        return 0
    for path in fragments(root / "changes"):
        path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
