"""One collective of this process: now, in a thread, or as a step of a compiled program.

A compiled program calls back into this process when it comes to the step. Such steps run in the order in which the
program was written, and their messages have keys of their own: a program may still run while the process goes on.
Where XLA connects the devices of the processes, and all of them run the same program, the step is XLA's own instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback

from .._core import events
from .._core.state import MODES, OBSERVED
from .._engine.memory.strided import read
from .._engine.memory.tensor import Tensor
from ..compiler import is_compiling
from ._compiled.over_processes import Collective
from ._exchange import Turn, agree
from ._groups import ProcessGroup, group, member_of
from ._in_xla import Form, mesh_of

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
    pg: ProcessGroup,
    what: str,
    arrays: Sequence[Any],
    results: Sequence[jax.ShapeDtypeStruct],
    step: Step,
    key: str = "",
    timeout: Any = None,
    in_xla: Form | None = None,
) -> Callable[[], Arrays]:
    """Take the turn of a collective; what is returned runs it, and gives its results.

    Args:
        pg: which processes.
        what: the call, as other members must have made it too.
        arrays: what this process sends.
        results: the shapes of what comes out.
        step: does it, given a turn and the arrays.
        key: what its messages are known by, if it is a message from one to another.
        timeout: of this collective.
        in_xla: does it in a program that the processes run together; None if XLA has no such step.
    """
    if is_compiling():
        call = _StepOfProgram(pg, what, results, step, key, timeout, in_xla)
        found = list(io_callback(call, tuple(results), *arrays, ordered=True))
        return lambda: found
    if MODES.bits & OBSERVED:
        events.exchanged(what)
    turn = pg.turn(what, key, timeout)
    return lambda: list(step(turn, *arrays))


class _StepOfProgram(Collective):
    """A collective in a compiled program, which calls it with the arrays that this process sends.

    Args:
        pg: which processes.
        what: the call.
        results: the shapes of what comes out.
        step: does it between the memories of the processes.
        key: what its messages are known by, if it is a message from one to another.
        timeout: of this collective.
        form: does it in a program that the processes run together; None if XLA has no such step.
    """

    def __init__(
        self,
        pg: ProcessGroup,
        what: str,
        results: Sequence[jax.ShapeDtypeStruct],
        step: Step,
        key: str,
        timeout: Any,
        form: Form | None,
    ) -> None:
        self._which, self._size = None if pg is group.WORLD else pg, pg.size()
        self._what, self._results, self._step = what, results, step
        self._key, self._timeout, self._form = key, timeout, form
        self.group, self.can_be_in_xla = pg.group_name, form is not None

    def __call__(self, *given: Any) -> Any:
        turn = self._turn(self._what, self._key, self._timeout)
        found = self._step(turn, *map(np.asarray, given))
        return tuple(np.asarray(x).reshape(r.shape) for x, r in zip(found, self._results, strict=True))

    @property
    def members(self) -> tuple[int, ...]:
        """The ranks of the processes that take part."""
        return tuple(member_of(self._which)._members)

    def mesh(self, platform: str) -> Any:
        """The devices of the processes, if they are connected."""
        return mesh_of(self.members, platform)

    def in_xla(self, arrays: Sequence[Any]) -> Arrays:
        """The step in a program over the mesh."""
        assert self._form is not None
        found = self._form(*arrays)
        return [x.reshape(r.shape) for x, r in zip(found, self._results, strict=True)]

    def agree(self, program: bytes) -> bool:
        """Return whether all processes of the group are about to run the same program."""
        return agree(self._turn("a compiled program"), program)

    def _turn(self, what: str, key: str = "", timeout: Any = None) -> Turn:
        live = member_of(self._which)
        if live.size() != self._size:
            raise RuntimeError(
                f"{what}: the program was compiled for {self._size} processes, and there are {live.size()}"
            )
        return live.turn(what, key, timeout, compiled=True)
