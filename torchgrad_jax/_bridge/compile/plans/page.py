"""Plans as one page of HTML: a bar for the memory of each target, and the figures side by side."""

from __future__ import annotations

import html
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
svg { width: 100%; height: auto; display: block; } svg text { fill: var(--fore); font: 13px system-ui, sans-serif; }
svg .frame { fill: none; stroke: var(--soft); } svg .small { fill: var(--soft); font-size: 11px; }
.keys span { margin-right: 1.1rem; white-space: nowrap; font-size: .875rem; }
.keys i { display: inline-block; width: .8em; height: .8em; margin-right: .35em; border-radius: 2px; }
"""
_COLOURS = ("#0b62c4", "#c2540a", "#1b7f3b", "#7a3fb0", "#b3261e", "#0f8a8a", "#8a6d00", "#5b6675")
_WIDTH, _NAME, _BAR, _STEP = 900, 110, 26, 58
_SHOWN = 30


def page(script: str, plans: Sequence[Plan]) -> str:
    """The page for a script."""
    kinds = list(dict.fromkeys(what for plan in plans for what in plan.memory))
    colours = {what: _COLOURS[i % len(_COLOURS)] for i, what in enumerate(kinds)}
    keys = "".join(f"<span><i style='background:{c}'></i>{html.escape(what)}</span>" for what, c in colours.items())
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>Plan of {html.escape(script)}</title><style>{_STYLE}</style>"
        f"<h1>Plan of {html.escape(script)}</h1>"
        "<p class=soft>What its compiled step needs on each device, as the compilers for this hardware say.</p>"
        f"<h2>Memory of one device</h2>{_picture(plans, colours)}<p class=keys>{keys}</p>"
        f"<h2>Figures</h2><div class=wide><table>{''.join(_table(plans))}</table></div>"
        f"{''.join(_lists(plans))}</html>\n"
    )


def _picture(plans: Sequence[Plan], colours: dict[str, str]) -> str:
    """A bar for each target; the frame is the memory that its chip has."""
    most = max(max(plan.total, plan.memory_of_chip) for plan in plans)
    scale = (_WIDTH - _NAME - 10) / most
    marks = []
    for i, plan in enumerate(plans):
        top, left = i * _STEP + 6, float(_NAME)
        marks.append(f"<text x=0 y={top + 18}>{html.escape(plan.target)}</text>")
        for what, n in plan.memory.items():
            width = n * scale
            title = f"<title>{html.escape(what)}: {size(n)}</title>"
            marks.append(
                f"<rect x={left:.1f} y={top} width={width:.2f} height={_BAR} fill='{colours[what]}'>{title}</rect>"
            )
            left += width
        whole = plan.memory_of_chip * scale
        marks.append(f"<rect class=frame x={_NAME} y={top} width={whole:.1f} height={_BAR} />")
        said = f"{size(plan.total)} of {size(plan.memory_of_chip)}" + ("" if plan.fits else ": it does not fit")
        marks.append(f"<text class=small x={_NAME} y={top + _BAR + 14}>{said}</text>")
    return f"<svg viewBox='0 0 {_WIDTH} {len(plans) * _STEP}' role=img>{''.join(marks)}</svg>"


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
