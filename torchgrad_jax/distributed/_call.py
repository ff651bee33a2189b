"""One collective of this process: now, in a thread, or as a step of a compiled program.

A compiled program calls back into this process when it comes to the step. Such steps run in the order in which the
program was written, and their messages have keys of their own: a program may still run while the process goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback

from .._engine.strided import read
from .._engine.tensor import Tensor
from ..compiler import is_compiling
from ._exchange import Turn
from ._groups import ProcessGroup, group, member_of

Arrays = list[Any]
Step = Callable[..., Sequence[np.ndarray]]


def array_of(tensor: Tensor) -> Any:
    """The values of a tensor: an array in the memory of this process, or a traced one while a program is compiled."""
    if tensor.is_meta:
        raise NotImplementedError("a tensor on the meta device has no values for other processes")
    plain = tensor.detach().resolve_conj() if tensor.is_complex() else tensor
    return read(plain.detach()) if is_compiling() else np.asarray(read(plain))


def joined(arrays: Sequence[Any]) -> Any:
    """Arrays one after another, flat."""
    flat = [x.reshape(-1) for x in arrays]
    return jnp.concatenate(flat) if is_compiling() else np.concatenate(flat)


def like(tensor: Tensor, shape: Sequence[int] | None = None) -> jax.ShapeDtypeStruct:
    """An array as large as a tensor, or of another shape with its dtype."""
    return jax.ShapeDtypeStruct(tuple(tensor.shape if shape is None else shape), tensor._m.dtype.np)


def begin(
    pg: ProcessGroup, what: str, arrays: Sequence[Any], results: Sequence[jax.ShapeDtypeStruct], step: Step,
    key: str = "", timeout: Any = None,
) -> Callable[[], Arrays]:  # fmt: skip
    """Take the turn of a collective; what is returned runs it, and gives its results.

    Args:
        pg: which processes.
        what: the call, as other members must have made it too.
        arrays: what this process sends.
        results: the shapes of what comes out.
        step: does it, given a turn and the arrays.
        key: what its messages are known by, if it is a message from one to another.
        timeout: of this collective.
    """
    if is_compiling():
        found = _in_program(pg, what, arrays, results, step, key, timeout)
        return lambda: found
    turn = pg.turn(what, key, timeout)
    return lambda: list(step(turn, *arrays))


def _in_program(
    pg: ProcessGroup, what: str, arrays: Any, results: Any, step: Step, key: str, timeout: Any
) -> Arrays:
    which = None if pg is group.WORLD else pg
    size = pg.size()

    def call(*given: Any) -> Any:
        turn = _turn(which, size, what, key, timeout)
        found = step(turn, *map(np.asarray, given))
        return tuple(np.asarray(x).reshape(r.shape) for x, r in zip(found, results, strict=True))

    return list(io_callback(call, tuple(results), *arrays, ordered=True))


def _turn(which: Any, size: int, what: str, key: str, timeout: Any) -> Turn:
    live = member_of(which)
    if live.size() != size:
        raise RuntimeError(
            f"{what}: the program was compiled for {size} processes, and there are {live.size()}"
        )
    return live.turn(what, key, timeout, compiled=True)
