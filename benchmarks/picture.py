"""Ratios as pictures that are legible on light and on dark pages; needs matplotlib."""

from __future__ import annotations

import math
import textwrap
from pathlib import Path
from typing import Any

GREY, MET, MISSED = "#808890", "#1a9e77", "#d1553f"


def write(rows: list[dict[str, Any]], file: Path) -> None:
    """Draw a point for each ratio and a mark for what it may be at most. The scale is logarithmic: 0.02 and 6 both fit.

    Args:
        rows: as `python -m benchmarks` measures them; those without a ratio to torch are left out.
        file: the SVG file to write.
    """
    rows = [r for r in rows if r["ratio"] is not None][::-1]
    figure, axes = _empty(0.3 * len(rows) + 0.8)
    for y, row in enumerate(rows):
        met = row["target"] is None or row["ratio"] <= row["target"]
        color = MET if met else MISSED
        axes.plot([1, row["ratio"]], [y, y], color=color, lw=5, solid_capstyle="butt")
        axes.plot(row["ratio"], y, "o", color=color, ms=6)
        if row["target"] is not None:
            axes.plot(row["target"], y, "|", color=GREY, ms=12, mew=2)
        # Numbers stand in a column of their own, where no mark is.
        beside = axes.get_yaxis_transform()
        axes.text(1.01, y, f"{row['ratio']:.2f}", transform=beside, va="center", color=color)
    axes.set_yticks(range(len(rows)), [_label(r["name"]) for r in rows])
    axes.set(ylim=(-0.7, len(rows) - 0.3))
    _save(figure, file, "time (or memory) divided by torch's; | is what it may be at most", [0.02, 0.1, 0.3, 1, 3, 10])


def operators(rows: list[dict[str, Any]], file: Path) -> None:
    """Draw a point for each operator and a mark for the geometric mean, in a band for each size and direction.

    Args:
        rows: as `python -m benchmarks operators` measures them.
        file: the SVG file to write.
    """
    bands: dict[str, list[float]] = {}
    for row in rows:
        bands.setdefault(f"{row['size']}, {row['direction']}", []).append(row["ratio"])
    figure, axes = _empty(0.75 * len(bands) + 0.8)
    for y, ratios in enumerate(reversed(bands.values())):
        ordered = sorted(ratios)
        heights = [y - 0.35 + 0.7 * k / len(ordered) for k in range(len(ordered))]
        axes.scatter(ordered, heights, s=7, c=[MET if r <= 2 else MISSED for r in ordered], linewidths=0)
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        axes.plot(mean, y, "|", color=GREY, ms=30, mew=2)
        axes.text(1.01, y, f"{mean:.2f}", transform=axes.get_yaxis_transform(), va="center", color=GREY)
    axes.set_yticks(range(len(bands)), list(bands)[::-1])
    axes.set(ylim=(-0.6, len(bands) - 0.4))
    label = "time divided by torch's, a point for each operator; | and the number are the geometric mean"
    _save(figure, file, label, [0.03, 0.1, 0.25, 0.5, 1, 2, 4, 10, 30])


def models(ratios: dict[str, float], file: Path) -> None:
    """Draw a bar for each model and a line at the geometric mean.

    Args:
        ratios: the time of a training step divided by torch's, by the model's name, as `python -m benchmarks models`
            measures it.
        file: the SVG file to write.
    """
    ordered = sorted(ratios.items(), key=lambda item: item[1])
    figure, axes = _empty(0.3 * len(ordered) + 0.8)
    for y, (_, ratio) in enumerate(ordered):
        axes.plot([1, ratio], [y, y], color=MET if ratio <= 2 else MISSED, lw=5, solid_capstyle="butt")
        axes.text(1.01, y, f"{ratio:.2f}", transform=axes.get_yaxis_transform(), va="center", color=GREY)
    axes.axvline(math.exp(sum(map(math.log, ratios.values())) / len(ratios)), color=GREY, lw=2)
    axes.set_yticks(range(len(ordered)), [_label(name) for name, _ in ordered])
    axes.set(ylim=(-0.7, len(ordered) - 0.3))
    _save(
        figure,
        file,
        "time of an eager training step divided by torch's; the line is the geometric mean",
        [0.5, 1, 2, 4],
    )


def _label(name: str) -> str:
    """A name in lines so short that on a narrow screen the points beside it are seen, too."""
    return textwrap.fill(name, 34)


def _empty(height: float) -> tuple[Any, Any]:
    """A figure with a logarithmic scale of ratios, and a line where they are 1."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot as plt

    mpl.rcParams.update({"svg.hashsalt": "benchmarks", "text.color": GREY, "font.size": 9})
    figure, axes = plt.subplots(figsize=(6.4, height), layout="constrained")
    axes.axvline(1, color=GREY, lw=1, ls="--")
    axes.set_xscale("log")
    axes.tick_params(colors=GREY, length=0)
    axes.spines[:].set_visible(False)
    return figure, axes


def _save(figure: Any, file: Path, label: str, ticks: list[float]) -> None:
    from matplotlib import pyplot as plt

    axes = figure.axes[0]
    axes.set_xticks(ticks, [f"{t:g}x" for t in ticks])  # after the points: the scale has to show all of these
    axes.minorticks_off()
    axes.set_xlabel(label, color=GREY, loc="right")
    figure.savefig(file, transparent=True, metadata={"Date": None})
    plt.close(figure)
