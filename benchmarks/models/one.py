"""Times eager training steps of one published model, in this process: under torch, or under torchgrad_jax's alias."""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

WARM = 25
"""Steps before the first one that counts: kernels are made, and passes are compiled."""
ROUNDS, SECONDS = 7, 0.15


def best(step: Callable[[], Any]) -> float:
    """The CPU seconds of a step, in the best of some rounds."""
    began = time.process_time()
    step()
    count = max(1, int(SECONDS / max(time.process_time() - began, 1e-6)))
    found = []
    for _ in range(ROUNDS):
        began = time.process_time()
        for _ in range(count):
            step()
        found.append((time.process_time() - began) / count)
    return min(found)


def started(name: str, sites: Sequence[str]) -> tuple[Any, Any, Callable[..., Any]]:
    """Return a model's training, a batch, and an eager step.

    Args:
        name: the model.
        sites: where packages are installed.
    """
    sys.path += sites
    warnings.simplefilter("ignore")
    import torch

    from compat_suite.packages.compiled_models import table

    torch.manual_seed(0)
    training = table()[name]()
    return training, training.batch(), training.start("eager")[0]


def main(name: str, *sites: str) -> None:
    """Measure the model, whose packages are installed in `sites`, and print what came out as JSON."""
    training, batch, step = started(name, sites)
    losses = [step(batch).tolist() for _ in range(3)]
    for _ in range(WARM):
        step(batch)
    forward = best(lambda: training.loss(training.model, batch))
    print(json.dumps({"losses": losses, "forward": forward, "step": best(lambda: step(batch))}))


if __name__ == "__main__":
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # so that both start one thread
    main(*sys.argv[1:])
