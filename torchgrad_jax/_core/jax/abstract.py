"""Arrays without elements, for tensors on the meta device. They are tracers of a JAX trace that takes no steps.

A primitive that meets such an array gives arrays of the shapes and dtypes that it would have, and everything
else is done as it always is. JAX looks at the running trace to know that: kernels of the meta device
are called inside of `tracing()`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jax import core

from ..signals import contextmanager
from ..state import MODES
from .private import current_trace

NO_DATA = "Cannot copy out of meta tensor; no data!"


class AbstractArray(core.Tracer):
    """Stands for an array, and has only its shape and dtype."""

    __slots__ = ()

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        super().__init__(_HOME, core.ShapedArray(shape, np.dtype(dtype)))

    def __reduce__(self) -> tuple[Any, ...]:
        return (AbstractArray, (self.shape, self.dtype))

    def __deepcopy__(self, memo: Any) -> AbstractArray:
        return AbstractArray(self.shape, self.dtype)

    def __copy__(self) -> AbstractArray:
        return AbstractArray(self.shape, self.dtype)


def is_abstract(x: Any) -> bool:
    """Return whether an array has no elements to look at and no trace that will ever give it some."""
    return x.__class__ is AbstractArray


class _AbstractTrace(core.Trace):
    """Gives steps that involve abstract arrays abstract results, and all others to the trace around it."""

    __slots__ = ("parent",)

    def __init__(self, parent: Any) -> None:
        super().__init__()
        self.parent = parent

    def _abstract(self, args: Sequence[Any]) -> bool:
        others = (a for a in args if isinstance(a, core.Tracer) and not is_abstract(a))
        return any(map(is_abstract, args)) and not any(True for _ in others)

    def stage_value(self, val: Any) -> Any:
        """A value of this trace: the value itself."""
        return val if is_abstract(val) else self.parent.stage_value(val)

    def process_primitive(self, primitive: Any, args: Sequence[Any], params: Any, /) -> Any:
        """One step."""
        if not self._abstract(args):
            return self.parent.process_primitive(primitive, args, params)
        out, _ = primitive.abstract_eval(*[jax.typeof(a) for a in args], **params)
        made = [AbstractArray(o.shape, o.dtype) for o in (out if primitive.multiple_results else [out])]
        return made if primitive.multiple_results else made[0]

    def process_call(self, primitive: Any, f: Any, args: Sequence[Any], params: Any, /) -> Any:
        """A function called as one step."""
        return self._inside(f, args)

    def process_custom_jvp_call(self, primitive: Any, fun: Any, jvp: Any, args: Sequence[Any], /, **_: Any) -> Any:
        """A function with a derivative of its own, which is not needed here."""
        return self._inside(fun, args)

    def process_custom_vjp_call(
        self, primitive: Any, fun: Any, fwd: Any, bwd: Any, args: Sequence[Any], /, **_: Any
    ) -> Any:
        """The same."""
        return self._inside(fun, args)

    def _inside(self, f: Any, args: Sequence[Any]) -> Any:
        from jax.extend.core import set_current_trace

        with set_current_trace(self):
            return f.call_wrapped(*args)


_HOME: Any = _AbstractTrace(None)


@contextmanager
def tracing() -> Iterator[None]:
    """A context in which code may compute with abstract arrays. Steps without any are computed as usual."""
    from jax.extend.core import set_current_trace

    current = current_trace()
    if isinstance(current, _AbstractTrace):
        yield
        return
    with set_current_trace(_AbstractTrace(current)):
        yield


def call(fn: Callable[..., Any], *args: Any) -> Any:
    """``fn(*args)``, where arrays without elements may be among what it reads."""
    with tracing():
        return fn(*args)


def _steps_are_recorded(xs: Sequence[Any]) -> bool:
    """Whether an array belongs to a run that will take its steps later, or is a constant of a program for a target."""
    if MODES.target is not None and not MODES.run.at_once:
        return not any(map(is_abstract, xs))
    return any(isinstance(x, jax.core.Tracer) and not is_abstract(x) for x in xs)


def described(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn`, which gives a list of arrays, for the meta device: their shapes and dtypes, whatever it is called with."""

    def run(*xs: Any) -> Any:
        if _steps_are_recorded(xs):
            return fn(*xs)
        return [AbstractArray(o.shape, o.dtype) for o in jax.eval_shape(fn, *xs)]

    return run


def kernel(fn: Callable[..., Any], outs: Sequence[Any], single: bool) -> Callable[..., Any]:
    """`fn` for arrays without elements: the results that are described by `outs`, without a computation.

    In a run that records steps `fn` is one of them.
    """

    def run(*xs: Any) -> Any:
        if _steps_are_recorded(xs):
            return fn(*xs)
        made = tuple([AbstractArray(m.shape, m.dtype.np) for m in outs])
        return made[0] if single else made

    return run
