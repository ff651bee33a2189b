"""The first place at which two runs part: step, module, parameter and operator."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._observer.recording import Entry, Recording
from .judge import Judge, Verdict

_GRADIENTS = ("gradient", "op gradient")
_LEFT = "gradients are added to those of the passes before: does each run call zero_grad() in the same place?"


@dataclass(frozen=True)
class Parting:
    """Where two runs part.

    Attributes:
        event: the number of the event.
        about: its kind, place in the program and step.
        step: the number of the step, from 1.
        verdict: the first value that differs.
        module: the module that was running, or whose parameter it is.
        parameter: the first parameter, gradient or state that differs.
        operator: the operator that gave it, in words.
        after: other values of the event that differ.
        text: what happened where no value differs but the course of the runs.
        advice: what to look for in the program.
    """

    event: int
    about: dict[str, Any]
    step: int
    verdict: Verdict | None
    module: str = ""
    parameter: str = ""
    operator: str = ""
    after: list[Verdict] = field(default_factory=list)
    text: str = ""
    advice: str = ""
    calls: tuple[str, ...] = ()
    """Operators that only one of the two runs calls in this event, where that may be the reason."""


@dataclass(frozen=True)
class Point:
    """An event in the curves.

    Attributes:
        step: its step, from 1.
        kind: its kind.
        loss: the loss in the run that is judged and in the reference, where there is one.
        apart: how far values are apart, relative to their size.
        moved: how far a nudge moves them.
    """

    step: int
    kind: str
    loss: tuple[float, float] | None
    apart: float
    moved: float


def step_of(about: dict[str, Any]) -> int:
    """The number of the step that an event belongs to, from 1."""
    return about["step"] + (about["kind"] not in ("step", "call", "end"))


def parting(judge: Judge) -> Parting | None:
    """The first event in which the runs part, or None."""
    left, right = judge.left.events, judge.right.events
    for number, (a, b) in enumerate(zip(left, right)):
        verdicts = judge.event(number)
        apart = a["kind"] != b["kind"]
        # What only one of them has follows from where they went, where they went apart.
        different = [v for v in verdicts if v.differs and not (apart and v.alone)]
        if different:
            return _explained(judge, number, verdicts, different)
        if apart:
            ways = _way(judge.right, b), _way(judge.left, a)
            text = f"then the reference {ways[0]}, and the other {ways[1]}"
            return Parting(number, b, step_of(b), None, text=text)
    ends = [_ending(r) for r in (judge.left, judge.right)]
    if ends[0] != ends[1]:
        about = right[-1]
        return Parting(
            len(right) - 1, about, step_of(about), None, text=f"the reference {ends[1]}, the other {ends[0]}"
        )
    return None


def _way(recording: Recording, about: dict[str, Any]) -> str:
    """How a run goes on."""
    if about["kind"] == "end":
        return _ending(recording)
    where = f" ({about['where']})" if about["where"] else ""
    names = {"step": "an optimizer step", "begin": f"the first call of {about.get('name', '')}"}
    what = names.get(about["kind"], f"a {about['kind']}")
    return f"goes on with {what}{where}"


def _ending(recording: Recording) -> str:
    facts = recording.facts
    if facts["error"]:
        return f"raised {facts['error']}"
    return f"ended with code {facts['status']}"


def _explained(judge: Judge, number: int, verdicts: list[Verdict], different: list[Verdict]) -> Parting:
    first = different[0]
    about = judge.right.events[number]
    named = [v for v in different if v.entry.kind in ("gradient", "parameter", "state", "buffer", "option")]
    operator = _operator(verdicts, different)
    module = first.entry.module or next((v.entry.module for v in different if v.entry.module), "")
    if not module and named and named[0].entry.kind != "option":
        module = _owner(named[0].entry)
    inside = [v for v in named if module and v.entry.name.startswith(f"{module}.")]
    parameter = (inside or named)[0].entry.name if named else ""
    # The options of an optimizer are no results of operators.
    explained = operator.startswith("backward") or first.entry.kind == "option"
    calls = () if explained else _calls(verdicts)
    after = different[1:]
    advice = _LEFT if first.entry.kind == "left" else ""
    return Parting(number, about, step_of(about), first, module, parameter, operator, after, advice=advice, calls=calls)


def _calls(verdicts: list[Verdict]) -> tuple[str, ...]:
    """Operators that only one of the runs calls."""
    found = []
    for which in ("the reference", "the run that is judged"):
        alone = [v.entry for v in verdicts if v.entry.kind == "op" and v.remark == f"only {which} has it"]
        if alone:
            names = ", ".join(list(dict.fromkeys(f"{e.name.partition('[')[0]}{_at(e)}" for e in alone))[:3])
            found.append(f"only {which} calls {names}")
    return tuple(found)


def _owner(entry: Entry) -> str:
    """The module that a parameter belongs to, by its name."""
    return entry.name.split(" ")[0].rpartition(".")[0]


def _operator(verdicts: list[Verdict], different: list[Verdict]) -> str:
    """The operator in which the first difference arises."""
    first = different[0].entry
    if first.kind == "left":
        return ""
    forward = [v for v in different if v.entry.kind == "op"]
    if first.kind == "op" or (forward and first.kind not in _GRADIENTS):
        entry = forward[0].entry
        return f"{entry.name}{_at(entry)}"
    if first.kind in _GRADIENTS:
        return _backward_of(verdicts, different)
    return ""


def _backward_of(verdicts: list[Verdict], different: list[Verdict]) -> str:
    """The operator whose backward gives the first gradient that differs: a consumer of what it belongs to."""
    arriving = [v for v in different if v.entry.kind == "op gradient"]
    source: Any = None
    if arriving:
        source = arriving[0].entry.number
    else:
        source = next((v.entry.name for v in different if v.entry.kind == "gradient"), None)
    consumers = [v.entry for v in verdicts if v.entry.kind == "op" and source in v.entry.inputs]
    agree = {v.entry.number for v in verdicts if v.entry.kind == "op gradient" and not v.differs}
    culprits = [e for e in consumers if e.number in agree] or consumers
    if culprits:
        return f"backward of {culprits[-1].name}{_at(culprits[-1])}"
    if arriving:
        entry = arriving[0].entry
        return f"whatever follows {entry.name}{_at(entry)}: the gradient that arrives there differs"
    return ""


def _at(entry: Entry) -> str:
    return f", {entry.where}" if entry.where else ""


def curve(judge: Judge) -> list[Point]:
    """Losses, and how far values are apart and moved, event by event."""
    points = []
    for number in range(min(len(judge.left.events), len(judge.right.events)) - 1):
        about = judge.right.events[number]
        if about["kind"] != "begin":
            points.append(_point(judge, number, about))
    return points


def _point(judge: Judge, number: int, about: dict[str, Any]) -> Point:
    theirs = judge.table(judge.right).get(number, [])
    apart = _apart(judge, judge.left, number)
    moved = max((_apart(judge, m, number) for m in judge.moved), default=0.0)
    losses = []
    for r in (judge.left, judge.right):
        mine = judge.table(r).get(number, []) if r is not judge.right else theirs
        roots = [r.values(e) for e in mine if e.kind == "root" and e.size == 1]
        losses += [float(roots[0][0])] if roots else []
    loss = (losses[0], losses[1]) if len(losses) == 2 else None
    return Point(step_of(about), about["kind"], loss, apart, moved)


def _apart(judge: Judge, other: Recording, number: int) -> float:
    """The distance between all losses, gradients and parameters of an event, relative to their size."""
    kinds = ("root", "gradient", "parameter")
    theirs = [e for e in judge.table(judge.right).get(number, []) if e.kind in kinds]
    mine = {(e.kind, e.name): e for e in judge.table(other).get(number, [])}
    apart = size = 0.0
    for e in theirs:
        m = mine.get((e.kind, e.name))
        if m is not None and m.size == e.size:
            a, b = other.values(m), judge.right.values(e)
            with np.errstate(all="ignore"):
                apart, size = apart + float(np.sum((a - b) ** 2)), size + float(np.sum(b * b))
    return float(np.sqrt(apart / size)) if size and np.isfinite(apart) else 0.0
