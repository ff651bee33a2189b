"""The engine of both comparisons: run two sides on the same inputs, and say where they part.

What a side is, and how it takes derivatives, it knows itself (`_sides`, `_jax_side`). Here stands
what is compared, in which order, and what a failure says.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from . import _tolerances as tolerances
from ._dataflow import Dtypes
from ._described import Array, first_line
from ._paths import Container
from ._sides import KINDS, STEPS, Given, Missing

_TITLES = {
    "value": "{name}",
    "state": "{name}",
    "gradient": "gradient of {name}",
    "frozen": "gradient of {name} beside inputs that need none",
    "forward": "forward derivative (jvp) of {name}",
    "second": "second derivative by {name}",
    "steps": "{name} after the optimizer's steps",
}


class Side(Protocol):
    """A function on one side of a comparison."""

    name: str
    seed: int
    move: tolerances.Move
    held_in: str | None
    """A half precision whose numbers all inputs are, while the function computes in float32."""

    def dtypes_inside(self, given: Given, arrays: Mapping[str, Any]) -> Dtypes:
        """In which dtypes the function computes each result, and as a whole."""
        ...

    def run(self, kind: str, given: Given, arrays: Mapping[str, Any], draw: int) -> dict[str, Any]:
        """What is compared of one kind, by name."""
        ...


@dataclass(frozen=True)
class Difference:
    """Where two sides part.

    Attributes:
        kind: "value", "state", "gradient", "frozen" (a gradient where others are not needed), "forward" or "second".
        name: the output, input or parameter.
        index: which element, where one was found.
        got: the value of the first side.
        want: the value of the second.
        text: all that in a sentence.
    """

    kind: str
    name: str
    index: tuple[int, ...] | None
    got: Any
    want: Any
    text: str


@dataclass
class Report:
    """What was compared, and what was not and why.

    Attributes:
        compared: kinds of results ("value", "state", "gradient", "forward", "second"), with the dtype where
            several were tried.
        skipped: for each kind that was not compared the reason.
        draws: how many random cotangents and tangents were tried.
    """

    compared: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    draws: int = 0

    def __str__(self) -> str:
        lines = [f"compared: {', '.join(self.compared) or 'nothing'} ({self.draws} draws)"]
        return "\n".join(lines + [f"skipped: {k}: {v}" for k, v in self.skipped.items()])


class Differs(AssertionError):
    """Two sides part; `difference` says where as data."""

    def __init__(self, text: str, difference: Difference) -> None:
        super().__init__(text)
        self.difference = difference


@dataclass(frozen=True)
class Comparison:
    """Two sides, the inputs, and how closely to look."""

    left: Side
    right: Side
    given: Given
    arrays: Mapping[str, Any]
    kinds: Sequence[str] = KINDS
    draws: int = 3
    factor: float = 1.0
    raises: Any = None
    facts: bool = True
    inside: Dtypes | None = None
    dtype_there: Callable[[str], str] = str
    """Which dtype the right side has for a tensor of the left side's."""

    def check(self) -> Report:
        """Compare kind by kind; raises `Differs` at the first difference."""
        report = Report(draws=self.draws)
        if not self._values(report):
            return report
        for kind in self.kinds[1:]:
            random = kind not in ("value", "state")
            for draw in range(self.draws if random else 1):
                if not self._kind(kind, draw, report):
                    break
        return report

    def _values(self, report: Report) -> bool:
        """Compare the values; False when both sides raised what was expected."""
        found = [_outcome(s, self.given, self.arrays) for s in (self.left, self.right)]
        errors = [e if isinstance(e, Exception) else None for e in found]
        if any(errors) or self.raises is not None:
            self._errors(errors[0], errors[1], report)
            return False
        self._compare("value", 0, found[0], found[1])
        report.compared.append("value")
        return True

    def _errors(self, a: Exception | None, b: Exception | None, report: Report) -> None:
        errors = (a, b)
        texts = ["nothing" if e is None else first_line(e) for e in errors]
        expected = self.raises is not None and all(isinstance(e, self.raises) for e in errors)
        if expected and (texts[0] == texts[1] or not self.facts):
            report.compared.append("exception")
            return
        text = f"{self.left.name} raised {texts[0]}, {self.right.name} raised {texts[1]}"
        if self.raises is None and all(errors):
            text += "; say raises=... where that is what you expect"
        elif self.raises is not None:
            text += f"; expected was {self.raises!r}"
        difference = Difference("value", "exception", None, texts[0], texts[1], text)
        raise Differs(text, difference) from (a or b)

    def _kind(self, kind: str, draw: int, report: Report) -> bool:
        found: list[Any] = []
        lacking: list[str] = []
        for side in (self.left, self.right):
            try:
                found.append(side.run(kind, self.given, self.arrays, draw))
            except Missing as e:
                lacking.append(f"{side.name}: {e}")
            except Exception as e:
                text = f"{_TITLES[kind].format(name='results')}: {side.name} raised {first_line(e)}"
                raise Differs(text, Difference(kind, "", None, None, None, text)) from e
        if lacking:
            report.skipped[kind] = lacking[0]
            if kind == "gradient" and found:
                text = f"{_TITLES[kind].format(name='results')}: {lacking[0]}; the other side has one"
                raise Differs(text, Difference(kind, "", None, None, None, text))
            return False
        if not any(found):
            if kind in ("gradient", "forward", "second"):
                report.skipped[kind] = "there is nothing to differentiate"
            return False
        if not self.facts and kind in ("gradient", "frozen"):
            found[0] = {k: _zeros_for_none(v, found[1].get(k)) for k, v in found[0].items()}
        self._compare(kind, draw, *found)
        if kind not in report.compared:
            report.compared.append(kind)
        return True

    def _compare(self, kind: str, draw: int, got: dict[str, Any], want: dict[str, Any]) -> None:
        self._names(kind, got, want)
        measured: dict[bool, Any] = {}

        def movement(name: str, more: bool) -> Any:
            more = more and kind != STEPS  # steps of an optimizer are compiled again for each move
            if more not in measured:
                measured[more] = self._movements(kind, draw, want, more)
            return measured[more].get(name, 0.0)

        def rounding(name: str) -> float | None:
            if not seen:
                seen.append(self._roundings(kind, draw, want))
            return seen[0].get(name)

        seen: list[dict[str, float]] = []
        for name in want:
            result = name if kind in ("value", "forward") else ""
            problem = self._leaf(
                got[name], want[name], result, functools.partial(movement, name), functools.partial(rounding, name)
            )
            if problem is not None:
                self._fail(kind, draw, name, *problem)

    def _names(self, kind: str, got: dict[str, Any], want: dict[str, Any]) -> None:
        for name in [*want, *got]:
            both = got.get(name), want.get(name)
            first = next((x for x in both if isinstance(x, Container)), None)
            if first and any(first.differs(x, self.facts) for x in both):
                self._fail(kind, 0, name, None, *both, "structure")
        for a, b, name in ((got, want, self.left.name), (want, got, self.right.name)):
            for extra in [k for k in a if k not in b]:
                which = (a[extra], None) if a is got else (None, a[extra])
                self._fail(kind, 0, extra, None, *which, f"only {name} has it")

    def _dtypes(self, result: str = "") -> set[str]:
        """The dtypes in which the reference computes a result; of the whole, with inputs. Looked up once."""
        if self.inside is None:
            given = {np.dtype(v.dtype).name for v in self.arrays.values() if hasattr(v, "dtype")}
            inside = self.right.dtypes_inside(self.given, self.arrays)
            object.__setattr__(self, "inside", {**inside, "": given | inside[""]})
        inside = self.inside or {"": set()}
        return inside.get(result, inside[""])

    def _relative(self, dtype: str, result: str) -> float:
        """The relative tolerance of a result: it can't be better than what it was computed in."""
        return max(map(tolerances.relative, [dtype, *self._dtypes(result)])) * self.factor

    def _movements(self, kind: str, draw: int, want: dict[str, Any], more: bool) -> dict[str, np.ndarray]:
        kinds = {v.dtype for v in want.values() if isinstance(v, Array)} | self._dtypes()
        eps = max((tolerances.rounding(k) for k in kinds), default=0.0)

        def run(arrays: Mapping[str, Any], move: tolerances.Move) -> dict[str, Any]:
            self.right.move = move
            try:
                found = self.right.run(kind, self.given, arrays, draw)
            finally:
                self.right.move = (0.0, 0)
            return {k: x for k, v in found.items() if (x := _numbers(v)) is not None}

        if not eps:
            return {}
        return tolerances.movements(run, self.arrays, eps, self.right.seed, more=more)

    def _roundings(self, kind: str, draw: int, want: dict[str, Any]) -> dict[str, float]:
        """How far half precision takes each result from what float32 gives, on the side where that is more.

        Empty where the function does not compute in float32 when it is given float32.
        """
        given = {k: np.dtype(v.dtype).name for k, v in self.arrays.items() if tolerances.inexact(v)}
        half = {k: v for k, v in given.items() if tolerances.half_name(v)}
        if len(set(half.values())) != 1 or kind == STEPS:
            return {}
        movement = self._movements(kind, draw, want, False)
        found: dict[str, float] = {}
        for side in (self.right, self.left):
            try:
                seen = self._roundings_on(side, kind, draw, half, movement)
            except Exception:  # in float32 the function may do anything else
                return {}
            finally:
                side.move, side.held_in = (0.0, 0), None
            found = {k: max(v, found.get(k, 0.0)) for k, v in seen.items()}
        return found

    def _roundings_on(
        self, side: Side, kind: str, draw: int, half: Mapping[str, str], movement: Mapping[str, np.ndarray]
    ) -> dict[str, float]:
        (name,) = set(half.values())

        def run(arrays: Mapping[str, Any], move: tolerances.Move) -> dict[str, Any]:
            side.move = move
            found = side.run(kind, self.given, arrays, draw)
            return {k: x for k, v in found.items() if (x := _numbers(v)) is not None}

        def run_in_float32(arrays: Mapping[str, Any], move: tolerances.Move) -> dict[str, Any]:
            side.held_in = name
            wider = {k: np.asarray(v, np.float32) if k in half else v for k, v in arrays.items()}
            inside = side.dtypes_inside(self.given, wider)
            if any(map(tolerances.half_name, set().union(*inside.values()))):
                raise Missing("it computes in half precision whatever it is given")
            try:
                return run(wider, move)
            finally:
                side.held_in = None

        return tolerances.roundings_of(run, run_in_float32, self.arrays, movement, side.seed, tolerances.rounding(name))

    def _leaf(
        self, a: Any, b: Any, result: str, movement: Callable[[bool], Any], rounding: Callable[[], float | None]
    ) -> tuple[Any, ...] | None:
        """Index, both values and a remark where two leaves differ."""
        if isinstance(a, Container):
            return None
        if isinstance(a, Array) and isinstance(b, Array):
            return self._facts(a, b) or self._numbers(a, b, result, movement, rounding)
        if isinstance(a, float | complex) and type(a) is type(b):
            rtol = self._relative("float64", result)
            at = np.asarray(a), np.asarray(b)
            off = tolerances.differs(*at, rtol) > 0 and tolerances.differs(*at, rtol, movement(False))
            return (None, a, b, "") if off else None
        same = type(a).__name__ == type(b).__name__ and _text(a) == _text(b)
        return None if same else (None, a, b, "")

    def _half(self, a: Array, b: Array, most: float, rounding: Callable[[], float | None]) -> tuple[float, float]:
        """The relative tolerance of a result in half precision, and how much of it holds for what rounds on the way.

        The last rounding is of the result alone; the others are judged by how far half precision takes the reference
        from float32.
        """
        eps = tolerances.rounding(b.dtype) * self.factor
        least = tolerances.HALF_TIGHTLY * eps
        if not tolerances.differs(a.values, b.values, least).any() or (seen := rounding()) is None:
            return most, 1.0
        on_the_way = tolerances.HALF_SEEN * seen * self.factor
        if least + on_the_way >= most:
            return most, 1.0
        return least + on_the_way, on_the_way / (least + on_the_way)

    def _facts(self, a: Array, b: Array) -> tuple[Any, ...] | None:
        facts = [("shape", a.shape, b.shape), ("dtype", self.dtype_there(a.dtype), b.dtype)]
        if self.facts:
            facts += [(k, a.facts[k], b.facts[k]) for k in a.facts if k in b.facts]
        for what, x, y in facts:
            if x != y:
                return None, x, y, what
        return None

    def _numbers(
        self, a: Array, b: Array, result: str, movement: Callable[[bool], Any], rounding: Callable[[], float | None]
    ) -> tuple[Any, ...] | None:
        if a.values is None or b.values is None:
            return None if a.values is b.values else (None, a.values, b.values, "values")
        rtol = self._relative(b.dtype, result) if tolerances.relative(b.dtype) else 0.0
        share = 1.0
        if b.dtype in tolerances.FLOAT32_OF_HALF:
            rtol, share = self._half(a, b, rtol, rounding)
        off = tolerances.differs(a.values, b.values, rtol)
        if rtol and off.any():
            off = tolerances.differs(a.values, b.values, rtol, share * movement(False))
        if rtol and off.any() and tolerances.may_be_rounding(a.values, b.values, off):
            off = tolerances.differs(a.values, b.values, rtol, share * movement(True))
        if not off.any():
            return None
        at = tuple(int(i) for i in np.unravel_index(int(np.argmax(off)), off.shape))
        remark = f"{int((off > 0).sum())} of {off.size} elements differ"
        return at, a.values[at], b.values[at], remark

    def _fail(self, kind: str, draw: int, name: str, index: Any, got: Any, want: Any, remark: str) -> None:
        title = _TITLES[kind].format(name=name)
        if kind not in ("value", "state"):
            title += f" (draw {draw})"
        at = "" if not index else f", most at {index}"
        text = f"{title}: {remark}{at}: {self.left.name} {_shown(got)}, {self.right.name} {_shown(want)}"
        raise Differs(text, Difference(kind, name, index, got, want, text))


def _outcome(side: Side, given: Given, arrays: Mapping[str, Any]) -> Any:
    try:
        return side.run("value", given, arrays, 0)
    except Exception as e:
        return e


def _zeros_for_none(gradient: Any, other: Any) -> Any:
    """JAX has zeros where an input has no influence; a tensor has no gradient then."""
    if gradient is not None or not isinstance(other, Array) or other.values is None:
        return gradient
    return Array(np.zeros_like(other.values), other.dtype, other.shape)


def _numbers(leaf: Any) -> np.ndarray | None:
    if isinstance(leaf, Array):
        return leaf.values
    return np.asarray(leaf) if isinstance(leaf, float | complex) else None


def _text(x: Any) -> str:
    return repr(x).replace("torchgrad_jax.", "torch.")


def _shown(x: Any) -> str:
    if isinstance(x, np.generic):
        return repr(x.item())
    if isinstance(x, Array):
        return f"a {x.dtype} array of shape {x.shape}"
    return str(x) if isinstance(x, Container) else repr(x)
