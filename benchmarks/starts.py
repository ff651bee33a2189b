"""How long the first training steps of published models take in a new process.

``python -m benchmarks starts`` prints the CPU seconds of the first four steps: PyTorch's, ours with an empty folder of
kernels and traces, and ours in the next process, which finds them there.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from .models.main import ROOT, mean, names
from .models.one import started

STEPS = 4
MODELS = (
    "timm vit_tiny", "timm resnet18", "timm efficientnet", "transformers llama", "transformers bert", "transformers t5",
    "transformers mixtral", "transformers whisper", "transformers wav2vec2", "transformers swin",
)  # fmt: skip
"""What is measured without a name: language, speech and images."""


def one(name: str, *sites: str) -> None:
    """Run the first steps of a model, whose packages are installed in `sites`, and print the CPU seconds they take."""
    _, batch, step = started(name, sites)
    began = time.process_time()
    for _ in range(STEPS):
        loss = step(batch)
    print(json.dumps({"loss": loss.item(), "seconds": time.process_time() - began}))


def measured(name: str, site: Path, folder: str | None) -> float:
    """The seconds of a model in a process of its own, with this folder of kernels; PyTorch's without one."""
    alias = [] if folder is None else ["-m", "torchgrad_jax"]
    sites = [str(site.resolve()), *([] if folder is None else [str((site / "apart").resolve())])]
    env = {k: v for k, v in os.environ.items() if not k.startswith("JAX_")}
    env |= {"PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    if folder is not None:
        env["TORCHGRAD_JAX_CACHE"] = folder
    command = [sys.executable, "-W", "ignore", *alias, "-m", "benchmarks.starts", name, *sites]
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=True)
    return float(json.loads(done.stdout.strip().splitlines()[-1])["seconds"])


def main(arguments: list[str]) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks starts", description=__doc__)
    parser.add_argument("--name", action="append", default=[], help="a part of the names of the models")
    parser.add_argument("--site", type=Path, default=ROOT / "build" / "packages", help="where the packages are")
    args = parser.parse_args(arguments)
    wanted = [n for n in names() if any(part in n for part in args.name)] if args.name else MODELS
    print("| model | torch, s | first process, s | second, s | second to torch |\n| --- | --- | --- | --- | --- |")
    ratios = []
    for name in wanted:
        with tempfile.TemporaryDirectory() as folder:
            theirs, first, second = (measured(name, args.site, f) for f in (None, folder, folder))
        ratios.append((second / theirs, second / first))
        print(f"| {name} | {theirs:.2f} | {first:.2f} | {second:.2f} | {second / theirs:.1f}x |", flush=True)
    over_torch, over_first = (mean(column) for column in zip(*ratios))
    print(f"| geometric mean of {len(ratios)} | | | {over_first:.2f} of the first | **{over_torch:.1f}x** |")
    return 0


if __name__ == "__main__":
    one(*sys.argv[1:])
