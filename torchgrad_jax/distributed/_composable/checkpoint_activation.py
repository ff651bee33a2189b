"""`checkpoint`: a module whose forward runs again in the backward pass, and which stays the module that it is."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ...utils.checkpoint import checkpoint as checkpoint_call

__all__ = ["checkpoint"]

_OPTIONS = frozenset({"preserve_rng_state", "context_fn", "determinism_check", "debug", "early_stop"})


def checkpoint(module: Any, **kwargs: Any) -> Any:
    """Have each forward of a module keep only its inputs, as `torch.utils.checkpoint.checkpoint` does.

    Args:
        module: changed in place; the names of its parameters stay.
        kwargs: options of `torch.utils.checkpoint.checkpoint`, but `use_reentrant`, which is False.

    Raises:
        NotImplementedError: `use_reentrant` is True.
        ValueError: an option is unknown.
        AssertionError: it was called with this module before.

    Example:
        >>> import torchgrad_jax as torch
        >>> from torchgrad_jax.distributed._composable import checkpoint
        >>> net = torch.nn.Sequential(checkpoint(torch.nn.Linear(2, 2)), torch.nn.Tanh())
        >>> net(torch.ones(1, 2)).sum().backward()
    """
    if getattr(module.__dict__.get("forward"), "func", None) is _run:
        raise AssertionError(
            "Each distinct composable distributed API can only be applied to a module once. checkpoint has already "
            f"been applied to the following module:\n{module}"
        )
    if kwargs.pop("use_reentrant", False):
        raise NotImplementedError(
            "use_reentrant=True is not supported in composable checkpoint. Please use "
            "torch.utils.checkpoint.checkpoint instead."
        )
    if unknown := [name for name in kwargs if name not in _OPTIONS]:
        raise ValueError("Unexpected keyword arguments: " + ",".join(unknown))
    module.forward = functools.partial(_run, module.forward, kwargs)
    return module


def _run(forward: Callable[..., Any], options: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
    return checkpoint_call(functools.partial(forward, **kwargs), *args, use_reentrant=False, **options)
