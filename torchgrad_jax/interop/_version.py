"""Which version of torch new graphs follow, where torch changed a derivative."""

from __future__ import annotations

from typing import Any

from .._core.jax.caches import clear_caches
from .._core.signals import restore, uninterrupted
from .._core.state import SETTINGS, checked_version


class torch_version:
    """Choose the version of torch whose derivatives new graphs have: from now on, or within a `with` block.

    In torch 2.14 the gradient of `clamp` (`clip`, `clamp_min`, `clamp_max`) is 0 where the input equals a limit that is
    a number, and the input and a limit that is a tensor share it where they are equal; `fmin` and `fmax` share it
    between equal operands. In 2.13 the input, or the first operand, gets all of it. Graphs that were recorded before
    keep theirs. `TORCHGRAD_JAX_TORCH_VERSION=2.14` in the environment chooses when a program starts.

    Args:
        version: "2.13", which holds unless something else is said, or "2.14".

    Raises:
        ValueError: for another one.

    Example:
        >>> import torchgrad_jax as torch
        >>> x = torch.zeros(1, requires_grad=True)
        >>> with torch.interop.torch_version("2.14"):
        ...     torch.autograd.grad(x.clamp(min=0.0).sum(), x)
        (tensor([0.]),)
        >>> torch.autograd.grad(x.clamp(min=0.0).sum(), x)
        (tensor([1.]),)
    """

    def __init__(self, version: str) -> None:
        self._version = checked_version(version, "torch_version: version")
        self._before = SETTINGS.torch_version
        _set(self._version)

    def __enter__(self) -> None:
        _set(self._version)

    @uninterrupted
    def __exit__(self, *exc: Any) -> None:
        restore(_set, self._before)


def _set(version: tuple[int, int]) -> None:
    if version != SETTINGS.torch_version:
        SETTINGS.torch_version = version
        clear_caches()  # calls have their rules since they were made
