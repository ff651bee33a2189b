"""`loss_parallel`: a cross entropy of logits whose classes are split over devices."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def loss_parallel() -> Iterator[None]:
    """Let `cross_entropy` take logits that are split over their classes.

    XLA does so inside and outside of this block: maxima and sums are reduced over the devices, and the logits are
    not gathered. The block is for programs written for PyTorch, which need it.
    """
    yield
