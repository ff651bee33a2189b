"""What NumPy code is before its sizes are known: a text, and what becomes of the names in it.

The maker in `code.py` gives a `Code`, which is a function for given sizes; without symbols, one function.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from . import choice, inline, steps as host_steps
from .space import COMMON, made_of

Entry = Callable[[Any, dict[str, Any]], None]
"""Is given the sizes and the names of the code, and adds to these."""


class No(Exception):
    """The kernel has a step that only XLA can do, or too much work for NumPy."""


class Changed(Exception):
    """For these sizes the code is another one."""


class Aval:
    """A shape and a dtype, which is what NumPy code is made by."""

    __slots__ = ("dtype", "ndim", "shape", "size", "weak_type")

    def __init__(self, shape: tuple[int, ...], dtype: Any, weak_type: bool = False) -> None:
        self.shape, self.dtype, self.weak_type = shape, dtype, weak_type
        self.ndim, self.size = len(shape), math.prod(shape)


class SizedValue(NamedTuple):
    """An operand or a result of a step."""

    aval: Any


class SizedStep(NamedTuple):
    """A step that takes the place of one of a jaxpr, or is one for given sizes."""

    primitive: Any
    params: dict[str, Any]
    invars: list[Any]
    outvars: list[Any]
    effects = ()


def sized(now: Any, eqn: Any) -> SizedStep:
    """A step for given sizes."""
    values = [[SizedValue(v.aval if v.id is None else now.aval(v.id)) for v in vs] for vs in (eqn.invars, eqn.outvars)]
    return SizedStep(eqn.primitive, now.params(eqn.at), *values)


def has_halves(eqn: Any) -> bool:
    """Return whether a step reads or gives values of a half type."""
    return any(v.aval.dtype in inline.HALVES for v in (*eqn.invars, *eqn.outvars))


def widened(v: Any) -> SizedValue:
    """Return what stands for a value in float32, if it is one of a half type."""
    aval = v.aval
    half = aval.dtype in inline.HALVES
    return SizedValue(jax.core.ShapedArray(aval.shape, np.float32, weak_type=aval.weak_type) if half else aval)


def check(aval: Any, halves: bool = False) -> None:
    """Leave to XLA what computes in half types, save elementwise, and arrays without a plain shape."""
    shape, dt = getattr(aval, "shape", None), getattr(aval, "dtype", None)
    if shape is None or not all(isinstance(n, int) for n in shape) or not takes(dt, halves):
        raise No


def takes(dt: Any, halves: bool = False) -> bool:
    """Return whether steps compute in a type; with `halves` whether they move and convert it."""
    if not isinstance(dt, np.dtype):
        return False
    return halves if dt in inline.HALVES else dt.kind in "biuc" or (dt.kind == "f" and dt.itemsize >= 4)


def together(shapes: Sequence[Sequence[Any]]) -> tuple[Any, ...]:
    """The shape that arrays of these have together, whose sizes may be symbols."""
    out: list[Any] = [1] * max(map(len, shapes), default=0)
    for shape in shapes:
        for d, n in enumerate(shape, len(out) - len(shape)):
            if n != 1:
                out[d] = n
    return tuple(out)


class Code:
    """NumPy code, and what its names stand for.

    Args:
        maker: has them.
        text: the code.
        formed: the same for kernels that also have code written by hand.
        limit: microseconds that it may take at sizes that symbols stand for.
        in_blocks: the text for many elements, if it can go block by block.
    """

    def __init__(
        self, maker: Any, text: Any, formed: Any = None, limit: float = choice.LIMIT, in_blocks: Any = None
    ) -> None:
        self._code, self._formed, self._limit, self._space = text, formed, limit, maker.space
        self._in_blocks = in_blocks
        self._entries, self._work, self._loops = maker.all_entries(), maker.work, maker.loops
        if choice.only_moves(maker.closed.jaxpr):
            self._limit = math.inf
        given = [] if maker.source is None else maker.closed.jaxpr.outvars
        self._given = [v.id for v in given if not hasattr(v, "val")]
        self._alike = [(ids, fixed, [*prices.items()]) for (ids, fixed), prices in maker.alike.items()]
        self.holds: Callable[[Sequence[int]], bool] = lambda numbers: True
        """Whether the code holds for some sizes."""

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process makes the code of; see `_engine.run.trace_files`."""
        own = {name: x for name, x in self._space.items() if name not in COMMON}
        return {**vars(self), "_space": own}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        vars(self).update(kept)
        self._space = {**COMMON, **self._space}

    def fits(self, now: Any) -> bool:
        """Return whether these sizes are not too much for NumPy; `Changed` where there is no telling."""
        try:
            self._text_for(now)
        except No:
            return False
        return True

    def at(self, now: Any, kernel: Any, form: Any) -> Any:
        """The function for these sizes, or None where XLA has to do it; `Changed` where the code is another one.

        Args:
            now: the sizes, as the `AtSizes` of the program has them; None where there are no symbols.
            kernel: the compiled function, for calls that NumPy can't do.
            form: the code that was written by hand, or None.
        """
        try:
            made = self.made(now, kernel)
        except No:
            return None
        if form is None or self._formed is None:
            return made
        return made_of(self._formed, {**COMMON, "xla": kernel, "form": form, "derived": made})

    def made(self, now: Any = None, kernel: Any = None) -> Any:
        """The function for these sizes, without code written by hand; `No` where it is too much for NumPy."""
        text = self._text_for(now)
        space = {**self._space, "xla": kernel}
        for entry in self._entries:
            entry(now, space)
        return made_of(text, space)

    def _text_for(self, now: Any) -> Any:
        """The text for these sizes; `No` where they are too much for NumPy."""
        if self._in_blocks is not None and choice.is_for_blocks(self._elements(now)):
            return self._in_blocks
        self._check(now)
        return self._code

    def _elements(self, now: Any) -> int:
        """How many elements the largest result has."""
        return max([now.elements(v) for v in self._given], default=0)

    def _check(self, now: Any) -> None:
        """Raise `No` where these sizes are too much for NumPy."""
        room = choice.room_for(self._loops, 0.0, self._limit, self._elements(now))
        if self._elements(now) > room.largest:
            raise No
        for work in self._work:
            touched, price = work(now)
            _spend(touched, price, 1, room)
        for ids, fixed, prices in self._alike:
            touched = max([now.elements(v) for v in ids], default=fixed)
            for (overhead, per_element), times in prices:
                _spend(touched, host_steps.price(overhead, per_element, touched), times, room)


def _spend(touched: int, price: float, times: int, room: choice.Room) -> None:
    if touched > room.largest or not room.spend(price * times):
        raise No
    if room.loops and price > choice.ALONE:
        raise Changed
