"""torch.compiler: what surrounds torch.compile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._bridge.compile import compile as compile
from .._core.errors import no_such_name as _no_such_name
from .._core.state import LIFT, MODES


def is_compiling() -> bool:
    """Whether a function is being traced by torch.compile right now."""
    return bool(MODES.bits & LIFT and MODES.lifts[-1].stateful)


def is_dynamo_compiling() -> bool:
    """As `is_compiling`."""
    return is_compiling()


def is_exporting() -> bool:
    """False: nothing is ever exported."""
    return False


def reset() -> None:
    """Nothing is shared between compiled functions, so that there is nothing to forget; drop them instead."""


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """The one compiler there is, under torch's name for its default."""
    return ["inductor"]


def disable(
    fn: Callable[..., Any] | None = None, recursive: bool = True, *, reason: str | None = None
) -> Any:
    """Mark a function as not to be compiled.

    Called by itself it runs as it is written. Called from a compiled function it raises: a function is
    compiled whole here, and cannot be left in the middle.
    """
    import functools

    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason)
    if not callable(fn):
        raise RuntimeError(f"torch.compiler.disable expects a function or a module, got {type(fn)}")

    @functools.wraps(fn)
    def disabled(*args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            name = getattr(fn, "__qualname__", fn)
            raise RuntimeError(
                f"torch.compile: {name} is marked with torch.compiler.disable, and a compiled function has to be "
                "compiled whole; call it outside"
            )
        return fn(*args, **kwargs)

    return disabled


def allow_in_graph(fn: Any) -> Any:
    """The function as it is: everything may be part of a compiled function."""
    return fn


def assume_constant_result(fn: Any) -> Any:
    """The function as it is: what is no tensor is a constant of the compiled function anyway."""
    return fn


def cudagraph_mark_step_begin() -> None:
    """Nothing: XLA has no state between steps."""


def __getattr__(name: str) -> Any:
    raise AttributeError(_no_such_name(f"torch.compiler.{name}"))
