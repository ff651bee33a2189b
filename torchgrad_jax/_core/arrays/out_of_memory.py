"""Errors about memory that runs out: XLA's and NumPy's, as PyTorch raises them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..jax.caches import remember
from .devices import device, first, no_accelerator, to_jax


class OutOfMemoryError(RuntimeError):
    """Memory of an accelerator that could not be had."""


OutOfMemoryError.__module__ = "torch"

_ON_HOST = (
    "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate "
    "{} bytes. Error code 12 (Cannot allocate memory)"
)
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


def guarded(run: Callable[..., Any], dev: device) -> Callable[..., Any]:
    """A kernel for an accelerator that raises `OutOfMemoryError` where XLA has no memory for its results."""

    def kernel(*args: Any) -> Any:
        try:
            out = run(*[_number(x) if x.__class__ is float else x for x in args])
            raise_if_failed(out)
            return out
        except jax.errors.JaxRuntimeError as error:
            raise explained(error, dev) from error

    return kernel


def raise_if_failed(results: Any) -> None:
    """Raise the error of results that XLA had no memory for.

    XLA returns before a GPU has done the work. Results without memory are ready at once, and raise when waited for;
    of others nobody waits here.
    """
    while results.__class__ in (list, tuple):
        results = results[0] if results else None
    concrete = isinstance(results, jax.Array) and not isinstance(results, jax.core.Tracer)
    if concrete and results.is_ready():
        results.block_until_ready()


def wait_for(arrays: Iterable[jax.Array]) -> None:
    """Wait for the arrays that are not deleted. The error of one without memory is not raised again."""
    for array in arrays:
        if not array.is_deleted():
            _wait_for_one(array)


def _wait_for_one(array: jax.Array) -> None:
    try:
        array.block_until_ready()
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise


@remember()
def _sent(x: float) -> Any:
    """A number as an array on the accelerator: to send one takes as long as to start a kernel."""
    with jax.ensure_compile_time_eval():
        return jnp.asarray(x)


def _number(x: float) -> Any:
    """Return what a kernel is given for a number; 0.0 and -0.0 are one key, and NaN is none."""
    return x if x == 0 or x != x else _sent(x)


def explained(error: BaseException, dev: device) -> BaseException:
    """The error to raise for one of XLA's, which is the same one if it is not about memory."""
    if dev.type == "cpu" or "RESOURCE_EXHAUSTED" not in str(error):
        return error
    asked = re.search(r"allocat\w* (\d+) ?(?:bytes|B)", str(error))
    amount = f" Tried to allocate {_amount(int(asked[1]))}." if asked else ""
    return OutOfMemoryError(f"{dev.type.upper()} out of memory.{amount} {_room(dev)}\nXLA says: {error}")


def _amount(count: int) -> str:
    power = min(int(math.log(max(count, 1), 1024)), len(_UNITS) - 1)
    return f"{count / 1024**power:.2f} {_UNITS[power]}"


def _room(dev: device) -> str:
    found = to_jax(dev).memory_stats() or {}
    total, used = found.get("bytes_limit", 0), found.get("bytes_in_use", 0)
    name = "GPU" if dev.type == "cuda" else dev.type.upper()
    return f"{name} {dev.index or 0} has a total capacity of {_amount(total)} of which {_amount(total - used)} is free."


def host_array(shape: tuple[int, ...], value: Any, dtype: np.dtype) -> np.ndarray:
    """An array of NumPy with one value everywhere.

    Raises:
        RuntimeError: there is no memory for it, in PyTorch's words.
    """
    try:
        return np.zeros(shape, dtype) if value.__class__ is int and not value else np.full(shape, value, dtype)
    except MemoryError as error:
        raise no_host_memory(shape, dtype) from error


def no_host_memory(shape: tuple[int, ...], dtype: np.dtype) -> RuntimeError:
    """PyTorch's complaint about memory of the host."""
    return RuntimeError(_ON_HOST.format(math.prod(shape) * dtype.itemsize))


def complain_of_memory(error: BaseException) -> None:
    """Raise PyTorch's error for one of XLA's that is about an accelerator's memory."""
    if isinstance(error, jax.errors.JaxRuntimeError):
        found = explained(error, first())
        if found is not error:
            raise found from error


def check_memory(arrays: list[Any]) -> None:
    """Raise if there was no memory for the results of a program, which then are none."""
    if not no_accelerator():
        try:
            raise_if_failed(arrays)
        except jax.errors.JaxRuntimeError:
            arrays.clear()
            raise
