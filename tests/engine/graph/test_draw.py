"""The picture of a graph shows its nodes, what they saved, and how they hang together."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

import torchgrad_jax as tg
from torchgrad_jax._engine.graph import draw

DOCS = Path(__file__).parents[3] / "docs"


def example():
    """The graph that the documentation shows."""
    x = tg.tensor([[0.5, -1.0, 2.0]], requires_grad=True)
    w = tg.ones(3, 2, requires_grad=True)
    b = tg.zeros(2, requires_grad=True)
    return ((x @ w + b).tanh() * 2).sum()


def test_boxes_and_edges():
    shown = draw.picture(example())
    assert [b.title for b in shown.boxes if not b.leaf] == [
        "SumBackward0",
        "MulBackward0",
        "TanhBackward0",
        "AddBackward0",
        "MmBackward0",
    ]
    assert [b.below for b in shown.boxes if not b.leaf] == [
        "",
        "saved: other",
        "saved: result",
        "",
        "saved: mat2, self",
    ]
    assert sorted(b.title for b in shown.boxes if b.leaf) == ["leaf [1, 3]", "leaf [2]", "leaf [3, 2]"]
    assert len(shown.edges) == 7
    assert {(shown.boxes[a].title, shown.boxes[b].title) for a, b, _ in shown.edges if not shown.boxes[b].leaf} == {
        ("SumBackward0", "MulBackward0"),
        ("MulBackward0", "TanhBackward0"),
        ("TanhBackward0", "AddBackward0"),
        ("AddBackward0", "MmBackward0"),
    }


def test_freed_graphs_and_output_numbers():
    x = tg.ones(2, 2, requires_grad=True)
    a, b = x.exp().unbind(0)
    out = (a * b).sum()
    assert (1, 2, 1) in draw.picture(out).edges
    out.backward()
    below = {box.title: box.below for box in draw.picture(out).boxes}
    assert below["MulBackward0"] == below["ExpBackward0"] == "saved: freed"


def test_no_graph_is_an_empty_picture():
    assert draw.picture(tg.ones(2)) == draw.Picture((), ())
    ET.fromstring(draw.svg(tg.ones(2)))


def test_svg_draws_every_box_and_edge():
    root = ET.fromstring(draw.svg(example()))
    space = "{http://www.w3.org/2000/svg}"
    texts = [t.text for t in root.iter(f"{space}text")]
    assert texts.count("MmBackward0") == 1
    assert "saved: result" in texts
    assert len([p for p in root.iter(f"{space}path") if p.get("marker-end")]) == 7
    assert len(list(root.iter(f"{space}rect"))) == 8


def points(path):
    """Points along a path of curves and vertical lines."""
    x = y = 0.0
    for command, text in re.findall(r"([MCV])([^MCV]*)", path):
        numbers = [float(n) for n in text.split()]
        if command == "M":
            x, y = numbers
            continue
        x1, y1, x2, y2, x3, y3 = numbers if command == "C" else [x, y, x, numbers[0], x, numbers[0]]
        for t in (k / 20 for k in range(1, 20)):
            a, b, c, d = (1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3
            yield a * x + b * x1 + c * x2 + d * x3, a * y + b * y1 + c * y2 + d * y3
        x, y = x3, y3


def skipping_edges():
    """Leaves that are read at many depths, and a node that is."""
    x, w = tg.ones(2, requires_grad=True), tg.ones(2, requires_grad=True)
    y = first = x.exp()
    for _ in range(3):
        y = (y * w).sin() + first
    return (y * x).sum()


@pytest.mark.parametrize("graph", [example, skipping_edges])
def test_no_edge_runs_behind_a_box(graph):
    root = ET.fromstring(draw.svg(graph()))
    space = "{http://www.w3.org/2000/svg}"
    boxes = [
        [float(r.attrib[k]) for k in ("x", "y", "width", "height")] for r in root.iter(f"{space}rect") if r.get("x")
    ]
    paths = [p.attrib["d"] for p in root.iter(f"{space}path") if p.get("marker-end")]
    assert len(paths) >= 7
    for path in paths:
        for x, y in points(path):
            assert not any(bx < x < bx + w and by < y < by + h for bx, by, w, h in boxes), path


def test_dot_names_every_box_and_edge():
    text = draw.dot(example())
    assert text.startswith("digraph {")
    assert len(re.findall(r"n\d+ -> n\d+", text)) == 7
    assert text.count("label=") == 8
    assert text.count("style=rounded") == 3


def test_deep_graphs_are_drawn_without_recursion():
    y = tg.ones(1, requires_grad=True)
    for _ in range(3000):
        y = y * 1.0
    assert len(draw.picture(y).boxes) == 3001


def test_the_documentation_shows_the_current_picture():
    assert (DOCS / "graph.svg").read_text(encoding="utf-8") == draw.svg(example())
