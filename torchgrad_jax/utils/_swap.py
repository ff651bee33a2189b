"""Exchange everything about two tensors but their identity."""

from __future__ import annotations

import weakref
from typing import Any

from .._core.state import MODES, UNDER_JAX
from .._engine.memory.escapes import refuse_escape
from .._engine.memory.tensor import Tensor, born


def _slots(kind: type) -> set[str]:
    """Slots that the class of a tensor added to those of Tensor."""
    names: set[str] = set()
    for cls in kind.__mro__:
        if cls is not Tensor and issubclass(cls, Tensor):
            found = cls.__dict__.get("__slots__", ())
            names.update([found] if isinstance(found, str) else found)
    return names - {"__dict__", "__weakref__"}


def _refuse(grads: Any) -> None:
    """Stop the backward pass of a graph that was recorded before its leaf was exchanged."""
    raise RuntimeError(
        "Trying to execute AccumulateGrad node that was poisoned by swap_tensors this can happen when you try to run "
        "backward on a tensor that was swapped. For a module m with "
        "`torch.__future__.set_swap_module_params_on_conversion(True)` you should not change the device or dtype of "
        "the module (e.g. `m.cpu()` or `m.half()`) between running forward and backward. To resolve this, please only "
        "change the device/dtype before running forward (or after both forward and backward)."
    )


def swap_tensors(t1: Any, t2: Any) -> None:
    """Let each of two tensors become the other, for all that hold them: values, class, attributes, gradient, history.

    Args:
        t1: a tensor.
        t2: another one.

    Raises:
        RuntimeError: if somebody holds a weak reference to one of them, or their classes have different slots.
    """
    for name, t in (("t1", t1), ("t2", t2)):
        if weakref.getweakrefs(t):
            raise RuntimeError(f"Cannot swap {name} because it has weakref associated with it")
    if _slots(type(t1)) != _slots(type(t2)):
        raise RuntimeError("Cannot swap t1 and t2 if they have different slots")
    if not isinstance(t1, Tensor) or not isinstance(t2, Tensor):
        raise TypeError(f"swap_tensors(): expected two tensors, not {type(t1).__name__} and {type(t2).__name__}")
    if MODES.bits & UNDER_JAX:
        refuse_escape([born(t1)], [t2._st.array])
        refuse_escape([born(t2)], [t1._st.array])
    t1.__class__, t2.__class__ = t2.__class__, t1.__class__
    own = [n for n in Tensor.__slots__ if n not in ("__dict__", "__weakref__")]
    for name in (*own, *_slots(type(t1))):
        there = [hasattr(t, name) for t in (t1, t2)]
        values = [getattr(t, name, None) for t in (t1, t2)]
        for t, has, value in ((t1, there[1], values[1]), (t2, there[0], values[0])):
            if has:
                setattr(t, name, value)
            elif hasattr(t, name):
                delattr(t, name)
    t1.__dict__, t2.__dict__ = t2.__dict__, t1.__dict__
    for t in (t1, t2):  # nodes that add to `.grad` know their tensor
        sink = None if t._acc is None else t._acc()
        if sink is not None:
            sink.variable = t
            sink.register_prehook(_refuse)
