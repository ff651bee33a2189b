"""torch._dynamo.compiled_autograd: backward passes are compiled anyway, so what turns that on does nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .._core.errors import warn
from .._core.errors.messages import missing as _missing
from .._core.jax.caches import remember
from .._core.signals import contextmanager


@remember()
def _say_why() -> None:
    warn.to_user(
        "torch._dynamo.compiled_autograd has no effect here: a backward pass in a compiled function is part of its "
        "program, and one outside runs by compiled kernels; put backward() into the function that torch.compile gets "
        "to have both in one program"
    )


@contextmanager
def _enable(
    compiler_fn: Callable[..., Any], dynamic: bool = True, ignore_active_disable_ctx: bool = True
) -> Iterator[None]:
    """A context that changes nothing, and says once why."""
    _say_why()
    yield


enable = _enable


@contextmanager
def _disable() -> Iterator[None]:
    """A context that changes nothing: there is nothing to turn off."""
    yield


def reset() -> None:
    """Nothing: there is no state."""


compiled_autograd_enabled = False
"""As torch says it outside of such a context."""
in_compiled_autograd_region = False

__getattr__ = _missing(__name__)
