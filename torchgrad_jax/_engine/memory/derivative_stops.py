"""Where torch's derivative ends, for JAX's: in code that JAX traces itself, outside of our traced runs.

`jax.grad(f)` and the like run `f` on tensors that hold JAX's tracers. JAX follows arrays and knows neither
`detach()` nor `no_grad`, so what they give is cut off from the derivative where it is made.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
from jax import lax

from ..._core.arrays import dtypes
from ..._core.jax.abstract import is_abstract
from ..._core.jax.custom_jvp import custom_jvp
from ..._core.jax.running_transforms import current_trace
from ..._core.state import CUT, MODES
from .tape import Value
from .tensor import Storage, Tensor

_ARRAY: Any = Storage.array


class StoppedStorage(Storage):
    """A storage as a detached tensor sees it: what is read has no derivative, what is written is written."""

    __slots__ = ("whole",)

    def __init__(self, whole: Storage) -> None:
        self.whole = whole
        _ARRAY.__set__(self, None)  # for `held_by`, which looks at the slot first

    @property
    def array(self) -> Any:
        """The elements."""
        array = self.whole.array
        return array if _in_run(array) else stopped(array)  # a run stops where it reads

    @array.setter
    def array(self, value: Any) -> None:
        self.whole.array = unrecorded(self.whole.array, value)


def _passed_on(name: str) -> Any:
    def get(self: StoppedStorage) -> Any:
        return getattr(self.whole, name)

    return property(get, lambda self, value: setattr(self.whole, name, value))


for _name in ("born", "meta", "pointer", "stamp", "version"):
    setattr(StoppedStorage, _name, _passed_on(_name))


def stopped(array: Any) -> Any:
    """An array without a derivative, if JAX may be taking one."""
    return lax.stop_gradient(array) if _jax_follows(array) else array


def without_cotangent(array: Any) -> Any:
    """An array that no cotangent goes back through, while tangents go on: what torch's `no_grad` makes.

    The engine takes tangents of the backward pass of a `vmap` by `jax.jvp`. Those of what needs no gradient belong to
    the result, although no gradient goes there.
    """
    return _cotangent_stop().bind(array)


@functools.cache
def _cotangent_stop() -> Any:
    """The primitive. It is made when it is first used, because its imports are slow."""
    from jax.extend.core import Primitive
    from jax.interpreters import ad, batching, mlir

    p = Primitive("stop_cotangent")
    p.made_by = _cotangent_stop  # so another process makes it, which reads a trace with this step
    p.def_abstract_eval(lambda x: jax.core.ShapedArray(x.shape, x.dtype))
    p.def_impl(lambda x: x)
    ad.deflinear2(p, lambda ct, x: [ad.Zero(x.aval)])
    batching.defvectorized(p)
    mlir.register_lowering(p, lambda _, x: [x])
    return p


def _jax_follows(array: Any) -> bool:
    """Whether an array is a tracer; those without data are no part of what JAX derives."""
    return isinstance(array, jax.core.Tracer) and not is_abstract(array)


def _in_run(array: Any) -> bool:
    return any(run.owns(array) for run in MODES.runs)


def is_traced(t: Tensor) -> bool:
    """Whether a tensor holds a tracer that is JAX's own and not a traced run's of ours."""
    array = t._st.array
    return MODES.traced and _jax_follows(array) and not _in_run(array)


def is_derived(t: Tensor) -> bool:
    """Whether JAX takes a derivative of code outside of our runs, and follows it through this tensor of that code."""
    return t._m.dtype.category >= dtypes.FLOATING and is_traced(t)


def is_differentiated(t: Tensor) -> bool:
    """Whether JAX derives what is computed of a tensor, outside of our runs. (Inside of `jax.jit` nobody can say.)"""
    array = t._st.array if is_traced(t) else None
    while isinstance(array, jax.core.Tracer):
        if type(array).__module__.endswith("interpreters.ad"):
            return True
        array = getattr(array, "val", None)
    return False


def stop_derivative_if_traced(out: Tensor, of: Tensor) -> None:
    """Cut `out`, an alias of `of` without history, off what JAX derives."""
    if is_traced(of) or (MODES.run.jax_derives and MODES.run.inside(of)):
        stop_derivative(out)


def stop_derivative(t: Tensor) -> None:
    """Cut a fresh alias of a tensor that JAX traces from its derivative."""
    if isinstance(t._st, StoppedStorage):
        return
    own = t._vc is t._st
    t._st = StoppedStorage(t._st)
    if own:
        t._vc = t._st


def under_jax(frozen: bool = False) -> bool:
    """Whether JAX is tracing the code that runs, for a transform that was called on tensor code as it is.

    With `frozen`, whether what it does now will be done again without running it (`jax.jit` and the like).
    """
    if not MODES.traced:
        return False
    current = current_trace()
    if current is None or type(current).__name__ == "EvalTrace":
        return False
    if frozen and type(current).__name__ != "DynamicJaxprTrace":
        return False
    return not any(current is trace for run in MODES.runs for trace in run.traces)


def derivative_stop_bit() -> int:
    """The bit to add to the modes when recording is turned off here."""
    return CUT if under_jax() else 0


@custom_jvp
def _overwritten(old: Any, new: Any) -> Any:
    """New elements in the old ones' place, with the old ones' derivative."""
    return new


@_overwritten.defjvp
def _overwritten_jvp(primals: Any, tangents: Any) -> Any:
    return primals[1], tangents[0]


def unrecorded(old: Any, new: Any) -> Any:
    """What a write without recording leaves: torch's history of a tensor does not change by it."""
    if _jax_follows(old) and old.dtype == new.dtype and old.shape == new.shape:
        if isinstance(old, Value):  # a tape knows the function again, as it would not a trace of it
            taken = old._trace.kernel(_overwritten, (old, new), old.aval)
            if taken is not None:
                return taken
        return _overwritten(old, new)
    return stopped(new)


def storage_behind(t: Tensor) -> Any:
    """A tensor's storage, also where it is a detached tensor's view of it."""
    return getattr(t._st, "whole", t._st)
