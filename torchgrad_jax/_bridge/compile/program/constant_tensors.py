"""Tensors that a compiled function makes itself, and that are the same in each call, as constants of its program.

    mask = torch.ones(4, 4)      # in the function: the same in each call
    (x * mask).sum().backward()  # and so is the 1 that the pass begins with

Each of them would be one more input of the program, which takes time in each call; and XLA simplifies what it knows.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import lax

from ...._core.arrays import devices
from ...._core.arrays.placement import spread_over
from ...._core.random.keys import is_key
from ...._engine.memory.tensor import Storage, make

_MOST = 1024
"""Elements of a constant that are written into the program one by one."""


class ConstantTensor(NamedTuple):
    """A constant of a program: all of its elements, or the one that all of them are."""

    elements: np.ndarray[Any, Any]
    shape: tuple[int, ...]

    def array(self) -> Any:
        """The array, for a program that is being traced."""
        if self.elements.shape == self.shape:
            return self.elements
        return lax.full(self.shape, self.elements, self.elements.dtype)


def constant_tensors(program: Any) -> dict[int, ConstantTensor]:
    """The constants among the sources of a program, by their numbers.

    A tensor that the program reads is one if nobody else holds it: nobody can write to it, then.
    """
    changing = {id(program.sources[i].what) for i, _, _ in program.writes if i >= 0}
    changing.update(id(st) for first, second, _, _ in program.peers for st in (first, second))
    released = [
        (i, *_released(source))
        for i, source in enumerate(program.sources)
        if source.kind == "tensor" and type(source.what) is Storage and id(source.what) not in changing
    ]
    _forget_gone(program)
    found = {}
    for i, array, m, memory, tensor in released:
        source, st = program.sources[i], memory()
        if st is None:
            constant = _constant(array)
            if constant is not None:
                found[i] = constant
        owner = tensor()
        if owner is None:
            owner = make(array, m)
            if st is not None:
                owner._st = owner._vc = st
        if st is None:
            program.constants.add(id(owner._st))
        source.what, source.of = owner._st, owner
    return found


def _forget_gone(program: Any) -> None:
    """Let the program not keep the memory of tensors that nobody holds any more."""
    before = -1
    while len(program.known_tensors) != before:  # one that is gone may have been a view of another
        before = len(program.known_tensors)
        program.known_tensors = [row for row in program.known_tensors if row[0]() is not None]
    refs = [(_weakly(vc), n) for vc, n in program.counters]
    program.counters = []
    program.counters = [(ref(), n) for ref, n in refs if ref() is not None]


def _weakly(vc: Any) -> Callable[[], Any]:
    """A version counter that is not kept alive if it is that of memory."""
    return weakref.ref(vc) if isinstance(vc, Storage) else lambda: vc


def _released(source: Any) -> tuple[Any, ...]:
    """What a source reads: its array and meta, and weak references to its memory and its tensor, which it lets go."""
    st, owner = source.what, source.of
    source.what = source.of = None
    return st.array, st.meta, weakref.ref(st), weakref.ref(owner)


def _constant(array: Any) -> ConstantTensor | None:
    """An array as a constant; None if the program had better read it."""
    if isinstance(array, jax.core.Tracer) or is_key(array) or spread_over(array) is not None:
        return None
    if array.size > _MOST and not devices.no_accelerator():  # it would have to be fetched
        return None
    elements = np.asarray(array)
    if elements.size > 1:
        rows = np.ascontiguousarray(elements).reshape(-1).view(np.uint8).reshape(elements.size, -1)
        if (rows == rows[0]).all():
            return ConstantTensor(elements.reshape(-1)[0], elements.shape)
    return ConstantTensor(elements.copy(), elements.shape) if elements.size <= _MOST else None
