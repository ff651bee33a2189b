"""Refuse tensors in functions of JAX's own that would drop their gradient.

`jax.lax.scan(f, w, xs)` computes with the arrays of the tensors. Where `w` requires a gradient (or a tensor that `f`
closes over does), the result would have none, and nobody would notice. So the error names the function of `interop`
that is an operator of the graph:

    jax.lax.scan(f, w, xs)                               # refused
    torchgrad_jax.interop.scan(f, w, xs)                 # one operator; `w` gets its gradient
    jax.grad(lambda w: jax.lax.scan(f, w, xs)[0])(w)     # JAX's: JAX differentiates it

A function with a derivative of its own (`jax.custom_jvp`, such as `jax.nn.relu`), called by code that nothing traces,
drops it likewise.

JAX takes the tensors apart to get their arrays, arguments as well as results, and asks `trees.py` for that. Which of
its functions does so is seen from the frames of JAX's that called.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

import jax

from ..._core.jax.running_transforms import HOME_OF_JAX
from ..._core.state import GRAD, MODES
from ..._engine.graph.history import requires_grad_of
from ..._engine.memory.escapes import inside_jax, traced_for
from ..._engine.memory.tensor import Tensor
from ..._engine.tensor.values import GRAPH_LOST

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


def _file_of(fn: Any) -> str:
    return inspect.unwrap(fn).__code__.co_filename


_OF_CHECKPOINT, _OF_WHILE_LOOP = _file_of(jax.checkpoint), _file_of(jax.lax.while_loop)
_FILES = frozenset(
    {
        *(_file_of(getattr(jax.lax, name)) for name in CONTROL_FLOW),
        *(_OF_CHECKPOINT, _file_of(jax.custom_jvp.__call__), _file_of(jax.custom_vjp.__call__)),
    }
)
"""The files of JAX's that its control flow is in, and functions with a derivative of their own."""


def is_taken_in_steps(t: Tensor, loses: bool) -> bool:
    """Whether a function of JAX's that runs one of the user's as steps of its own takes apart a tensor with a gradient.

    Raise if the gradient would be dropped. Such functions are control flow, and those with a derivative of their own.
    """
    outermost = _caller_in(_FILES)
    if outermost is None:
        return False
    if (loses or (MODES.bits & GRAD and requires_grad_of(t))) and not _is_followed():
        name = _name_in_interop(outermost)
        where = "" if name == "checkpoint" else "lax."
        raise RuntimeError(GRAPH_LOST if name is None else _USE_INTEROP.format(where=where, name=name))
    return True


def refuse_as_condition(t: Tensor) -> None:
    """Raise if a traced bool is what the condition of JAX's own `while_loop` returns."""
    if traced_for(t._st.array._trace) == "while_cond" and _caller_in((_OF_WHILE_LOOP,)) is not None:
        raise TypeError(_CONDITION)


def _is_followed() -> bool:
    """Whether a transform around JAX's control flow differentiates it, or the user gave it constants on purpose."""
    run = MODES.run
    if (run.jax_derives or run.batch is not None) and run.runs_alone():
        return True
    return inside_jax()


def _caller_in(files: Collection[str]) -> Any:
    """The code of the function of JAX's that the user has called, if it comes to one of these files; or None."""
    frame: Any = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.startswith(_HERE):
        frame = frame.f_back
    outermost, comes_to_them = None, False
    while frame is not None and (file := frame.f_code.co_filename).startswith(HOME_OF_JAX):
        comes_to_them = comes_to_them or file in files
        if not file.endswith("traceback_util.py"):
            outermost = frame.f_code
        frame = frame.f_back
    return outermost if comes_to_them else None


_HERE = f"{Path(__file__).parent}{os.sep}"


def _name_in_interop(code: Any) -> str | None:
    """The name that a function of JAX's control flow has in `interop`."""
    if code.co_filename == _OF_CHECKPOINT:
        return "checkpoint"
    return code.co_name if code.co_name in CONTROL_FLOW else None
