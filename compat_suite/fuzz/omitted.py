"""What random programs leave out when they run in another way than line by line: a ledger, `ledger/omitted.toml`."""

from __future__ import annotations

import datetime
import functools
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..ledger import HOME, LedgerError

FILE = HOME / "omitted.toml"
WAYS = ("lines", "compile", "vmap", "devices")
PARTS = ("line", "error", "attribute")
KINDS = ("refused", "differs", "not promised")


@dataclass(frozen=True)
class Omission:
    """One thing that is left out, and why."""

    id: str
    way: str
    part: str
    pattern: str
    kind: str
    reason: str
    date: datetime.date

    @functools.cached_property
    def found(self) -> re.Pattern[str]:
        """The pattern, compiled."""
        return re.compile(self.pattern)


class Refused(Exception):
    """A program that its way does not take; `args` has the entry's id."""


def parse(data: Mapping[str, Any]) -> tuple[Omission, ...]:
    """Entries of the loaded file; every field is there and has its type."""
    fields = set(Omission.__dataclass_fields__)
    out: list[Omission] = []
    for n, row in enumerate(data.get("entry", [])):
        at = f"omitted.toml, entry {n + 1} ({row.get('id', 'no id')})"
        if set(row) != fields:
            raise LedgerError(f"{at}: fields {sorted(row)}, want {sorted(fields)}")
        if row["way"] not in WAYS or row["part"] not in PARTS or row["kind"] not in KINDS:
            raise LedgerError(f"{at}: way is one of {WAYS}, part of {PARTS}, kind of {KINDS}")
        texts = ("id", "pattern", "reason")
        if not isinstance(row["date"], datetime.date) or not all(
            isinstance(row[f], str) and row[f].strip() for f in texts
        ):
            raise LedgerError(f"{at}: date is a date; id, pattern and reason are text")
        try:
            re.compile(row["pattern"])
        except re.error as e:
            raise LedgerError(f"{at}: pattern: {e}") from None
        out.append(Omission(**row))
    if len({o.id for o in out}) < len(out):
        raise LedgerError("omitted.toml: an id is entered twice")
    return tuple(out)


@functools.cache
def current() -> tuple[Omission, ...]:
    """The ledger of this checkout."""
    return parse(tomllib.loads(FILE.read_text(encoding="utf-8")))


def _of(way: str, part: str) -> list[Omission]:
    return [o for o in current() if o.way == way and o.part == part]


def left_out(line: str, way: str) -> bool:
    """Whether a line is not made for a way."""
    return any(o.found.search(line) for o in _of(way, "line"))


def refusal(error: tuple[str, str], way: str) -> str | None:
    """The id of the entry that knows this complaint."""
    return next((o.id for o in _of(way, "error") if o.found.search(error[1])), None)


def compared(attribute: str, way: str) -> bool:
    """Whether an attribute such as `stride` of a result is compared."""
    return not any(o.found.fullmatch(attribute) for o in _of(way, "attribute"))
