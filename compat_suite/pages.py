"""What the generated pages of docs/ share."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent / "docs"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def publish(name: str, text: str, check: bool) -> int:
    """Write a page, or say whether it is current."""
    path = DOCS / name
    current = path.read_text(encoding="utf-8") if path.exists() else ""
    if check:
        if current != text:
            print(f"docs/{name} is out of date: remake it with `make docs`", file=sys.stderr)
        return int(current != text)
    path.write_text(text, encoding="utf-8")
    print(f"docs/{name} {'is unchanged' if current == text else 'written'}")
    return 0
