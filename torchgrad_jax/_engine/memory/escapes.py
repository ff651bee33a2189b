"""What JAX traces must not outlive its trace in a tensor that was there before.

`jax.jit(f)`, `jax.grad(f)` and the like run `f` on tensors that hold JAX's tracers. A tracer written to a tensor
from outside of `f` would still be there when the trace is over, where nobody can use it. So such writes are
refused before they happen, and writes of plain values that `f` made before that are undone. Transforms that keep
the steps of `f` instead of running it again (`jit`, `scan`, `checkpoint`) refuse every write to the outside: later
calls would not repeat it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax

from ..._core.errors.messages import TRACED_ESCAPES, user_line
from ..._core.jax.abstract import is_abstract
from ..._core.jax.running_transforms import began, running
from ..._core.state import MODES, UNDER_JAX, next_level
from .tensor import Tensor, born


def _level_of(array: Any) -> int:
    """The number of the trace of JAX's or of `to_jax` that an array belongs to; 0 for values and other runs' own."""
    if not isinstance(array, jax.core.Tracer) or is_abstract(array):
        return 0
    for run in MODES.runs:
        if run.owns(array):
            return run.birth if run.jax_derives and run.batch is None else 0
    return began(array._trace)


def _running() -> Iterator[Any]:
    """The transforms of JAX's that the code is in, from the innermost, as far as a run of ours."""
    own = [t for run in MODES.runs for t in run.traces]
    return itertools.takewhile(lambda trace: not any(trace is t for t in own), running())


def inside_jax() -> bool:
    """Return whether a transform of JAX's, and no graph, differentiates the code that runs."""
    if MODES.run.jax_derives and MODES.run.batch is None:
        return True
    return bool(MODES.bits & UNDER_JAX) and any(traced_for(trace) not in OF_CONTROL_FLOW for trace in _running())


OF_CONTROL_FLOW = ("scan", "cond", "switch", "while_cond", "while_body", "fori_loop", "checkpoint / remat")
"""What JAX says of traces that its own control flow makes: by themselves they differentiate nothing."""


def traced_for(trace: Any) -> Any:
    """Return what JAX says that it makes a trace for, such as "jit"; None where it says nothing."""
    return getattr(getattr(getattr(trace, "frame", None), "debug_info", None), "traced_for", None)


def _level_of_steps() -> int:
    """The number of the innermost trace that keeps steps, to take them again without running Python."""
    return next((began(t) for t in _running() if type(t).__name__ == "DynamicJaxprTrace"), 0)


def refuse_escape(made: Iterable[int], arrays: Iterable[Any], what: str = "write to") -> None:
    """Raise if one of the arrays may not be kept in things that were made inside of these transforms.

    There is something to refuse only while `MODES.bits & UNDER_JAX`.
    """
    oldest = min(made, default=None)
    if oldest is not None and oldest < max([_level_of_steps(), *map(_level_of, arrays)]):
        _undo()
        raise RuntimeError(TRACED_ESCAPES.format(what=what) + user_line())


def hold_outside(holder: int, value: Tensor) -> None:
    """A tensor becomes part of something that was made at `holder`: later writes to it are writes to that."""
    st = value._st
    st.born = min(st.born, holder)


def before_write(t: Tensor, array: Any) -> None:
    """A tensor is about to be overwritten, which is refused or can be undone."""
    st, vc = t._st, t._vc
    refuse_escape([st.born], [array])
    held, version = st.array, vc.version

    def undo() -> None:
        st.array, vc.version = held, version
        st.stamp += 1  # views may remember what they saw in between

    _remember(st.born, undo)


def before_gradients(leaves: Iterable[Tensor], arrays: Iterable[Any]) -> None:
    """The gradients of these leaves are about to be replaced by such arrays, which is refused or can be undone."""
    leaves = list(leaves)
    refuse_escape(map(born, leaves), arrays, "change the gradient of")
    for leaf in leaves:
        _remember(born(leaf), lambda leaf=leaf, g=leaf._g: setattr(leaf, "_g", g))


def _remember(made: int, undo: Callable[[], None]) -> None:
    """Keep how to undo a write to something from outside of all of JAX's transforms that are running."""
    began_at = min(map(began, _running()), default=0)
    if made < began_at:
        if MODES.undo and MODES.undo[0][0] < began_at:  # these entries are left of an earlier call
            MODES.undo = []
        MODES.undo = [*MODES.undo, (next_level(), undo)]


def _undo() -> None:
    began_at = min(map(began, _running()), default=0)
    while MODES.undo:
        *MODES.undo, (number, undo) = MODES.undo
        if number > began_at:
            undo()
