"""How eager code runs: each kernel when it is called, or in windows."""

from __future__ import annotations

import os
from typing import Literal

from .._core.signals import uninterrupted
from .._core.state import MODES, WINDOWS, Modes
from .._engine.memory.tensor import hold_pending
from .._engine.run.window_counts import Counts, counts
from .._engine.run.windows import DEFAULT, Windows, cut

VARIABLE = "TORCHGRAD_JAX_EAGER"
_WAYS = ("strict", "windows", "fused")


class eager:
    """Say how this thread runs eager code, from now on or inside of a `with` block.

    Args:
        way: "strict" starts each kernel when it is called. "windows" puts kernels of XLA's into a window, which starts
            them as one program when a value is read that takes more than four of them, at the end of a backward pass
            or of an optimizer's step, and after 512 kernels or results of 256 MB. The bits are the same. "fused" lets
            XLA fuse the kernels of a window, which gives other last bits.

    A window runs kernel by kernel when it comes for the first time, and as a program from then on. Errors of shapes,
    dtypes and in-place writes are raised at the call, and those of a kernel that fails where a value is read, with the
    name and the line of its call. Code runs strictly in `vmap`, in compiled functions, under JAX's transforms, in
    anomaly mode, under the profiler, and on tensors that are spread over devices.

    `TORCHGRAD_JAX_EAGER=windows` in the environment says it for all threads.

    Example:
        >>> import torchgrad_jax as torch
        >>> with torch.interop.eager("windows"):
        ...     x = torch.arange(4.0)
        ...     y = (x * 2).sin().sum()
        >>> y
        tensor(-0.1269)
    """

    def __init__(self, way: Literal["strict", "windows", "fused"]) -> None:
        if way not in _WAYS:
            raise ValueError(f"eager code runs in one of the ways {', '.join(map(repr, _WAYS))}, not {way!r}")
        cut("another way to run begins")
        self._before = MODES.bits & WINDOWS, MODES.windows
        if way == "strict":
            MODES.bits &= ~WINDOWS
            return
        hold_pending()
        MODES.own |= {"windows": Windows(way == "fused"), "bits": MODES.bits | WINDOWS}

    def __enter__(self) -> None:
        pass

    @uninterrupted
    def __exit__(self, *error: object) -> None:
        bit, mine = self._before
        used = MODES.windows
        MODES.own |= {"windows": mine, "bits": MODES.bits & ~WINDOWS | bit}
        if used is not None and error[0] is None:
            used.run("another way to run begins")

    def __repr__(self) -> str:
        return "<torch.interop.eager>"


def windows(reset: bool = False) -> Counts:
    """Say what windows did so far in this process, see `eager`.

    Args:
        reset: count from now on.

    Returns:
        `windows`, how many ran; `steps`, how many kernels they had; `met`, how many ran kernel by kernel, since none
        like them had come before; `starts`, how many programs and kernels were started; and `cuts`, why and where they
        ended, the most frequent first. `print` shows a line for each.

    Example:
        >>> import torchgrad_jax as torch
        >>> torch.interop.windows().windows >= 0
        True
    """
    return counts(reset)


def start(way: str | None = None) -> None:
    """Run the eager code of all threads in one of the ways, or as the environment says."""
    way = way or os.environ.get(VARIABLE) or "strict"
    if way not in _WAYS:
        raise ValueError(f"{VARIABLE}={way!r}: it is one of {', '.join(map(repr, _WAYS))}, or is not set")
    if way != "strict":
        hold_pending()
        DEFAULT.fused = way == "fused"
        Modes.bits |= WINDOWS
