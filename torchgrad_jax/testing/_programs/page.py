"""A comparison of programs as one page of HTML: curves, where they part, and every value of that step."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence
from typing import Any

from .judge import Verdict
from .locate import Point
from .text import facts, headline, number, title

_STYLE = """
:root { color-scheme: light dark; --back: #ffffff; --fore: #1c2430; --soft: #5b6675; --line: #d8dde4; --card: #f5f7fa;
  --one: #0b62c4; --two: #c2540a; --bad: #b3261e; --good: #1b7f3b; }
@media (prefers-color-scheme: dark) { :root { --back: #12161c; --fore: #e4e8ee; --soft: #9aa6b5; --line: #313a46;
  --card: #1a2029; --one: #6cb0ff; --two: #ffa45c; --bad: #ff8a80; --good: #6fd38c; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 64rem; padding: 1.5rem 1rem 4rem; background: var(--back); color: var(--fore);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.35rem; margin: 0 0 .25rem; overflow-wrap: anywhere; }
h2 { font-size: 1.05rem; margin: 2rem 0 .5rem; }
p { margin: .25rem 0; } .soft { color: var(--soft); } .bad { color: var(--bad); } .good { color: var(--good); }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 8px;
  padding: .75rem 1rem; margin: 1rem 0; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; margin: .5rem 0 0; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
.wide { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: .875rem; }
th, td { text-align: left; padding: .3rem .7rem .3rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--soft); font-weight: 600; } td.n { font-variant-numeric: tabular-nums; white-space: nowrap; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(19rem, 1fr)); gap: 1rem; }
figure { margin: 0; } figcaption { font-size: .875rem; color: var(--soft); }
svg { width: 100%; height: auto; display: block; }
svg text { fill: var(--soft); font: 11px system-ui, sans-serif; } .grid { stroke: var(--line); }
.one { stroke: var(--one); fill: none; stroke-width: 2; }
.two { stroke: var(--two); fill: none; stroke-width: 2; stroke-dasharray: 5 4; }
.k1 { color: var(--one); } .k2 { color: var(--two); } label { margin-right: 1rem; font-size: .875rem; }
tr.differs td:first-child { border-left: 3px solid var(--bad); padding-left: .5rem; }
body:has(#only:checked) tr.agrees { display: none; }
"""

Series = Sequence[tuple[float, float]]


def page(report: Any) -> str:
    """The whole page; it refers to no other file."""
    parts = [_head(report), _verdict(report), _charts(report), _values(report), _steps(report)]
    return (
        "<!doctype html>\n<html lang=en><meta charset=utf-8>"
        "<meta name=viewport content='width=device-width, initial-scale=1'>"
        f"<title>{_e(report.program)}</title><style>{_STYLE}</style>\n" + "\n".join(parts) + "\n</html>\n"
    )


def _e(x: Any) -> str:
    return html.escape(str(x))


def _head(report: Any) -> str:
    judged, reference = report.names
    lines = [
        f"<h1>{_e(report.program)}</h1>",
        f"<p><b class=k1>{_e(judged)}</b> beside <b class=k2>{_e(reference)}</b></p>",
    ]
    more = f"{report.compared} values compared"
    if report.unreadable:
        more += f"; {report.unreadable} inside of transforms were not read"
    return "\n".join([*lines, f"<p class=soft>{more}</p>"])


def _verdict(report: Any) -> str:
    notes = "".join(f"<p class=soft>{_e(n)}</p>" for n in report.notes)
    if report.parting is None:
        agree = "<b class=good>They agree.</b> Nothing is further apart than rounding explains."
        return f"<div class=card>{agree}{notes}</div>"
    rows = "".join(f"<dt>{_e(k)}<dd>{_e(t)}" for k, t in facts(report.parting))
    return f"<div class=card><b class=bad>{_e(headline(report.parting))}</b><dl>{rows}</dl>{notes}</div>"


def _charts(report: Any) -> str:
    points = [p for p in report.curve if p.loss is not None]
    if len(points) < 2:
        return ""
    numbered = list(enumerate(points, 1))
    losses = [[(i, p.loss[k]) for i, p in numbered if p.loss] for k in (0, 1)]
    apart = [[(i, p.apart) for i, p in numbered], [(i, p.moved) for i, p in numbered]]
    return (
        "<h2>Curves</h2><div class=charts>"
        + _figure(losses, False, "loss: <span class=k1>judged</span>, <span class=k2>reference</span> (dashed)")
        + _figure(
            apart,
            True,
            "relative distance: <span class=k1>of the two runs</span>, "
            "<span class=k2>of the reference from itself after a nudge by a rounding</span> (dashed)",
        )
        + "</div>"
    )


def _figure(series: Sequence[Series], logarithmic: bool, caption: str) -> str:
    width, height, left, right, top, bottom = 460, 250, 52, 10, 12, 28
    shown = [[(x, math.log10(max(y, 1e-12)) if logarithmic else y) for x, y in s if math.isfinite(y)] for s in series]
    every = [y for s in shown for _, y in s]
    if not every:
        return ""
    low, high = _limits(min(every), max(every), logarithmic)
    last = max(x for s in shown for x, _ in s)

    def at(x: float, y: float) -> tuple[float, float]:
        across = (x - 1) / max(last - 1, 1)
        return left + across * (width - left - right), top + (high - y) / (high - low) * (height - top - bottom)

    lines = _axis(low, high, logarithmic, at, width - right, left)
    lines += [f"<text x={at(x, low)[0]:.0f} y={height - 8} text-anchor={a}>{x}</text>" for x, a in _ends(last)]
    lines.append(f"<text x={(width + left) / 2:.0f} y={height - 8} text-anchor=middle>backward pass</text>")
    for s, kind in zip(shown, ("one", "two")):
        points = " ".join("{:.1f},{:.1f}".format(*at(x, y)) for x, y in s)
        lines.append(f"<polyline class={kind} points='{points}'/>")
    picture = f"<svg viewBox='0 0 {width} {height}' role=img>{''.join(lines)}</svg>"
    return f"<figure>{picture}<figcaption>{caption}</figcaption></figure>"


def _ends(last: float) -> list[tuple[int, str]]:
    return [(1, "start"), (int(last), "end")]


def _limits(low: float, high: float, logarithmic: bool) -> tuple[float, float]:
    if logarithmic:
        return math.floor(low), max(math.ceil(high), math.floor(low) + 1)
    margin = (high - low or abs(high) or 1.0) * 0.08
    return low - margin, high + margin


def _axis(
    low: float, high: float, logarithmic: bool, at: Callable[[float, float], tuple[float, float]], end: float, left: int
) -> list[str]:
    if logarithmic:
        ticks = [float(t) for t in range(int(low), int(high) + 1, math.ceil((high - low) / 6))]
    else:
        ticks = [low + (high - low) * i / 4 for i in range(5)]
    lines = []
    for value in ticks:
        y = at(1, value)[1]
        label = f"1e{value:.0f}" if logarithmic else f"{value:.3g}"
        lines.append(f"<line class=grid x1={left} x2={end} y1={y:.1f} y2={y:.1f} />")
        lines.append(f"<text x={left - 6} y={y + 4:.1f} text-anchor=end>{label}</text>")
    return lines


def _values(report: Any) -> str:
    if report.parting is None or not report.verdicts:
        return ""
    rows = "".join(map(_value, report.verdicts[:1000]))
    return (
        f"<h2>Everything of step {report.parting.step} until they part and in that event</h2>"
        "<p><label><input type=checkbox id=only> only what differs</label></p><div class=wide><table>"
        f"<tr><th>value<th>module<th>shape<th>reference<th>judged<th>times what is allowed</tr>{rows}</table></div>"
    )


def _value(v: Verdict) -> str:
    if v.other is None or v.remark.startswith("only "):
        excess = "only one has it"
    else:  # of exact values, such as counts, nothing is allowed
        excess = f"{v.excess:.2g}" if v.excess < 1e100 else "must be equal"
    cells = [title(v), v.entry.module, "x".join(map(str, v.entry.shape)) or "number"]
    numbers = ["" if x is None else number(x) for x in (v.want, v.got)]
    kind = "differs" if v.differs else "agrees"
    text = "".join(f"<td>{_e(c)}" for c in cells) + "".join(f"<td class=n>{_e(c)}" for c in [*numbers, excess])
    return f"<tr class={kind}>{text}</tr>"


def _steps(report: Any) -> str:
    rows = "".join(map(_step, [p for p in report.curve if p.loss is not None][:2000]))
    if not rows:
        return ""
    head = "<tr><th>step<th>event<th>loss, reference<th>loss, judged<th>apart<th>a rounding moves</tr>"
    return f"<h2>Steps</h2><div class=wide><table>{head}{rows}</table></div>"


def _step(p: Point) -> str:
    assert p.loss is not None
    cells = [p.step, p.kind, number(p.loss[1]), number(p.loss[0]), f"{p.apart:.1e}", f"{p.moved:.1e}"]
    return "<tr>" + "".join(f"<td class=n>{_e(c)}" for c in cells) + "</tr>"
