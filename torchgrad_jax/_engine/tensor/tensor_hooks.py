"""Hooks that users put on tensors: gradients seen, replaced or retained."""

from __future__ import annotations

from typing import Any

from ..._core.errors.messages import HOOK_UNDER_JAX
from ..._core.state import MODES
from ..graph.history import grad_fn_of, requires_grad_of, retain_at_node
from ..graph.hooks import Hooks, RemovableHandle, enter
from ..memory.derivative_stops import is_differentiated
from ..memory.tensor import Tensor, watchers
from ..modes.belonging import is_hidden


def register_hook(t: Tensor, hook: Any) -> RemovableHandle:
    """Call ``hook(grad)`` whenever this tensor's gradient is computed."""
    if not requires_grad_of(t) or is_hidden(t):
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if is_differentiated(t):
        raise RuntimeError(HOOK_UNDER_JAX.format("a tensor has a hook on its gradient"))
    fn = grad_fn_of(t)
    if fn is None:
        MODES.run.uses.depend_on_leaf(t)
    x = watchers(t)
    if fn is None:
        if x.hooks is None:
            x.hooks = Hooks()
        return enter(x.hooks, hook)
    ex = fn._extras()
    if x.hooks is not None:  # those of the node before a view in place
        return enter(x.hooks, hook)
    group = Hooks()
    ex.tensor_pre.append((t._onr, group))
    x.hooks = group
    return enter(group, hook)


def register_post_accumulate_grad_hook(t: Tensor, hook: Any) -> RemovableHandle:
    """Call ``hook(tensor)`` after a gradient was added to this leaf's ``.grad``."""
    if not requires_grad_of(t):
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if grad_fn_of(t) is not None:
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    x = watchers(t)
    if x.post_acc is None:
        x.post_acc = Hooks()
    return enter(x.post_acc, hook)


def retain_grad(t: Tensor) -> None:
    """Keep the gradient of a non-leaf in its ``.grad``."""
    if not t.requires_grad:
        raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
    # A leaf; torch counts views of something tracked later, until their node is looked at.
    if t._fn is None:
        MODES.run.uses.depend_on_leaf(t)
        return
    grad_fn_of(t)
    x = watchers(t)
    if x.retains is None:
        retain_at_node(t)
