"""Kernels that overwrite their first arguments, with nothing lost when a signal comes in between.

Python delivers signals between two instructions of Python code. A compiled function whose arguments JAX has seen
before runs in one call of C: it has run, or it has not. For arguments of a new kind JAX traces, compiles and runs it
in Python code, and an exception in the midst of that would leave neither the old arrays nor the new ones. There,
copies are overwritten instead.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, repeat, starmap
from typing import Any

import jax
import jax.numpy as jnp

from ...._core.arrays.meta import Meta
from ...._core.errors.messages import Unsupported
from ...._core.jax.own_kernels import jit
from ...._core.jax.target import lower
from ...._core.jax.x64 import of_c, with_x64
from ...._engine.memory.tensor import Tensor, keep_arrived


class Donating:
    """A function of arrays, compiled so that its first `n` arguments are overwritten.

    `placed`, if given, says for each result on which devices it lies, or None where XLA may choose.
    """

    __slots__ = ("_compiled", "_run", "call", "n", "settled")

    def __init__(
        self, fn: Callable[..., list[Any]], n: int, keep_unused: bool, placed: list[Any] | None = None
    ) -> None:
        self.n = n
        self.settled = False
        """Whether JAX knew the arguments of the last call."""
        self._compiled = jit(fn, donate_argnums=tuple(range(n)), keep_unused=keep_unused, out_shardings=placed)
        made = of_c(self._compiled)
        self._run: Any = made if n == 0 else _with_first_call(made, self._first_call)
        self.call = with_x64(self._run)
        """The function, to be called as any other."""

    def results(self, inputs: Sequence[Any], dropped: Sequence[Tensor]) -> Iterator[Any]:
        """What the function returns, computed when the first of it is taken.

        Just before, tensors in `dropped` lose their gradients. No Python code runs for somebody who takes all in one
        call of C. The caller's code is `with_x64`.
        """
        if not dropped:
            return chain.from_iterable(starmap(self._run, (inputs,)))
        drops = map(setattr, dropped, repeat("_g"), repeat(None))
        return chain.from_iterable(starmap(self._run, chain(filter(None, drops), (inputs,))))

    def lower(self, *args: Any) -> jax.stages.Lowered:
        """The program for such arguments, which is not run."""
        return lower(self._compiled, *args)

    def _first_call(self, *args: Any) -> Any:
        """The call for arguments of a new kind, and what JAX keeps of it for the next."""
        self.settled = False
        run: Any = of_c(self._compiled)._cache_miss
        try:
            return run(*map(_copied, args[: self.n]), *args[self.n :])
        except jax.errors.JaxRuntimeError as error:
            if "RESOURCE_EXHAUSTED" not in str(error):
                raise
        return run(*args)  # the memory has no room for copies


_copied = jit(jnp.copy)


def _with_first_call(compiled: Any, first_call: Callable[..., Any]) -> Any:
    """A compiled function that calls `first_call` for arguments of a new kind; what JAX pickles of one names that."""
    cls: Any = type(compiled)
    out = cls.__new__(cls)
    out.__setstate__({**compiled.__getstate__(), "cache_miss": first_call})
    vars(out).update(vars(compiled))
    return out


class Keeping:
    """A function of arrays that calls kernels, as `Donating` is one that XLA compiles. It overwrites nothing.

    So nothing is lost when a signal comes in between.

    Args:
        write: writes the function, which takes as long as to compile one.
    """

    __slots__ = ("_run", "_write", "settled")
    n = 0

    def __init__(self, write: Callable[[], Callable[..., list[Any]]]) -> None:
        self._write, self._run = write, None
        self.settled = False
        """False before each call: what a run has dropped is put back if the run ends early."""

    def call(self, *args: Any) -> list[Any]:
        """The function, to be called as any other."""
        self.settled = False
        run = self._run
        if run is None:
            run = self._run = self._write()
        return run(*args)

    def results(self, inputs: Sequence[Any], dropped: Sequence[Tensor]) -> Iterator[Any]:
        """What the function returns. Just before, tensors in `dropped` lose their gradients."""
        for leaf in dropped:
            leaf._g = None
        return iter(self.call(*inputs))

    def lower(self, *args: Any) -> jax.stages.Lowered:
        """There is no program of XLA's that is all of it."""
        raise Unsupported(IN_PARTS)


IN_PARTS = (
    "torch.compile: with mode='exact' a function is many kernels, and no program that could be looked at, planned or "
    "saved; the other modes make one"
)


def spare(leaf: Tensor, m: Meta) -> Any:
    """The memory of a gradient that is going to be replaced, or new memory if somebody else looks at it."""
    g = leaf._g
    if g is not None and g.__class__ is Tensor and g._m is m and g._al is None and g._x is None:
        st = g._st
        alone = sys.getrefcount(g) == _ALONE + 1 and sys.getrefcount(st) == _ALONE + 2
        array = keep_arrived(st)
        if alone and sys.getrefcount(array) == _ALONE + 1 and isinstance(array, jax.Array):
            return array
    return jnp.zeros(m.shape, m.dtype.np)


def surely(act: Callable[[], Any]) -> None:
    """Do something that may be done twice, also where one more signal interrupts it."""
    for _ in range(_ATTEMPTS):
        try:
            act()
            return
        except BaseException:
            continue


_ATTEMPTS = 8


def put_back(drawn: dict[Any, Any], replaced: Sequence[tuple[Tensor, Any]]) -> None:
    """Generators and gradients as they were before a run."""
    for generator, state in drawn.items():
        generator.resume(state)
    for leaf, g in replaced:
        leaf._g = g


_ALONE = 2
"""References to what one local variable refers to, as `sys.getrefcount` counts; a tensor's storage is its counter of
versions, too."""


_LARGE = 1 << 16
"""Bytes; fetching memory for less costs less than giving it to the program."""


def is_large(m: Meta) -> bool:
    return m.numel * m.dtype.itemsize >= _LARGE
