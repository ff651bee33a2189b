"""``python -m benchmarks.gallery``: run the scripts of examples/ under torch and here, draw their losses, time them.

The curves go to docs/gallery/NAME.svg, the CPU seconds of both to docs/gallery/measured.json, from which the site makes
its gallery. ``python -m benchmarks.gallery flow maml`` does so for some. It needs matplotlib (the extra `pictures`).
"""

import datetime
import json
import os
import re
import resource
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "gallery"
GREY = "#808890"
# Arguments with which a script prints each step, and the word before the number that is drawn.
SCRIPTS = {
    "dcgan": ("--print-every 1", "critic"),
    "diffusion": ("--print-every 2", "loss"),
    "flow": ("--print-every 2", "nats"),
    "gpt2": ("--print-every 1", "loss"),
    "graph_attention": ("--print-every 1", "loss"),
    "laplace": ("--steps 60 --print-every 1", "loss"),
    "maml": ("--print-every 1", "loss after adapting"),
    "neural_ode": ("--print-every 1", "loss"),
    "per_sample_gradients": ("--print-every 1", "loss"),
    "pinn": ("--print-every 1", "residual"),
    "reinforce": ("--print-every 1", "average"),
    "word_language_model": ("--epochs 8", "loss"),
}
STEP = re.compile(r"^(step|epoch|round|episode) (\d+)\b")


def run(name: str, arguments: str, start: list[str]) -> tuple[str, float]:
    """What a script prints, and the CPU seconds of its process."""
    before = _spent()
    command = [sys.executable, *start, str(ROOT / "examples" / f"{name}.py"), *arguments.split()]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=env, cwd=ROOT)
    return done.stdout, _spent() - before


def _spent() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def curve(printed: str, word: str) -> tuple[list[int], list[float]]:
    """Steps, and the number behind a word in each line of a step."""
    steps, values = [], []
    for line in printed.splitlines():
        step, value = STEP.match(line), re.search(rf"\b{word} (-?[\d.]+)", line)
        if step and value:
            steps.append(int(step[2]))
            values.append(float(value[1]))
    return steps, values


def draw(name: str, word: str, curves: dict[str, tuple[list[int], list[float]]]) -> None:
    """Both curves as a picture that is legible on light and on dark pages."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot as plt

    mpl.rcParams.update({"svg.hashsalt": name, "text.color": GREY, "axes.labelcolor": GREY, "font.size": 9})
    figure, axes = plt.subplots(figsize=(4.2, 2.8), layout="constrained")
    for (label, (steps, values)), (color, width) in zip(curves.items(), (("#1a9e77", 4.4), ("#4a90e2", 1.6))):
        axes.plot(steps, values, color=color, lw=width, label=label)
    every = [v for _, values in curves.values() for v in values]
    if min(every) > 0 and max(every) > 30 * min(every):
        axes.set_yscale("log")
    axes.set(xlabel="step", ylabel=word)
    axes.tick_params(colors=GREY, which="both")
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(GREY)
    figure.legend(loc="outside lower center", ncols=2, frameon=False, labelcolor=GREY, fontsize=8)
    figure.savefig(FOLDER / f"{name}.svg", transparent=True, metadata={"Date": None})
    plt.close(figure)


def measure(name: str) -> dict[str, float]:
    """Draw a script's curves; its CPU seconds under torch, and here when its kernels are known."""
    arguments, word = SCRIPTS[name]
    run(name, arguments, ["-m", "torchgrad_jax"])
    here, ours = run(name, arguments, ["-m", "torchgrad_jax"])
    there, theirs = run(name, arguments, [])
    draw(name, word, {"torch": curve(there, word), "torchgrad_jax": curve(here, word)})
    print(f"{name:<22} torch {theirs:5.1f} s, torchgrad_jax {ours:5.1f} s", flush=True)
    return {"torch": round(theirs, 1), "here": round(ours, 1)}


def main() -> int:
    names = sys.argv[1:] or list(SCRIPTS)
    FOLDER.mkdir(exist_ok=True)
    file = FOLDER / "measured.json"
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {"programs": {}}
    found["programs"] |= {f"{name}.py": measure(name) for name in names}
    versions = f"jax {metadata.version('jax')}, torch {metadata.version('torch')}"
    busy = ", while other work ran" if os.getloadavg()[0] > 1.5 else ""
    found["on"] = f"{datetime.date.today()}, {os.cpu_count()} CPU cores, torch on one, {versions}{busy}"
    file.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
