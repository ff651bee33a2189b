"""Refuse tensors in functions of JAX's own that would drop their gradient.

`jax.lax.scan(f, w, xs)` computes with the arrays of the tensors. Where `w` requires a gradient (or a tensor that `f`
closes over does), the result would have none, and nobody would notice. So the error names the function of `interop`
that is an operator of the graph:

    jax.lax.scan(f, w, xs)                               # refused
    torchgrad_jax.interop.scan(f, w, xs)                 # one operator; `w` gets its gradient
    jax.grad(lambda w: jax.lax.scan(f, w, xs)[0])(w)     # JAX's: JAX differentiates it

JAX takes the tensors apart to get their arrays, arguments as well as results, and asks `trees.py` for that. Which of
its functions does so is seen from the frames of JAX's that called.
"""

from __future__ import annotations

import functools
import inspect
import sys
from typing import Any

import jax

from ..._core.jax.running_transforms import HOME_OF_JAX
from ..._core.state import GRAD, MODES
from ..._engine.graph.history import requires_grad_of
from ..._engine.memory.escapes import inside_jax, traced_for
from ..._engine.memory.tensor import Tensor

CONTROL_FLOW = ("associative_scan", "cond", "fori_loop", "map", "scan", "switch", "while_loop")
"""Functions of `jax.lax` that have one of the same name in `interop`; `checkpoint` is another one, of `jax`."""

_USE_INTEROP = (
    "jax.{where}{name} would drop the gradient of a tensor that is given to it, or that its function reads. Import "
    "{name} from torchgrad_jax.interop instead, and give it tensors: it is an operator of the graph. Or call it under "
    "torch.no_grad() or with tensor.detach(), where no gradient is wanted"
)
_CONDITION = (
    "the condition of jax.lax.while_loop has to return an array, and returns a tensor: import while_loop from "
    "torchgrad_jax.interop, whose condition may return one"
)


def is_given_to_control_flow(t: Tensor, loses: bool) -> bool:
    """Whether control flow of JAX's takes apart a tensor that may have a gradient; raise if that would be dropped."""
    name = _calling_function()
    if name is None:
        return False
    if (loses or (MODES.bits & GRAD and requires_grad_of(t))) and not _is_followed():
        raise RuntimeError(_USE_INTEROP.format(where="" if name == "checkpoint" else "lax.", name=name))
    return True


def refuse_as_condition(t: Tensor) -> None:
    """Raise if a traced bool is what the condition of JAX's own `while_loop` returns."""
    if traced_for(t._st.array._trace) == "while_cond" and _calling_function() == "while_loop":
        raise TypeError(_CONDITION)


def _is_followed() -> bool:
    """Whether a transform around JAX's control flow differentiates it, or the user gave it constants on purpose."""
    run = MODES.run
    if (run.jax_derives or run.batch is not None) and run.runs_alone():
        return True
    return inside_jax()


def _calling_function() -> str | None:
    """The function of JAX's that the user has called, if it is control flow."""
    frame: Any = sys._getframe(2)
    while frame is not None and not frame.f_code.co_filename.startswith(HOME_OF_JAX):
        if frame.f_globals.get("__package__") != __package__:
            return None
        frame = frame.f_back
    outermost, files = None, _files()
    while frame is not None and (file := frame.f_code.co_filename).startswith(HOME_OF_JAX):
        if not file.endswith("traceback_util.py"):
            outermost = frame.f_code
        frame = frame.f_back
    if outermost is None or outermost.co_filename not in files:
        return None
    return _named(outermost)


def _named(code: Any) -> str | None:
    if code.co_filename == _file_of(jax.checkpoint):
        return "checkpoint"
    return code.co_name if code.co_name in CONTROL_FLOW else None


@functools.cache
def _files() -> frozenset[str]:
    """The files of JAX's that its control flow is in."""
    return frozenset(map(_file_of, (jax.checkpoint, *[getattr(jax.lax, name) for name in CONTROL_FLOW])))


@functools.cache
def _file_of(fn: Any) -> str:
    return inspect.unwrap(fn).__code__.co_filename
