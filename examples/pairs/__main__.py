"""Run the pairs: `python examples/pairs [--steps 30] [--pictures docs/pairs] [NAME ...]`.

Each runs in torch, where that is installed, here eager, here compiled, and in JAX. The losses have to coincide.
"""

import argparse
import importlib
import importlib.util
import sys
from pathlib import Path

import numpy as np

import torchgrad_jax

NAMES = (
    "mlp",
    "cnn",
    "lstm",
    "transformer",
    "vae",
    "wgan_gp",
    "maml",
    "neural_ode",
    "pinn",
    "deep_equilibrium",
    "flow",
    "dp_sgd",
)
CLOSE = 1e-4


def curves(name, steps):
    """The losses of a pair by the way in which it ran."""
    pair = importlib.import_module(name)
    found = {"JAX": pair.in_jax(steps)}
    if importlib.util.find_spec("torch") is not None:
        found["torch"] = pair.in_torch(importlib.import_module("torch"), steps, lambda f: f)
    found["torchgrad_jax, eager"] = pair.in_torch(torchgrad_jax, steps, lambda f: f)
    found["torchgrad_jax, compiled"] = pair.in_torch(torchgrad_jax, steps, torchgrad_jax.compile)
    return found


def apart(found):
    """How far the losses are apart, relative to the largest of the curve."""
    every = np.array(list(found.values()))
    return float(np.ptp(every, axis=0).max() / np.abs(every).max())


def draw(name, found, folder):
    """The curves as a picture that is legible on light and on dark pages."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot as plt

    grey = "#808890"
    mpl.rcParams.update({"svg.hashsalt": name, "text.color": grey, "axes.labelcolor": grey, "font.size": 9})
    figure, axes = plt.subplots(figsize=(4.2, 3.0), layout="constrained")
    styles = {"JAX": ("#e8710a", 7, "-"), "torch": ("#1a9e77", 4.4, "-")}
    styles |= {"torchgrad_jax, eager": ("#4a90e2", 2, "-"), "torchgrad_jax, compiled": ("#c06bd6", 1.6, (0, (2, 3)))}
    for label, losses in found.items():
        color, width, dashes = styles[label]
        axes.plot(range(1, len(losses) + 1), losses, color=color, lw=width, ls=dashes, label=label)
    axes.set(xlabel="step", ylabel="loss", title=name)
    axes.tick_params(colors=grey)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(grey)
    every = np.array(list(found.values()))
    if every.min() > 0 and every.max() > 30 * every.min():
        axes.set_yscale("log")
    figure.legend(loc="outside lower center", ncols=2, frameon=False, labelcolor=grey, fontsize=8)
    Path(folder).mkdir(parents=True, exist_ok=True)
    figure.savefig(Path(folder) / f"{name}.svg", transparent=True, metadata={"Date": None})
    plt.close(figure)


def main():
    parser = argparse.ArgumentParser(description="Losses of the same programs in torch, here and in JAX.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--pictures", help="the folder for pictures (needs matplotlib)")
    args = parser.parse_args()
    unknown = set(args.names) - set(NAMES)
    if unknown:
        parser.error(f"no such pair: {', '.join(sorted(unknown))}")
    bad = []
    for name in args.names or NAMES:
        found = curves(name, args.steps)
        distance = apart(found)
        first, last = found["JAX"][0], found["JAX"][-1]
        print(
            f"{name:<17} {len(found)} ways: loss {first:.4f} to {last:.4f}, apart by {distance:.1e} at most", flush=True
        )
        bad += [name] if not distance < CLOSE else []
        if args.pictures:
            draw(name, found, args.pictures)
    if bad:
        print(f"apart by more than {CLOSE}: {', '.join(bad)}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
