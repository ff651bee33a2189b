"""Two recordings beside each other: which values are further apart than rounding explains."""

from __future__ import annotations

import difflib
import functools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .. import _tolerances as tolerances
from .._observer.digest import places
from .._observer.recording import Entry, Recording, kept

FACTOR, LEVEL = 30.0, 10.0
"""How many times as far as a nudge moves a value it may be off, as rounding happens at every operator;
and how many times as far as the nudge moves the elements of the tensor on average, as it leaves some by chance."""

OPERATORS = ("op", "op gradient")


@dataclass(frozen=True)
class Verdict:
    """What two values of one thing are to each other.

    Attributes:
        entry: what was seen of the reference; where only the other has it, that.
        other: what was seen of the other run.
        excess: how many times further apart than allowed the values are; above 1 they differ.
        index: the element that is furthest off, if it is known.
        got: its value in the run that is judged.
        want: its value in the reference.
        moved: by how much a nudge by a rounding moves it in the reference.
        remark: what else there is to say.
    """

    entry: Entry
    other: Entry | None = None
    excess: float = 0.0
    index: tuple[int, ...] | None = None
    got: Any = None
    want: Any = None
    moved: float = 0.0
    remark: str = ""

    @property
    def differs(self) -> bool:
        """Whether more than rounding lies between them."""
        return self.excess > 1

    @property
    def alone(self) -> bool:
        """Whether only one of the runs has the value."""
        return self.other is None or self.other is self.entry


@dataclass(frozen=True)
class Judge:
    """A run that is judged, its reference, and nudged runs of the reference.

    Args:
        left: the run that is judged.
        right: the reference.
        moved: the reference, nudged.
        factor: widens what is allowed.
    """

    left: Recording
    right: Recording
    moved: Sequence[Recording] = ()
    factor: float = 1.0
    _tables: dict[int, Any] = field(default_factory=dict)

    def table(self, recording: Recording) -> dict[int, list[Entry]]:
        """The entries of a recording by event."""
        if id(recording) not in self._tables:
            table: dict[int, list[Entry]] = {}
            for e in recording.entries:
                table.setdefault(e.event, []).append(e)
            self._tables[id(recording)] = table
        return self._tables[id(recording)]

    def event(self, number: int) -> list[Verdict]:
        """Verdicts on everything in an event, in the order in which the reference did it."""
        ours, theirs = (self.table(r).get(number, []) for r in (self.left, self.right))
        moved = [dict(zip(_keys(m), m)) for m in (self.table(r).get(number, []) for r in self.moved)]
        keys = dict(zip(map(id, theirs), _keys(theirs)))
        found = []
        for mine, reference in _pairs(ours, theirs):
            if mine is None or reference is None:
                found.append(self._alone(mine, reference))
                continue
            same = [(r, m.get(keys[id(reference)])) for r, m in zip(self.moved, moved)]
            found.append(self.pair(mine, reference, same))
        return found

    def _alone(self, mine: Entry | None, reference: Entry | None) -> Verdict:
        entry = reference or mine
        assert entry is not None
        which = "the reference" if mine is None else "the run that is judged"
        if entry.kind in (*OPERATORS, "output", "option", "left"):
            # Another implementation may call other functions on the way.
            return Verdict(entry, mine, 0.0, remark=f"only {which} has it")
        return Verdict(entry, mine, np.inf, remark=f"only {which} has it")

    def pair(self, mine: Entry, reference: Entry, moved: Sequence[tuple[Recording, Entry | None]]) -> Verdict:
        """A verdict on two entries."""
        for what in ("shape", "dtype"):
            a, b = getattr(mine, what), getattr(reference, what)
            if a != b and not (what == "dtype" and self._other_precision()):
                return Verdict(reference, mine, np.inf, None, a, b, remark=what)
        if mine.size < 0 or reference.size < 0:
            return Verdict(reference, mine)
        got, want = self.left.values(mine), self.right.values(reference)
        if got.shape != want.shape:
            return Verdict(reference, mine, np.inf, None, mine.shape, reference.shape, remark="shape")
        moves = [self._movement(want, r, e) for r, e in moved]
        move = np.max([np.zeros(want.shape), *moves], axis=0)
        return self._elements(mine, reference, got, want, move, moved)

    def _other_precision(self) -> bool:
        return self.left.facts.get("variant") != self.right.facts.get("variant")

    @functools.cached_property
    def _halves(self) -> set[str]:
        """The half precisions in which the reference computes anywhere: gradients of such a pass are no better."""
        dtypes = {e.dtype for e in self.right.entries if e.kind in ("op", "output")}
        return dtypes & {"float16", "bfloat16"}

    def _movement(self, want: np.ndarray, recording: Recording, entry: Entry | None) -> np.ndarray:
        if entry is None or entry.size != want.size:
            return np.full(want.shape, np.inf)
        with np.errstate(all="ignore"):
            apart = np.abs(recording.values(entry) - want)
        return np.where(np.isnan(apart), 0.0, apart)

    def _elements(
        self, mine: Entry, reference: Entry, got: np.ndarray, want: np.ndarray, move: np.ndarray, moved: Any
    ) -> Verdict:
        rtol, eps = _precision(mine, reference, self._halves)
        root = reference.sums[2] if np.isfinite(reference.sums[2]) else 0.0
        with np.errstate(all="ignore"):
            level = float(np.sqrt(np.mean(move * move))) if move.size else 0.0
            plain = rtol * np.abs(want) + 4 * eps * root
            allowed = (plain + FACTOR * move + LEVEL * level) * self.factor + 1e-300
            apart = np.abs(got - want)
            off = np.where(_equal(got, want), 0.0, np.where(np.isfinite(apart), apart / allowed, np.inf))
            off = np.where(np.isinf(move) & np.isfinite(got), 0.0, off)
        sums = self._sums(mine, reference, moved, rtol, root, level)
        at = int(np.argmax(off)) if off.size else 0
        if not off.size or off[at] <= 1 < sums:
            remark = "by the sums over all of it; the elements that were kept agree"
            return Verdict(reference, mine, sums, None, mine.sums[0], reference.sums[0], level, remark)
        count = int((off > 1).sum())
        remark = f"{count} of the {off.size} elements that were kept" if count and reference.shape else ""
        index = _index(reference, at)
        moves = max(float(move[at]), level)
        return Verdict(reference, mine, float(off[at]), index, got[at], want[at], moves, remark)

    def _sums(self, mine: Entry, reference: Entry, moved: Any, rtol: float, root: float, level: float) -> float:
        count = float(np.prod(reference.shape)) if reference.shape else 1.0
        worst = 0.0
        for which in (0, 1):
            a, b = mine.sums[which], reference.sums[which]
            if not (np.isfinite(a) and np.isfinite(b)):
                continue
            moves = [abs(e.sums[which] - b) for _, e in moved if e is not None]
            allowed = (8 * rtol * root + LEVEL * level) * count**0.5
            allowed += FACTOR * max(moves, default=0.0)
            worst = max(worst, abs(a - b) / (allowed * self.factor + 1e-300))
        return worst if np.isfinite(worst) else 0.0


def _equal(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a == b) | (np.isnan(a) & np.isnan(b))


def _precision(a: Entry, b: Entry, inside: set[str]) -> tuple[float, float]:
    """Relative tolerance and rounding of the coarsest of dtypes; those of a number of Python are tiny."""
    if "option" in (a.kind, b.kind):
        return 1e-12, 0.0
    names = [a.dtype, b.dtype]
    if tolerances.relative(b.dtype):  # a number that is exact stays so
        names += inside
    return max(map(tolerances.relative, names)), max(map(tolerances.rounding, names))


def _index(entry: Entry, at: int) -> tuple[int, ...] | None:
    """Return which element of a tensor the one at some place among the kept is."""
    parts = 2 if entry.dtype.startswith("complex") else 1
    size = int(np.prod(entry.shape)) * parts
    flat = int(places(size, kept(entry.kind))[at]) // parts
    return tuple(int(i) for i in np.unravel_index(flat, entry.shape)) if entry.shape else None


def _keys(entries: Sequence[Entry]) -> list[tuple[str, str, int]]:
    """A key for each entry: its kind and name, and the how many-th of these it is."""
    counts: Counter[tuple[str, str]] = Counter()
    keys = []
    for e in entries:
        keys.append((e.kind, e.name, counts[e.kind, e.name]))
        counts[e.kind, e.name] += 1
    return keys


def _pairs(ours: list[Entry], theirs: list[Entry]) -> list[tuple[Entry | None, Entry | None]]:
    """Return which entry belongs to which, in the reference's order.

    Operators belong together by their order, gradients that arrive at their results as the operators do (backward
    passes may go another way round), the rest by name.
    """
    partner = _operators(ours, theirs)
    partner |= _arriving(ours, theirs, partner)
    rest = [[e for e in side if e.kind not in OPERATORS] for side in (ours, theirs)]
    by_key = dict(zip(_keys(rest[0]), rest[0]))
    for key, e in zip(_keys(rest[1]), rest[1]):
        if key in by_key:
            partner[id(e)] = by_key.pop(key)
    _by_order(list(by_key.values()), [e for e in rest[1] if id(e) not in partner], partner)
    used = {id(e) for e in partner.values()}
    pairs: list[tuple[Entry | None, Entry | None]] = [(partner.get(id(e)), e) for e in theirs]
    return pairs + [(e, None) for e in ours if id(e) not in used]


def _operators(ours: list[Entry], theirs: list[Entry]) -> dict[int, Entry]:
    """For results of operators, by id, those of the other side."""
    unlike = _unlike_lines(ours, theirs)
    a, b = ([e for e in x if e.kind == "op" and e.where not in unlike] for x in (ours, theirs))
    pairs = _aligned([(e.name, e.shape) for e in a], [(e.name, e.shape) for e in b])
    return {id(b[j]): a[i] for i, j in pairs}


def _arriving(ours: list[Entry], theirs: list[Entry], partner: dict[int, Entry]) -> dict[int, Entry]:
    """For gradients that arrive at results of operators, by id, those of the other side.

    Where a gradient arrives at a result in one run only, the libraries compute the results of that function in other
    ways from each other (torch computes the hidden state of an LSTM cell from the other result, the cell state), and
    what arrives at one of them says nothing.
    """
    waiting: dict[Any, list[Entry]] = {}
    for e in ours:
        if e.kind == "op gradient":
            waiting.setdefault((e.number, e.name), []).append(e)
    arrived = {(e.number, e.name) for e in theirs if e.kind == "op gradient"}
    same = {(e.number, e.name): partner[id(e)] for e in theirs if id(e) in partner}
    unlike = {(a.where, a.name) for key, a in same.items() if (key in arrived) != ((a.number, a.name) in waiting)}
    found = {}
    for e in theirs:
        result = same.get((e.number, e.name)) if e.kind == "op gradient" else None
        if result is None or (result.where, result.name) in unlike:
            continue
        if waiting[result.number, result.name]:
            found[id(e)] = waiting[result.number, result.name].pop(0)
    return found


def _unlike_lines(ours: list[Entry], theirs: list[Entry]) -> set[str]:
    """Lines of the program that call other operators on the two sides.

    A function of the library's (of an optimizer or a scaler, say) that is written in another way gets its result by
    other steps, of which some have the same names by chance.
    """
    calls: list[dict[str, list[Any]]] = [{}, {}]
    for side, entries in zip(calls, (ours, theirs)):
        for e in entries:
            if e.kind == "op" and e.where:
                side.setdefault(e.where, []).append((e.name, e.shape))
    return {line for line in calls[0].keys() & calls[1].keys() if calls[0][line] != calls[1][line]}


def _aligned(a: list[Any], b: list[Any]) -> list[tuple[int, int]]:
    if a == b:
        return [(i, i) for i in range(len(a))]
    blocks = difflib.SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks()
    return [(m.a + k, m.b + k) for m in blocks for k in range(m.size)]


def _by_order(ours: list[Entry], theirs: list[Entry], partner: dict[int, Entry]) -> None:
    """What has other names on the two sides belongs together by order, where kinds and shapes are the same."""
    for kind in {e.kind for e in theirs}:
        a, b = ([e for e in side if e.kind == kind] for side in (ours, theirs))
        if len(a) == len(b) and all(x.shape == y.shape for x, y in zip(a, b)):
            partner.update((id(y), x) for x, y in zip(a, b))
