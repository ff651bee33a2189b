"""Measures one way of one model, in this process; `python -m torchgrad_jax -m` runs it.

The way "eager" writes what came out to FILE. The others are compared with that, and so is an eager training in their
process afterwards: compiling may leave nothing behind. Each is the first thing that its process does, so that it meets
the packages as a user's first call does: with lazy imports to be done and warnings that are shown once. Each line of
the output that begins with MARK is a part of the answer.
"""

from __future__ import annotations

import json
import sys
import traceback
from typing import Any

MARK = "measured: "
WAYS = ("model", "step")


def tell(**part: Any) -> None:
    """A part of the answer, at once: a later one may end the process."""
    print(MARK + json.dumps(part), flush=True)


def main(name: str, way: str, file: str, *sites: str) -> None:
    """Run the way, and compare.

    Args:
        name, way: what to run.
        file: where the answers of the eager training are, or are written.
        sites: where packages are installed.
    """
    sys.path += sites
    import torch

    from . import table
    from .training import Measured, difference, measure

    make = table()[name]
    try:
        done = measure(make, way)
    except Exception as error:
        tell(died=words(error))
        return
    tell(**done.row())
    if way == "eager":
        torch.save({"values": done.values, "state": done.state}, file)
        return
    saved = torch.load(file)
    want = Measured(saved["values"], saved["state"])
    tell(wrong=difference(want, done))
    try:
        tell(spoils=difference(want, measure(make, "eager")))
    except Exception as error:
        tell(spoils=words(error))


def words(error: Exception) -> str:
    """What was raised, and where."""
    traceback.print_exc()
    where = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {str(error)[:300]} ({where.filename.rsplit('/', 1)[-1]}, {where.name})"


if __name__ == "__main__":
    main(*sys.argv[1:])
