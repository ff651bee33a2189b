"""torch.compiler: what surrounds torch.compile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as _np

from .._bridge.compile.compile import compile as compile
from .._bridge.compile.stance import (
    POLICY as _POLICY,
    get_default_backend as get_default_backend,
    set_default_backend as set_default_backend,
    set_stance as set_stance,
)
from .._bridge.compile.verification import StaleProgramError as StaleProgramError
from .._core.arrays import tree as _tree
from .._core.errors.absent import refusal as _refusal
from .._core.errors.messages import Unsupported as _Unsupported, missing as _missing
from .._core.state import MODES
from .._engine.memory.tensor import Tensor as _Tensor
from .._functions.exchange import from_numpy as _from_numpy
from ._cache import load_cache_artifacts as load_cache_artifacts, save_cache_artifacts as save_cache_artifacts


def is_compiling() -> bool:
    """Return whether a function is being traced by torch.compile right now."""
    return any(run.may_write_outside for run in MODES.runs)


def is_dynamo_compiling() -> bool:
    """Return whether a function is being traced, as `is_compiling` does."""
    return is_compiling()


def is_exporting() -> bool:
    """False: nothing is ever exported."""
    return False


def reset() -> None:
    """Forget the programs of all compiled functions; each is retraced when it is called."""
    for compiled in list(_POLICY.compiled):
        compiled.reset()


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """List the one compiler there is, under torch's name for its default."""
    return ["inductor"]


def disable(fn: Callable[..., Any] | None = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Mark a function as not to be compiled.

    Called by itself it runs eagerly. Called from a compiled function it raises: a function is
    compiled whole here, and cannot be left in the middle.
    """
    import functools

    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason)
    if not callable(fn):
        raise AssertionError("fn must be callable")

    @functools.wraps(fn)
    def disabled(*args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            name = getattr(fn, "__qualname__", fn)
            raise _Unsupported(
                f"torch.compile: {name} is marked with torch.compiler.disable, and a compiled function has to be "
                "compiled whole; call it outside"
            )
        return fn(*args, **kwargs)

    return disabled


def allow_in_graph(fn: Any) -> Any:
    """Return the function (or functions) as it is: everything may be part of a compiled function."""
    if isinstance(fn, list | tuple):
        return [allow_in_graph(f) for f in fn]
    if not callable(fn):
        raise AssertionError("allow_in_graph expects a callable")
    return fn


def nonstrict_trace(traceable_fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function as it is: a compiled function calls it on tracers, as it does all Python code."""
    if not callable(traceable_fn):
        raise AssertionError("nonstrict_trace expects a callable")
    return traceable_fn


def substitute_in_graph(
    original_fn: Callable[..., Any], *, can_constant_fold_through: bool = False, skip_signature_check: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a Python function that says how another one, of C say, is to be traced.

    Compiled functions here call the other one itself, on tracers, so the Python function is not needed. What the
    decorator returns calls the other one, as torch's does outside of compiled functions.

    Args:
        original_fn: the other one.
        can_constant_fold_through: accepted.
        skip_signature_check: whether the two may take different arguments.

    Raises:
        TypeError: one of the two is no function, or their arguments differ.
    """
    import functools
    import inspect

    if not callable(original_fn):
        raise TypeError(f"substitute_in_graph expects a function but got {type(original_fn)!r}")

    def decorate(traceable_fn: Callable[..., Any]) -> Callable[..., Any]:
        if not callable(traceable_fn):
            raise TypeError(f"@substitute_in_graph(...) expects a function but got {type(traceable_fn)!r}")
        if not skip_signature_check:
            try:
                expected = inspect.signature(original_fn)
            except ValueError:  # of a function of C that does not tell
                expected = None
            given = inspect.signature(traceable_fn)
            if expected is not None and list(expected.parameters) != list(given.parameters):
                raise TypeError(f"Signature mismatch between {original_fn} and {traceable_fn}: {expected} != {given}")

        @functools.wraps(traceable_fn)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return original_fn(*args, **kwargs)

        found: Any = wrapper
        found.__torch_dynamo_original__, found.__torch_dynamo_polyfill__ = original_fn, traceable_fn
        found.__torch_dynamo_can_constant_fold_through__ = can_constant_fold_through
        return wrapper

    return decorate


def assume_constant_result(fn: Any) -> Any:
    """Return the function as it is: what is no tensor is a constant of the compiled function anyway."""
    return fn


def cudagraph_mark_step_begin() -> None:
    """Do nothing: XLA has no state between steps."""


def nested_compile_region(fn: Any = None, **settings: Any) -> Any:
    """Return the function as it is: what compiled functions call is part of their one program."""
    if settings:
        raise NotImplementedError(f"torch.compiler.nested_compile_region: {', '.join(settings)}")
    return nested_compile_region if fn is None else fn


def wrap_numpy(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function over NumPy arrays one over tensors; it cannot be part of a compiled function.

    Example:
        >>> import torchgrad_jax as torch
        >>> torch.compiler.wrap_numpy(lambda a: a.cumsum())(torch.ones(3))
        tensor([1., 2., 3.])
    """
    import functools

    @functools.wraps(fn)
    def over_tensors(*args: Any, **kwargs: Any) -> Any:
        given, named = _tree.map_leaves(lambda x: x.numpy() if isinstance(x, _Tensor) else x, (args, kwargs))
        return _tree.map_leaves(lambda x: _from_numpy(x) if isinstance(x, _np.ndarray) else x, fn(*given, **named))

    return over_tensors


precompile = _refusal(
    "torch.compiler.precompile",
    "torch.compile(f, fullgraph=True).aot_compile((args, kwargs)) compiles before the first call, and "
    "torch.compiler.load_compiled_function reads it; torch.compile(f).save(path, *args) is for one with its source",
    NotImplementedError,
)

# What exports functions is imported by those who need it.
__getattr__ = _missing(__name__, load_compiled_function="_ahead")
