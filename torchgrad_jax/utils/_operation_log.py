"""What ran in the forward of a checkpoint and what in its recomputation, for the error of ``debug=True``."""

from __future__ import annotations

import enum
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from .._core import events
from .._engine.memory.tensor import Tensor
from .._ops.aten import op_name
from ._recompute import CheckpointError

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


class Log(events.Watching):
    """Writes down the operations that run while it is entered, and where they were called."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.stacks: list[str] = []

    def op(self, name: str, kind: str, args: Sequence[Any], run: events.Run) -> Any:
        if kind != "op":
            return run()
        at = len(self.lines)
        given = ", ".join(_shown(a) for a in args if a is not None)
        self.lines.append(f"aten::{op_name(name)}({given})")
        frames = [f for f in traceback.extract_stack(sys._getframe(1)) if not f.filename.startswith(_PACKAGE)]
        self.stacks.append("".join(f"{f.filename}:{f.lineno}:{f.name}\n" for f in frames[::-1]))
        out = run()  # which may be what stops the recomputation
        self.lines[at] += f" -> {_shown(out)}"
        return out

    def begin(self) -> None:
        self.lines, self.stacks = [], []

    def traces(self, label: str) -> str:
        """Every operation with its stack."""
        n = len(self.lines)
        return "\n".join(
            f"{line}   ({i + 1} of {n} in {label})\n\n{stack}\n"
            for i, (line, stack) in enumerate(zip(self.lines, self.stacks))
        )


def _shown(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{value._m.dtype}{list(value._m.shape)}".removeprefix("torch.")
    if isinstance(value, tuple | list):
        return f"({', '.join(_shown(v) for v in value)})"
    return repr(value.value if isinstance(value, enum.Enum) else value)


class Logs:
    """The operations of a forward and of its recomputation, for the error."""

    def __init__(self) -> None:
        self.forward, self.again = Log(), Log()

    def contexts(self) -> tuple[Log, Log]:
        """Return what `context_fn` gives."""
        return self.forward, self.again

    def explaining(self, unpack: Callable[[Any], Tensor]) -> Callable[[Any], Tensor]:
        """`unpack` with the two logs in its error."""

        def explained(slot: Any) -> Tensor:
            try:
                return unpack(slot)
            except CheckpointError as error:
                raise CheckpointError(self.report(str(error))) from error

        return explained

    def report(self, error: str) -> str:
        """The text of the error: both logs, with stacks and without, and what went wrong."""
        headed = (
            ("Stack traces of the operations of the original forward", self.forward.traces("original")),
            ("Stack traces of the operations of the recomputation", self.again.traces("recompute")),
            ("Operations executed during the original forward", "\n".join(self.forward.lines)),
            ("Operations executed during recomputation", "\n".join(self.again.lines)),
            ("ERROR: Detected non-determinism while running activation checkpointing", error),
        )
        head = (
            "An error happened while unpacking tensors; dumping logs of latest computation\n"
            "because you passed `debug=True` to `torch.utils.checkpoint.checkpoint()`.\n"
        )
        return head + "".join(f"\n--- {title}\n\n{text}\n" for title, text in headed)
