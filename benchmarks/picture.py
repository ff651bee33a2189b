"""The ratios of the first table as a picture that is legible on light and on dark pages; needs matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import Any

GREY, MET, MISSED = "#808890", "#1a9e77", "#d1553f"


def write(rows: list[dict[str, Any]], file: Path) -> None:
    """Draw a point for each ratio and a mark for what it may be at most. The scale is logarithmic: 0.02 and 6 both fit.

    Args:
        rows: as `python -m benchmarks` measures them; those without a ratio to torch are left out.
        file: the SVG file to write.
    """
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot as plt

    mpl.rcParams.update({"svg.hashsalt": "benchmarks", "text.color": GREY, "font.size": 9})
    rows = [r for r in rows if r["ratio"] is not None][::-1]
    figure, axes = plt.subplots(figsize=(8.2, 0.27 * len(rows) + 0.8), layout="constrained")
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
    axes.axvline(1, color=GREY, lw=1, ls="--")
    axes.set_xscale("log")
    ticks = [0.02, 0.1, 0.3, 1, 3, 10]
    axes.set_xticks(ticks, [f"{t:g}x" for t in ticks])
    axes.minorticks_off()
    axes.set_yticks(range(len(rows)), [r["name"] for r in rows])
    axes.set(ylim=(-0.7, len(rows) - 0.3))
    label = "time (or memory) divided by torch's; | is what it may be at most"
    axes.set_xlabel(label, color=GREY, loc="right")
    axes.tick_params(colors=GREY, length=0)
    axes.spines[:].set_visible(False)
    figure.savefig(file, transparent=True, metadata={"Date": None})
    plt.close(figure)
