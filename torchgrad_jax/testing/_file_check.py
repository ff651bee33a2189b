"""torch.testing.FileCheck: checks that a text has some strings, in an order that the checks say."""

from __future__ import annotations

import itertools
import re
import sys
from dataclasses import dataclass
from typing import Any

Span = tuple[int, int]


@dataclass(frozen=True)
class _Check:
    """One string to look for, and how.

    `kind` is torch's name of it: CHECK, CHECK-NOT, CHECK-SAME, CHECK-NEXT, CHECK-COUNT, CHECK-DAG, CHECK-REGEX or
    CHECK-SOURCE-HIGHLIGHTED.
    """

    kind: str
    text: str
    count: int = 1

    def __str__(self) -> str:
        return f"{self.kind}{f'-{self.count}' if self.kind == 'CHECK-COUNT' else ''}: {self.text}"

    def find(self, text: str, start: int) -> Span:
        """The first place of the string behind `start`."""
        if self.kind == "CHECK-REGEX":
            try:
                found = re.compile(self.text).search(text, start)
            except re.error as error:
                raise RuntimeError(f"FileCheck: {self.text!r} is no regular expression: {error}") from error
            if found is not None:
                return found.span()
        elif (at := text.find(self.text, start)) >= 0:
            return at, at + len(self.text)
        regex = "regex " if self.kind == "CHECK-REGEX" else ""
        what = f'{regex}"{self.text}"'
        raise RuntimeError(
            f"Expected to find {what} but did not find it\nSearched string:\n{text[start:]}\nFrom {self}\n"
        )

    def refuse(self, what: str, text: str, start: int, end: int) -> None:
        """Raise where a string stands between two places."""
        if text.find(what, start, end) >= 0:
            shown = what.replace("\n", "\\n")
            raise RuntimeError(f'Expected to not find "{shown}" but found it\n{text}\nFrom {self}\n')

    def match(self, text: str, before: Span) -> Span:
        """Where the string stands behind what the check before this one found."""
        if self.kind == "CHECK-SOURCE-HIGHLIGHTED":
            return self._match_highlighted(text, before[1])
        if self.kind == "CHECK-NEXT":
            line = text.find("\n", before[1])
            if line < 0:
                raise RuntimeError(
                    f'Expected to find "\\n" but did not find it\nSearched string:\n{text}\nFrom {self}\n'
                )
            found = self.find(text, line + 1)
            self.refuse("\n", text, line + 1, found[0])
            return found
        found = self.find(text, before[1])
        for _ in range(self.count - 1):
            found = found[0], self.find(text, found[1])[1]
        if self.kind == "CHECK-SAME":
            self.refuse("\n", text, before[1], found[0])
        return found

    def _match_highlighted(self, text: str, start: int) -> Span:
        """Where the string stands with `~` under all of it, and under nothing beside it."""
        self.find(text, start)
        while (at := text.find(self.text, start)) >= 0:
            column = at - (text.rfind("\n", 0, at) + 1)
            line_end = text.find("\n", at)
            below = text[line_end + 1 :].partition("\n")[0] if line_end >= 0 else ""
            marks = below[column : column + len(self.text)]
            if marks == "~" * len(self.text):
                place = line_end + 1 + column
                self.refuse("~", text, place - bool(column), place)
                self.refuse("~", text, place + len(self.text), place + len(self.text) + 1)
                return place, place + len(self.text)
            start = at + 1
        raise RuntimeError(f'Expected to find "{self.text}"highlighted but it is not.\n{text}\n')


class FileCheck:
    """Checks that are added one after another, and then run on a text.

    Each finds its string behind the place where the one before found its own; between two of them stands none of the
    strings that `check_not` names in between.

    Example:
        >>> import torchgrad_jax as torch
        >>> torch.testing.FileCheck().check("sin").check_not("tan").check("cos").run("sin, then cos")
    """

    __module__ = "torch"

    def __init__(self) -> None:
        self._checks: list[_Check] = []
        self._ran = False

    def _add(self, kind: str, text: Any, count: int = 1) -> FileCheck:
        if not isinstance(text, str):
            raise TypeError(f"{kind.lower()}(): incompatible function arguments: it takes a string, and got {text!r}")
        self._checks.append(_Check(kind, text, count))
        return self

    def check(self, text: str, /) -> FileCheck:
        """The string comes next."""
        return self._add("CHECK", text)

    def check_not(self, text: str, /) -> FileCheck:
        """The string does not stand between the check before and the check after."""
        return self._add("CHECK-NOT", text)

    def check_same(self, text: str, /) -> FileCheck:
        """The string comes next, on the same line."""
        return self._add("CHECK-SAME", text)

    def check_next(self, text: str, /) -> FileCheck:
        """The string comes next, on the line after."""
        return self._add("CHECK-NEXT", text)

    def check_count(self, str: str, count: int, exactly: bool = False) -> FileCheck:
        """The string comes `count` times, and with `exactly` not again before the check after."""
        if type(count) is not int or count < 0:
            raise TypeError(f"check_count(): incompatible function arguments: count is a number, and got {count!r}")
        if count == 0 and not exactly:
            raise RuntimeError("check_count(): a count of 0 checks nothing without exactly=True")
        if count:
            self._add("CHECK-COUNT", str, count)
        return self._add("CHECK-NOT", str) if exactly else self

    def check_dag(self, text: str, /) -> FileCheck:
        """The string comes next; those of several calls in a row come in any order."""
        return self._add("CHECK-DAG", text)

    def check_regex(self, text: str, /) -> FileCheck:
        """Return what the regular expression matches comes next."""
        return self._add("CHECK-REGEX", text)

    def check_source_highlighted(self, text: str, /) -> FileCheck:
        """The string comes next, with `~` under it on the line below."""
        return self._add("CHECK-SOURCE-HIGHLIGHTED", text)

    def run(self, text: str, test_file: str | None = None, /, *, checks_file: str | None = None) -> None:
        """Check a text.

        Args:
            text: it; or, with a second argument, a text with lines `# CHECK: ...` that say what to check.
            test_file: the text, where the first argument has the checks.
            checks_file: those lines, by keyword.

        Raises:
            RuntimeError: the text has not what a check looks for; the message says which.
        """
        given = [x for x in (checks_file, text, test_file) if x is not None]
        if not all(isinstance(x, str) for x in given):
            raise TypeError(f"run(): incompatible function arguments: it takes strings, and got {given!r}")
        self._ran = True
        if len(given) == 2:
            self._parse(given[0])
        if not self._checks:
            raise RuntimeError("No checks have been added to this instance ofFilecheck! Check for bad input.")
        self._run(given[-1])

    def _run(self, text: str) -> None:
        groups = [list(g) for _, g in itertools.groupby(self._checks, key=_group)]
        before: Span = (0, 0)
        refused: list[_Check] = []
        for group in groups:
            if group[0].kind == "CHECK-NOT":
                refused = group
                continue
            found = [check.match(text, before) for check in group]
            for check in refused:
                check.refuse(check.text, text, before[1], min(start for start, _ in found))
            before, refused = (min(s for s, _ in found), max(e for _, e in found)), []
        for check in refused:
            check.refuse(check.text, text, before[1], len(text))

    def _parse(self, text: str) -> None:
        """Add the checks that lines `# CHECK: ...` say."""
        for line in text.splitlines():
            found = re.search(r"#\s*CHECK(.*)", line)
            if found is None:
                continue
            parsed = re.match(
                r"(|-NOT|-SAME|-NEXT|-DAG|-REGEX|-SOURCE-HIGHLIGHTED|-COUNT-(EXACTLY-)?(\d+)): (.*)", found[1]
            )
            parsed = parsed or re.match(r"()()():(.*)", found[1])
            if parsed is None:
                raise RuntimeError(f"Could not parse check at:\n{line}\nCheck for bad input.")
            kind, exactly, count, what = parsed.groups()
            if count:
                self.check_count(what, int(count), bool(exactly))
            else:
                self._add(f"CHECK{kind}", what)

    def __del__(self) -> None:
        if not self._ran:
            checks = "".join(f"\t{check}\n" for check in self._checks)
            sys.stdout.write(f"You have not run this instance of FileCheck!\nFileCheck checks:\n{checks}")


_numbers = itertools.count()


def _group(check: _Check) -> Any:
    """Checks in a row with the same answer belong together: strings to be absent, and strings in any order."""
    return check.kind if check.kind in ("CHECK-NOT", "CHECK-DAG") else next(_numbers)
