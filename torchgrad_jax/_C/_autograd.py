"""Saved tensors and version counters under their private names, as in torch._C._autograd."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._core.errors.messages import missing as _missing
from .._core.state import MODES
from .._engine.graph.saved import SavedTensor as SavedTensor
from .._engine.memory.tensor import Tensor
from ..autograd.graph import (
    _pop_saved_tensors_default_hooks as _pop_hooks,
    _push_saved_tensors_default_hooks as _push_saved_tensors_default_hooks,
)


def _pop_saved_tensors_default_hooks() -> None:
    """Remove the innermost pair of hooks on saved tensors."""
    if not MODES.pack_hooks:
        raise RuntimeError("there are no hooks on saved tensors to remove")
    _pop_hooks()


def _top_saved_tensors_default_hooks(ignore_is_tracing: bool) -> Any:
    """The innermost pair of hooks on saved tensors, or None."""
    del ignore_is_tracing  # nothing is traced here
    return MODES.pack_hooks[-1] if MODES.pack_hooks else None


def _saved_tensors_hooks_is_enabled() -> bool:
    """Return whether hooks on saved tensors may be used."""
    return MODES.hooks_disabled is None


def _saved_tensors_hooks_disable(error_message: str, fail_if_non_empty: bool = True) -> None:
    """Make the use of hooks on saved tensors an error with this message."""
    if fail_if_non_empty and MODES.pack_hooks:
        raise RuntimeError(error_message)
    MODES.hooks_disabled = error_message


def _saved_tensors_hooks_enable() -> None:
    """Allow hooks on saved tensors again."""
    MODES.hooks_disabled = None


def _saved_tensors_hooks_get_disabled_error_message() -> str | None:
    """Return what using hooks on saved tensors raises, or None."""
    return MODES.hooks_disabled


def _all_are(values: Any, kind: type) -> bool:
    return isinstance(values, list | tuple) and all(isinstance(v, kind) for v in values)


def _unsafe_set_version_counter(tensors: Sequence[Tensor], versions: Sequence[int]) -> None:
    """Set how often each tensor was written to."""
    if not (_all_are(tensors, Tensor) and _all_are(versions, int)):
        raise TypeError(
            "_unsafe_set_version_counter(): incompatible function arguments. The following argument types are "
            "supported:\n    1. (arg0: collections.abc.Sequence[torch.Tensor], arg1: "
            "collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex]) -> None\n\n"
            f"Invoked with: {tensors!r}, {versions!r}"
        )
    if len(tensors) != len(versions):
        raise RuntimeError(f"tensors_len={len(tensors)}, versions_len={len(versions)}")
    for t, version in zip(tensors, versions):
        if version < 0:
            raise RuntimeError(f"Cannot set a version_counter to a value below 0: {version}")
        t._vc.version = version


def _get_current_graph_task_keep_graph() -> bool:
    """Return whether the running pass keeps what the graph saved; True outside of a pass."""
    task = MODES.graph_task
    return True if task is None else bool(task.keep)


__getattr__ = _missing(__name__)
