"""Hook containers and the handle that removes a hook again."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from typing import Any

from ..._core.errors import warn
from ..._core.signals import restore, uninterrupted


class RemovableHandle:
    """Removes a hook: call `remove()`, or use it as a context manager."""

    id: int
    next_id: int = 0

    def __init__(self, hooks_dict: Any, *, extra_dict: Any = None) -> None:
        self.hooks_dict_ref = weakref.ref(hooks_dict)
        self.id = RemovableHandle.next_id
        RemovableHandle.next_id += 1
        self.extra_dict_ref: tuple[Any, ...] = ()
        if isinstance(extra_dict, dict):
            self.extra_dict_ref = (weakref.ref(extra_dict),)
        elif isinstance(extra_dict, list):
            self.extra_dict_ref = tuple(weakref.ref(d) for d in extra_dict)

    def remove(self) -> None:
        """Take the hook out of its container; doing so twice is harmless."""
        for ref in (self.hooks_dict_ref, *self.extra_dict_ref):
            hooks = ref()
            if hooks is not None and self.id in hooks:
                del hooks[self.id]

    def __getstate__(self) -> Any:
        refs = tuple(ref() for ref in self.extra_dict_ref)
        return (self.hooks_dict_ref(), self.id, refs)

    def __setstate__(self, state: Any) -> None:
        hooks = state[0] if state[0] is not None else OrderedDict()
        self.hooks_dict_ref = weakref.ref(hooks)
        self.id = state[1]
        RemovableHandle.next_id = max(RemovableHandle.next_id, self.id + 1)
        extra = state[2] if len(state) > 2 and state[2] is not None else ()
        self.extra_dict_ref = tuple(weakref.ref(d if d is not None else OrderedDict()) for d in extra)

    def __enter__(self) -> RemovableHandle:
        return self

    @uninterrupted
    def __exit__(self, *exc: object) -> None:
        restore(self.remove)


RemovableHandle.__module__ = "torchgrad_jax.utils.hooks"  # the module where users find it

Hooks = OrderedDict
"""Hooks by handle id, in order of registration."""


def enter(hooks: Hooks[int, Any], hook: Any) -> RemovableHandle:
    """Put a hook into a container and return its handle."""
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


def warn_if_has_hooks(tensor: Any) -> None:
    """Say that serialising a tensor drops its backward hooks."""
    if tensor._backward_hooks:
        for hook in tensor._backward_hooks.values():
            if not hasattr(hook, "__torch_unserializable__"):
                warn.to_user(
                    f"backward hook {hook!r} on tensor will not be "
                    "serialized.  If this is expected, you can "
                    "decorate the function with @torch.utils.hooks.unserializable_hook "
                    "to suppress this warning"
                )
