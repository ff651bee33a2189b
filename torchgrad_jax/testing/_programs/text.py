"""A comparison of programs in words."""

from __future__ import annotations

from typing import Any

from .judge import Verdict
from .locate import Parting, Point

_ROWS = 8


def text(report: Any) -> str:
    """Return what a terminal shows."""
    lines = [report.program, f"  {report.names[0]}", f"  beside {report.names[1]}: {report.compared} values compared"]
    if report.unreadable:
        lines.append(f"  {report.unreadable} values inside of transforms were not read")
    lines += ["", *_losses(report), *(f"note: {n}" for n in report.notes)]
    if report.parting is None:
        return "\n".join([*lines, "They agree: nothing is further apart than rounding explains."])
    return "\n".join([*lines, *([""] if report.notes else []), *parted(report.parting)])


def number(x: Any) -> str:
    """A number as it is shown."""
    return f"{float(x):.7g}" if isinstance(x, float) or hasattr(x, "dtype") else str(x)


def title(v: Verdict) -> str:
    """Return what a value is: its kind, name and element."""
    kind = {
        "op": "result of",
        "output": "output of",
        "op gradient": "gradient at the result of",
        "gradient": "gradient of",
        "root": "",
        "left": "number of",
    }
    of = kind.get(v.entry.kind, v.entry.kind)
    index = f", element {v.index}" if v.index else ""
    where = f" ({v.entry.where})" if v.entry.where else ""
    return f"{of} {v.entry.name}{where}{index}".strip()


def headline(found: Parting) -> str:
    """At which step and where in the program."""
    kinds = {
        "step": "the optimizer's step",
        "begin": "what there is before the first call",
        "backward": "the backward pass",
    }
    kinds |= {"call": f"a call of {found.about.get('name', '')}", "grad": "autograd.grad", "end": "what follows"}
    where = f", {found.about['where']}" if found.about["where"] else ""
    return f"They part at step {found.step}, in or before {kinds[found.about['kind']]}{where}:"


def facts(found: Parting) -> list[tuple[str, str]]:
    """Where they part, item by item."""
    if found.verdict is None:
        return [("what", found.text)]
    v = found.verdict
    rows = [("first value", title(v))]
    if v.remark:
        rows.append(("", v.remark))
    if v.want is not None or v.got is not None:
        rows += [("reference", number(v.want)), ("judged", number(v.got))]
        rows.append(("a rounding", f"moves the reference by {v.moved:.2g}"))
    rows += [("module", found.module), ("parameter", found.parameter), ("op", found.operator)]
    rows += [("op", call) for call in found.calls]
    rows.append(("look for", found.advice))
    return [(k, t) for k, t in rows if t]


def parted(found: Parting) -> list[str]:
    """The same as lines."""
    lines = [headline(found)]
    lines += [f"  {k:<12} {t}" for k, t in facts(found)]
    if found.after:
        lines.append(f"  and {len(found.after)} more values of this step, the first of them:")
        lines += [f"    {title(v)}: {_both(v)}" for v in found.after[:4]]
    return lines


def _both(v: Verdict) -> str:
    return v.remark if v.want is None and v.got is None else f"{number(v.want)}, {number(v.got)}"


def _losses(report: Any) -> list[str]:
    points = [p for p in report.curve if p.loss is not None]
    if not points:
        return []
    rows = [("step", "reference", "judged", "apart", "a rounding moves")]
    rows += [_row(p) for p in _some(points)]
    widths = [max(len(r[i]) for r in rows) for i in range(5)]
    lines = ["  ".join(c.ljust(w) for c, w in zip(r, widths)).rstrip() for r in rows]
    return [f"  {line}" for line in lines] + [""]


def _some(points: list[Point]) -> list[Point | None]:
    if len(points) <= _ROWS:
        return list(points)
    return [*points[: _ROWS // 2], None, *points[-_ROWS // 2 :]]


def _row(p: Point | None) -> tuple[str, ...]:
    if p is None:
        return ("...", "", "", "", "")
    assert p.loss is not None
    got, want = p.loss
    return str(p.step), number(want), number(got), f"{p.apart:.1e}", f"{p.moved:.1e}"
