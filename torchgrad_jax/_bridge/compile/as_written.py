"""Runs a function that cannot be compiled whole, since it needs a value of a tensor while it runs.

    @torch.compile
    def step(x):
        y = (x * w).sin()
        return y[y > 0].sum()  # how many elements there are is a value

Where each kernel is a program of XLA's that takes long to start, as on accelerators, such a function runs in windows
(`_engine/run/windows.py`): what comes between two reads of values starts as one program. It gives the bits of the same
function that was not compiled.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..._core.arrays import devices
from ..._core.host import choice
from ..._core.signals import contextmanager
from ..._core.state import MODES, WINDOWS
from ..._engine.memory.tensor import hold_pending
from ..._engine.run.windows import Windows

CAUSE = "a function ends that could not be compiled whole"
"""Why the last window of such a function ends."""


def saves_starts() -> bool:
    """Whether kernels are XLA's to start. On a CPU most are NumPy's, and windows took longer than they saved."""
    return choice.EXECUTOR == "xla" or not devices.no_accelerator()


@contextmanager
def in_windows(wanted: bool) -> Iterator[None]:
    """Put off the kernels of this thread within the block, and run what is left at its end.

    Args:
        wanted: whether to do so; also then kernels run at once where that saves nothing, and in a window of the user's
            they stay in that.
    """
    if not wanted or MODES.bits & WINDOWS or not saves_starts():
        yield
        return
    hold_pending()
    before, mine = MODES.windows, Windows()
    MODES.own |= {"windows": mine, "bits": MODES.bits | WINDOWS}
    try:
        yield
    finally:
        MODES.own |= {"windows": before, "bits": MODES.bits & ~WINDOWS}
    mine.run(CAUSE)
