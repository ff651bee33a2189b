"""Plans as one page of HTML: a bar for the memory of each target, and the figures side by side."""

from __future__ import annotations

import html
import itertools
from collections.abc import Iterator, Sequence

from .plan import Plan, rows, size

_STYLE = """
:root { color-scheme: light dark; --back: #ffffff; --fore: #1c2430; --soft: #5b6675; --line: #d8dde4; }
@media (prefers-color-scheme: dark) { :root { --back: #12161c; --fore: #e4e8ee; --soft: #9aa6b5; --line: #313a46; } }
body { margin: 0 auto; max-width: 62rem; padding: 1.5rem 1rem 4rem; background: var(--back); color: var(--fore);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.35rem; margin: 0; overflow-wrap: anywhere; } h2 { font-size: 1.05rem; margin: 2rem 0 .5rem; }
.soft { color: var(--soft); } .wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .875rem; }
th, td { text-align: left; padding: .3rem .9rem .3rem 0; border-bottom: 1px solid var(--line); white-space: pre; }
th { color: var(--soft); font-weight: 600; }
svg { width: 100%; height: auto; display: block; } svg text { fill: var(--fore); }
"""
_COLOURS = ("#0b62c4", "#c2540a", "#1b7f3b", "#7a3fb0", "#b3261e", "#0f8a8a", "#8a6d00", "#5b6675")
_WIDTH, _NAME, _BAR, _STEP, _KEY = 900, 110, 26, 58, 150
_GREY = "#808890"
"""Legible on light and on dark pages."""
_SHOWN = 30


def page(script: str, plans: Sequence[Plan]) -> str:
    """The page for a script."""
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>Plan of {html.escape(script)}</title><style>{_STYLE}</style>"
        f"<h1>Plan of {html.escape(script)}</h1>"
        "<p class=soft>What its compiled step needs on each device, as the compilers for this hardware say.</p>"
        f"<h2>Memory of one device</h2>{picture(plans)}"
        f"<h2>Figures</h2><div class=wide><table>{''.join(_table(plans))}</table></div>"
        f"{''.join(_lists(plans))}</html>\n"
    )


def picture(plans: Sequence[Plan]) -> str:
    """A bar for each target, in a frame that is the memory of its chip: a picture of its own, or a part of a page."""
    most = max(max(plan.total, plan.memory_of_chip) for plan in plans)
    scale = (_WIDTH - _NAME - 10) / most
    kinds = list(dict.fromkeys(what for plan in plans for what in plan.memory))
    seen = [what for what in kinds if max(plan.memory.get(what, 0) for plan in plans) * scale >= 1]
    colours = dict.fromkeys(kinds, _GREY) | dict(zip(seen, itertools.cycle(_COLOURS)))
    marks = [mark for i, plan in enumerate(plans) for mark in _bar(plan, i * _STEP + 6, scale, colours)]
    top, columns = len(plans) * _STEP + 4, (_WIDTH - _NAME) // _KEY
    for i, what in enumerate(seen):
        x, y = _NAME + i % columns * _KEY, top + i // columns * 20
        marks.append(f'<rect x="{x}" y="{y}" width="11" height="11" fill="{colours[what]}"/>')
        marks.append(f'<text x="{x + 16}" y="{y + 10}">{html.escape(what)}</text>')
    height = top + -(-len(seen) // columns) * 20
    said = html.escape("; ".join(f"{plan.target}: {_said(plan)}" for plan in plans))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" fill="{_GREY}" '
        f'font-family="system-ui, sans-serif" font-size="13"><title>{said}</title>{"".join(marks)}</svg>'
    )


def _said(plan: Plan) -> str:
    return f"{size(plan.total)} of {size(plan.memory_of_chip)}" + ("" if plan.fits else ": it does not fit")


def _bar(plan: Plan, top: int, scale: float, colours: dict[str, str]) -> Iterator[str]:
    yield f'<text x="0" y="{top + 18}">{html.escape(plan.target)}</text>'
    left = float(_NAME)
    for what, n in plan.memory.items():
        title = f"<title>{html.escape(what)}: {size(n)}</title>"
        place = f'x="{left:.1f}" y="{top}" width="{n * scale:.2f}" height="{_BAR}"'
        yield f'<rect {place} fill="{colours[what]}">{title}</rect>'
        left += n * scale
    whole = f'width="{plan.memory_of_chip * scale:.1f}" height="{_BAR}"'
    yield f'<rect x="{_NAME}" y="{top}" {whole} fill="none" stroke="{_GREY}"/>'
    yield f'<text x="{_NAME}" y="{top + _BAR + 14}" font-size="11">{_said(plan)}</text>'


def _table(plans: Sequence[Plan]) -> Iterator[str]:
    yield "<tr><th></th>" + "".join(f"<th>{html.escape(plan.target)}</th>" for plan in plans) + "</tr>"
    for name, texts in rows(plans):
        yield f"<tr><th>{html.escape(name)}</th>" + "".join(f"<td>{html.escape(t)}</td>" for t in texts) + "</tr>"


def _lists(plans: Sequence[Plan]) -> Iterator[str]:
    for plan in plans:
        if plan.held:
            yield f"<h2>Held where {html.escape(plan.target)} is fullest, on all devices together</h2>"
            yield "<div class=wide><table><tr><th>bytes</th><th>values</th><th>line</th></tr>"
            for h in plan.held[:_SHOWN]:
                yield f"<tr><td>{size(h.bytes)}</td><td>{h.times}</td><td>{html.escape(h.line)}</td></tr>"
            yield "</table></div>"
        if plan.exchanges:
            yield f"<h2>Exchanges on {html.escape(plan.target)}</h2><div class=wide><table>"
            yield "<tr><th>kind</th><th>times</th><th>result on each device</th><th>bytes, all together</th></tr>"
            for e in plan.exchanges:
                yield f"<tr><td>{e.kind}</td><td>{e.times}</td><td>{html.escape(e.shape)}</td>"
                yield f"<td>{size(e.bytes)}</td></tr>"
            yield "</table></div>"
        if plan.emulated:
            yield f"<h2>64-bit arithmetic that {html.escape(plan.chip)} emulates</h2><div class=wide><table>"
            yield "<tr><th>operator</th><th>dtype</th><th>times</th><th>elements</th><th>line</th></tr>"
            for w in plan.emulated:
                yield f"<tr><td>{w.operator}</td><td>{w.dtype}</td><td>{w.times}</td><td>{w.elements}</td>"
                yield f"<td>{html.escape(w.line)}</td></tr>"
            yield "</table></div>"
