"""The ratios as an SVG bar chart, without any plotting library."""

from __future__ import annotations

from html import escape
from typing import Any


def bars(rows: list[dict[str, Any]]) -> str:
    """Horizontal bars; a tick marks each target, a line marks torch's own time."""
    rows = [r for r in rows if r["ratio"] is not None]
    height, left, width = 34, 300, 360
    top = max([*[r["ratio"] for r in rows], *[r["target"] or 0 for r in rows]]) * 1.1
    scale = width / top
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 70}" height="{height * len(rows) + 40}" '
        'font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for i, r in enumerate(rows):
        y = 14 + i * height
        met = r["target"] is None or r["ratio"] <= r["target"]
        colour = "#2a7f62" if met else "#b3412c"
        out.append(
            f'<text x="{left - 8}" y="{y + 14}" text-anchor="end">{escape(r["name"])}</text>'
        )
        out.append(
            f'<rect x="{left}" y="{y}" width="{r["ratio"] * scale:.1f}" height="18" fill="{colour}"/>'
        )
        if r["target"] is not None:
            at = left + r["target"] * scale
            out.append(
                f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{y - 3}" y2="{y + 21}" stroke="black" stroke-width="2"/>'
            )
        out.append(
            f'<text x="{left + r["ratio"] * scale + 6:.1f}" y="{y + 14}">{r["ratio"]:.2f}x</text>'
        )
    one = left + scale
    out.append(
        f'<line x1="{one:.1f}" x2="{one:.1f}" y1="6" y2="{14 + height * len(rows)}" '
        'stroke="#888" stroke-dasharray="4 3"/>'
    )
    out.append(
        f'<text x="{one:.1f}" y="{30 + height * len(rows)}" text-anchor="middle" fill="#555">torch = 1</text>'
    )
    out.append("</svg>")
    return "\n".join(out) + "\n"
