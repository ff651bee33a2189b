"""torch._jit_internal: marks that TorchScript reads. Here they leave functions as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final as Final

from ._core.errors.messages import missing as _missing
from .jit import (
    _overload as _overload,
    _overload_method as _overload_method,
    export as export,
    ignore as ignore,
    is_scripting as is_scripting,
    unused as unused,
)
from .jit.annotations import (
    BroadcastingList1 as BroadcastingList1,
    BroadcastingList2 as BroadcastingList2,
    BroadcastingList3 as BroadcastingList3,
)


def _copy_to_script_wrapper(fn: Any) -> Any:
    """The method as it is."""
    return fn


def boolean_dispatch(
    arg_name: str,
    arg_index: int,
    default: bool,
    if_true: Callable[..., Any],
    if_false: Callable[..., Any],
    module_name: str,
    func_name: str,
) -> Callable[..., Any]:
    """One function of two, chosen in each call by the flag `arg_name`, the argument at `arg_index`."""

    def fn(*args: Any, **kwargs: Any) -> Any:
        given = args[arg_index] if arg_index < len(args) else default
        return (if_true if kwargs.get(arg_name, given) else if_false)(*args, **kwargs)

    if if_true.__doc__ is not None and if_false.__doc__ is not None:
        raise RuntimeError("only one function can have a docstring")
    fn.__doc__ = if_true.__doc__ or if_false.__doc__
    if module_name is not None:
        fn.__module__ = module_name
    if func_name is not None:
        fn.__name__ = func_name
    return fn


__getattr__ = _missing(__name__)
