"""Handles of hooks, as in torch.utils.hooks."""

from __future__ import annotations

from typing import Any

from .._engine.hooks import (
    RemovableHandle as RemovableHandle,
    warn_if_has_hooks as warn_if_has_hooks,
)


def unserializable_hook(f: Any) -> Any:
    """Mark a hook as one that may be lost silently when its tensor is serialised.

    Args:
        f: the hook.

    Returns:
        The same hook.
    """
    f.__torch_unserializable__ = True
    return f


__all__ = ["RemovableHandle", "unserializable_hook", "warn_if_has_hooks"]
