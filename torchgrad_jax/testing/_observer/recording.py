"""What was seen of a run, in memory and as a file (a NumPy archive with a table in JSON; no pickle)."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

VERSION = 1
KEPT = {"op": 32, "op gradient": 32}
"""How many elements are kept of a tensor of some kind; 256 of the others."""


def kept(kind: str) -> int:
    """Return how many elements are kept of a tensor of this kind."""
    return KEPT.get(kind, 256)


@dataclass
class Entry:
    """A tensor, or a number of Python, that was seen.

    Attributes:
        event: the number of the event that it belongs to.
        kind: "output" (of a module), "op" (its result), "root" (of a backward pass), "gradient", "op gradient" (that
            of an op's result), "parameter", "buffer", "state" (of an optimizer), "option" (of one) or
            "left" (how many gradients there are before a pass).
        name: of the module, op, parameter or state.
        where: the line of the program.
        module: the module that was running.
        dtype: the dtype's name.
        shape: the shape.
        begin: where its numbers begin in the recording's.
        size: how many numbers were kept; -1 where they could not be read.
        sums: two sums under random signs, and the root mean square.
        number: the number of an op, by which others refer to it.
        inputs: of an op, the numbers of other ops and the names of parameters that it takes.
    """

    event: int
    kind: str
    name: str
    where: str = ""
    module: str = ""
    dtype: str = ""
    shape: tuple[int, ...] = ()
    begin: int = 0
    size: int = -1
    sums: tuple[float, ...] = (0.0, 0.0, 0.0)
    number: int = -1
    inputs: tuple[Any, ...] = ()


@dataclass
class Recording:
    """Everything that was seen of one run.

    Attributes:
        facts: which library ran what, how, and how it ended.
        events: what happened, in order: "begin", "backward", "grad", "step", "call", "end".
        entries: what was seen, in order.
        numbers: the numbers of all entries, one behind the other.
    """

    facts: dict[str, Any] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    numbers: np.ndarray = field(default_factory=lambda: np.zeros(0))

    def values(self, entry: Entry) -> np.ndarray:
        """The numbers that were kept of an entry."""
        return self.numbers[entry.begin : entry.begin + max(entry.size, 0)]


def pack(recording: Recording) -> dict[str, np.ndarray]:
    """A recording as arrays by name."""
    table = {
        "version": VERSION,
        "facts": recording.facts,
        "events": recording.events,
        "entries": [list(asdict(e).values()) for e in recording.entries],
    }
    text = json.dumps(table).encode()
    return {"table": np.frombuffer(text, np.uint8), "numbers": recording.numbers}


def save(recordings: list[Recording], path: str) -> None:
    """Write recordings of one program to a file, which is there whole or not at all."""
    arrays: dict[str, Any] = {f"{k}{i}": v for i, r in enumerate(recordings) for k, v in pack(r).items()}
    with open(f"{path}.tmp", "wb") as file:
        np.savez_compressed(file, **(arrays | {"count": np.array(len(recordings))}))  # type: ignore[arg-type]
    os.replace(f"{path}.tmp", path)


def load(path: str) -> list[Recording]:
    """Read what `save` wrote.

    Raises:
        ValueError: for a file that is something else.
    """
    try:
        with np.load(path, allow_pickle=False) as arrays:
            count = int(arrays["count"])
            return [_unpack(bytes(arrays[f"table{i}"]), arrays[f"numbers{i}"]) for i in range(count)]
    except (KeyError, EOFError, ValueError, TypeError) as e:
        raise ValueError(f"{path} is no recording of a program ({e})") from e
    except OSError:
        raise
    except Exception as e:  # a damaged archive
        raise ValueError(f"{path} is no recording of a program ({e})") from e


def _unpack(text: bytes, numbers: np.ndarray) -> Recording:
    table = json.loads(text)
    if table["version"] != VERSION:
        raise ValueError(f"version {table['version']}, and this reads {VERSION}")
    entries = [Entry(*row) for row in table["entries"]]
    for e in entries:
        e.shape, e.sums, e.inputs = tuple(e.shape), tuple(e.sums), tuple(e.inputs)
    return Recording(table["facts"], table["events"], entries, numbers)
