"""A picture of a recorded graph: nodes, what they saved, leaves; as SVG or as DOT text.

A tool for people: in a notebook `loss.grad_fn` is shown as this picture. The engine does not use it otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

from .node import AccumulateGrad, Node
from .saved_attributes import saved_map

_WIDTH, _HEIGHT, _ACROSS, _DOWN = 150, 40, 24, 34


@dataclass(frozen=True)
class Box:
    """A node of the picture: its title, a line below it, and whether it is a leaf."""

    title: str
    below: str
    leaf: bool


@dataclass(frozen=True)
class Picture:
    """Boxes in order of execution; edges by their positions, with the output number they lead to."""

    boxes: tuple[Box, ...]
    edges: tuple[tuple[int, int, int], ...]


def picture(*roots: Any) -> Picture:
    """Return what leads from the roots (tensors or nodes) to their leaves."""
    order: dict[Node, None] = {}
    stack = [root if isinstance(root, Node) else root.grad_fn for root in roots]
    stack = [node for node in stack if node is not None]
    while stack:
        node = stack.pop()
        if node not in order:
            order[node] = None
            stack.extend(e[0] for e in node.edges if e is not None)
    nodes = sorted(order, key=lambda n: (isinstance(n, AccumulateGrad), -n.seq))
    at = {n: i for i, n in enumerate(nodes)}
    edges = [(at[n], at[e[0]], e[1]) for n in nodes for e in n.edges if e is not None]
    return Picture(tuple(_box(n) for n in nodes), tuple(edges))


def _box(node: Node) -> Box:
    if isinstance(node, AccumulateGrad):
        leaf = node.variable
        return Box(f"leaf {list(leaf._m.shape)}", leaf._m.dtype.name, True)
    if node.gp is None:
        return Box(type(node).__name__, "", False)
    kept = "freed" if node.saved is None else ", ".join(saved_map(node.gp))
    return Box(type(node).__name__, f"saved: {kept}" if kept else "", False)


def dot(*roots: Any) -> str:
    """The graph in Graphviz's language."""
    shown = picture(*roots)
    lines = ["digraph {", "  rankdir=TB;", '  node [shape=box, fontname="sans-serif"];']
    for i, box in enumerate(shown.boxes):
        label = "\\n".join(part for part in (box.title, box.below) if part)
        lines.append(f'  n{i} [label="{label}"{", style=rounded" if box.leaf else ""}];')
    for a, b, nr in shown.edges:
        lines.append(f"  n{a} -> n{b}" + (f' [label="{nr}"]' if nr else "") + ";")
    return "\n".join([*lines, "}"]) + "\n"


def _rows(shown: Picture) -> list[int]:
    """A row per box, below everything that leads to it; leaves share the last."""
    row = [0] * len(shown.boxes)
    for a, b, _ in sorted(shown.edges):  # sources come before their targets in order of execution
        row[b] = max(row[b], row[a] + 1)
    last = max((r for r, b in zip(row, shown.boxes) if not b.leaf), default=-1) + 1
    return [last if b.leaf else r for r, b in zip(row, shown.boxes)]


def _contents(shown: Picture, rows: list[int]) -> list[list[Any]]:
    """Return what stands in each row, from left to right: boxes, by number, and lanes for edges that pass the row.

    A lane, (edge, row), is on the side of the box that the edge leads to, so that no edge runs behind a box.
    """
    contents: list[list[Any]] = [[] for _ in range(max(rows, default=-1) + 1)]
    for i, r in enumerate(rows):
        contents[r].append(i)
    boxes = [list(row) for row in contents]
    for k, (a, b, _) in enumerate(shown.edges):
        beside = boxes[rows[b]]
        left = 2 * beside.index(b) < len(beside) - 1
        for r in range(rows[a] + 1, rows[b]):
            contents[r].insert(0 if left else len(contents[r]), (k, r))
    return contents


def _width(row: list[Any]) -> int:
    """The width of a row's boxes and lanes, with a gap after each."""
    return sum((_WIDTH if isinstance(item, int) else 0) + _ACROSS for item in row)


def _through(x: float, y: float, lanes: list[tuple[float, float]], x2: float, y2: float) -> str:
    """The path of an edge: down through its lanes to where it leads."""
    steps = []
    for lane, top in lanes:
        steps.append(f"C{x:g} {y + 20:g} {lane:g} {top - 20:g} {lane:g} {top:g}V{top + _HEIGHT:g}")
        x, y = lane, top + _HEIGHT
    return "".join([*steps, f"C{x:g} {y + 20:g} {x2:g} {y2 - 20:g} {x2:g} {y2:g}"])


def svg(*roots: Any) -> str:
    """The graph as an SVG picture, gradients flowing downwards."""
    shown = picture(*roots)
    rows = _rows(shown)
    contents = _contents(shown, rows)
    width = max(map(_width, contents), default=_WIDTH + _ACROSS) + _ACROSS
    height = len(contents) * (_HEIGHT + _DOWN) + _DOWN
    places: dict[Any, tuple[float, float]] = {}
    for r, row in enumerate(contents):
        x = (width - _width(row) + _ACROSS) / 2
        for item in row:
            places[item] = (x, _DOWN / 2 + r * (_HEIGHT + _DOWN))
            x += _width([item])
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" '
        'text-anchor="middle">',
        '<defs><marker id="a" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#777"/></marker></defs>',
    ]
    for k, (a, b, nr) in enumerate(shown.edges):
        lanes = [places[k, r] for r in range(rows[a] + 1, rows[b])]
        (x1, y1), (x2, y2) = places[a], places[b]
        x1, y1, x2 = x1 + _WIDTH / 2, y1 + _HEIGHT, x2 + _WIDTH / 2
        out.append(
            f'<path d="M{x1:g} {y1:g}{_through(x1, y1, lanes, x2, y2)}" fill="none" stroke="#777" '
            'marker-end="url(#a)"/>'
        )
        if nr:
            out.append(f'<text x="{(x1 + x2) / 2:g}" y="{(y1 + y2) / 2:g}" font-size="10" fill="#777">{nr}</text>')
    for i, box in enumerate(shown.boxes):
        x, y = places[i]
        fill, round_ = ("#e3f1e3", _HEIGHT / 2) if box.leaf else ("#eaf0fa", 4)
        middle = x + _WIDTH / 2
        out.append(
            f'<rect x="{x:g}" y="{y:g}" width="{_WIDTH}" height="{_HEIGHT}" rx="{round_:g}" '
            f'fill="{fill}" stroke="#555"/>'
        )
        first = y + (17 if box.below else 25)
        out.append(f'<text x="{middle:g}" y="{first:g}" font-size="12">{escape(box.title)}</text>')
        if box.below:
            out.append(f'<text x="{middle:g}" y="{y + 32:g}" font-size="10" fill="#555">{escape(box.below)}</text>')
    return "\n".join([*out, "</svg>"]) + "\n"


Node._repr_html_ = svg  # which a notebook shows
