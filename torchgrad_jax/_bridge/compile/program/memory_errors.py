"""Errors of compiled programs about memory of an accelerator that runs out."""

from __future__ import annotations

from typing import Any

from jax.errors import JaxRuntimeError

from ...._core.arrays import devices
from ...._core.arrays.out_of_memory import explained, raise_if_failed


def complain_of_memory(error: BaseException) -> None:
    """Raise PyTorch's error for one of XLA's that is about an accelerator's memory."""
    if isinstance(error, JaxRuntimeError):
        found = explained(error, devices.first())
        if found is not error:
            raise found from error


def check_memory(arrays: list[Any]) -> None:
    """Raise if there was no memory for the results of a program, which then are none."""
    if not devices.no_accelerator():
        try:
            raise_if_failed(arrays)
        except JaxRuntimeError:
            arrays.clear()
            raise
