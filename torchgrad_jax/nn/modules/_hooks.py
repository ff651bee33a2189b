"""Hooks that hold for all modules, and what a call of a module does when any hook is there."""

from __future__ import annotations

import functools
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

from ..._bridge.compile.watch.guards import AMBIENT
from ..._core.errors import warn
from ..._core.errors.messages import AsWritten
from ..._engine.graph.hooks import enter
from ..._engine.memory.tensor import Tensor
from ...utils.hooks import BackwardHook, RemovableHandle

Hooks = OrderedDict[int, Callable[..., Any]]
Flags = OrderedDict[int, bool]

buffer_registration: Hooks = OrderedDict()
module_registration: Hooks = OrderedDict()
parameter_registration: Hooks = OrderedDict()
forward_pre: Hooks = OrderedDict()
forward: Hooks = OrderedDict()
forward_with_kwargs: Flags = OrderedDict()
forward_always_called: Flags = OrderedDict()
backward_pre: Hooks = OrderedDict()
backward: Hooks = OrderedDict()
AMBIENT += [forward_pre, forward, backward_pre, backward]

_backward_is_full: bool | None = None
"""Of which kind the hooks in `backward` are; the two kinds do not mix."""


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, name, buffer)`` whenever any module registers a buffer.

    Args:
        hook: may return a tensor that is registered instead.
    """
    return enter(buffer_registration, hook)


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, name, submodule)`` whenever any module registers a submodule.

    Args:
        hook: may return a module that is registered instead.
    """
    return enter(module_registration, hook)


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, name, parameter)`` whenever any module registers a parameter.

    Args:
        hook: may return a parameter that is registered instead.
    """
    return enter(parameter_registration, hook)


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, args)`` before the forward of every module.

    Args:
        hook: may return new arguments.
    """
    return enter(forward_pre, hook)


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call ``hook(module, args, output)`` after the forward of every module.

    Args:
        hook: may return a new output.
        with_kwargs: whether the hook also gets the keyword arguments, before the output.
        always_call: whether it is called even when the forward raises.
    """
    handle = RemovableHandle(forward, extra_dict=[forward_with_kwargs, forward_always_called])
    forward[handle.id] = hook
    if with_kwargs:
        forward_with_kwargs[handle.id] = True
    if always_call:
        forward_always_called[handle.id] = True
    return handle


def remove_module_hooks(*hooks: Callable[..., Any]) -> None:
    """Remove hooks of the forward of all modules, those of them that are there."""
    for entered in (forward_pre, forward):
        for key in [key for key, hook in entered.items() if hook in hooks]:
            for table in (entered, forward_with_kwargs, forward_always_called):
                table.pop(key, None)


def register_module_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """The older kind of `register_module_full_backward_hook`, which sees one node only."""
    return _enter_backward(hook, False)


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, grad_output)`` before the backward of every module.

    Args:
        hook: may return new gradients of the outputs.
    """
    return enter(backward_pre, hook)


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, grad_input, grad_output)`` after the backward of every module.

    Args:
        hook: may return new gradients of the inputs.
    """
    return _enter_backward(hook, True)


def _enter_backward(hook: Callable[..., Any], full: bool) -> RemovableHandle:
    global _backward_is_full
    if _backward_is_full is not None and _backward_is_full is not full:
        raise RuntimeError(
            "Cannot use both regular backward hooks and full backward hooks as a global Module hook. Please use only "
            "one of them."
        )
    _backward_is_full = full
    return enter(backward, hook)


class _WrappedHook:
    """A hook that remembers its module without keeping it alive."""

    def __init__(self, hook: Callable[..., Any], module: Any = None) -> None:
        self.hook: Callable[..., Any] = hook
        functools.update_wrapper(self, hook)
        self.with_module: bool = module is not None
        if module is not None:
            self.module = weakref.ref(module)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self.with_module:
            return self.hook(*args, **kwargs)
        module = self.module()
        if module is None:
            raise RuntimeError("You are trying to call the hook of a dead Module!")
        return self.hook(module, *args, **kwargs)

    def __getstate__(self) -> dict[str, Any]:
        state = {"hook": self.hook, "with_module": self.with_module}
        if self.with_module:
            state["module"] = self.module()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.hook, self.with_module = state["hook"], state["with_module"]
        if self.with_module:
            if state["module"] is None:
                raise RuntimeError("You are trying to revive the hook of a dead Module!")
            self.module = weakref.ref(state["module"])


def backward_hooks(module: Any) -> tuple[list[Any], list[Any]]:
    """The backward hooks that hold for a module: those of the full kind, and the older ones."""
    full: list[Any] = []
    older: list[Any] = []
    for hooks, is_full in ((backward, _backward_is_full), (module._backward_hooks, module._is_full_backward_hook)):
        (full if is_full else older).extend(hooks.values())
    return full, older


def backward_pre_hooks(module: Any) -> list[Any]:
    """The hooks to call before the backward of a module, global ones first."""
    return [*backward_pre.values(), *module._backward_pre_hooks.values()]


def call(module: Any, run: Callable[..., Any], args: tuple[Any, ...], kwargs: Any) -> Any:
    """Call a module's forward with all hooks around it."""
    called: set[int] = set()
    try:
        return _call(module, run, args, kwargs, called)
    except (Exception, AsWritten):  # also where only a trace ends here: what such hooks put back has to be put back
        # The result that such hooks see is that of a forward that gave none.
        for hook, with_kwargs, whose in _still_to_call(module, called):
            try:
                given = (args, kwargs, None) if with_kwargs else (args, None)
                hook(module, *given)
            except AsWritten:  # by which a hook of the user's is not begun in a trace that has ended
                continue
            except Exception as error:
                warn.to_user(
                    f"{whose} forward hook with ``always_call=True`` raised an exception that was silenced as another "
                    f"error was raised in forward: {error!s}"
                )
        raise


def _call(module: Any, run: Callable[..., Any], args: tuple[Any, ...], kwargs: Any, called: set[int]) -> Any:
    args, kwargs = _before(module, args, kwargs)
    full, older = backward_hooks(module)
    pre = backward_pre_hooks(module)
    watch = BackwardHook(module, full, pre) if full or pre else None
    if watch is not None:
        args = watch.setup_input_hook(args)
    result = _after(module, args, kwargs, run(*args, **kwargs), called)
    if watch is not None:
        if not isinstance(result, Tensor | tuple):
            warn.to_user(
                "For backward hooks to be called, module output should be a Tensor or a tuple of Tensors but received "
                f"{type(result)}"
            )
        result = watch.setup_output_hook(result)
    if older:
        _attach_older(module, older, args, result)
    return result


def _before(module: Any, args: tuple[Any, ...], kwargs: Any) -> tuple[tuple[Any, ...], Any]:
    """The arguments as the pre-hooks leave them."""
    with_kwargs = module._forward_pre_hooks_with_kwargs
    for key, hook in (*forward_pre.items(), *module._forward_pre_hooks.items()):
        if key in with_kwargs:
            new = hook(module, args, kwargs)
            if new is None:
                continue
            if not (isinstance(new, tuple) and len(new) == 2):
                raise RuntimeError(
                    f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {new}."
                )
            args, kwargs = new
        else:
            new = hook(module, args)
            if new is not None:
                args = new if isinstance(new, tuple) else (new,)
    return args, kwargs


def _after(module: Any, args: tuple[Any, ...], kwargs: Any, result: Any, called: set[int]) -> Any:
    """The result as the forward hooks leave it; `called` learns which of the insistent ones ran."""
    for key, hook in (*forward.items(), *module._forward_hooks.items()):
        if key in module._forward_hooks_always_called or key in forward_always_called:
            called.add(key)
        if key in module._forward_hooks_with_kwargs or key in forward_with_kwargs:
            new = hook(module, args, kwargs, result)
        else:
            new = hook(module, args, result)
        if new is not None:
            result = new
    return result


def _still_to_call(module: Any, called: set[int]) -> Iterator[tuple[Any, bool, str]]:
    for hooks, always, with_kwargs, whose in (
        (forward, forward_always_called, forward_with_kwargs, "global module"),
        (module._forward_hooks, module._forward_hooks_always_called, module._forward_hooks_with_kwargs, "module"),
    ):
        for key, hook in list(hooks.items()):
            if key in always and key not in called:
                yield hook, key in with_kwargs, whose


def _attach_older(module: Any, hooks: list[Any], args: Any, result: Any) -> None:
    """Hooks of the older kind go on the node that made the (first) result."""
    first = result
    while not isinstance(first, Tensor):
        if isinstance(first, dict):
            first = next(v for v in first.values() if isinstance(v, Tensor))
        else:
            first = first[0]
    node = first.grad_fn
    if node is None:
        return
    for hook in hooks:
        node.register_hook(_WrappedHook(hook, module))
    module._maybe_warn_non_full_backward_hook(args, result, node)


_DEPRECATED = " is deprecated and will be removed in future versions. This hook will be missing some "
_INSTEAD = " Please use register_full_backward_hook to get the documented behavior."


def warn_about_older(inputs: Any, result: Any, node: Any) -> None:
    """Say what a hook of the older kind will not see."""
    text = _what_is_missed(inputs, result, node)
    if text:
        warn.to_user(text, FutureWarning)


def _what_is_missed(inputs: Any, result: Any, node: Any) -> str | None:
    results = (result,) if isinstance(result, Tensor) else result
    if not (isinstance(results, tuple) and all(isinstance(r, Tensor) for r in results)):
        return (
            "Using non-full backward hooks on a Module that does not return a single Tensor or a tuple of Tensors"
            f"{_DEPRECATED}of the grad_output.{_INSTEAD}"
        )
    given = (inputs,) if isinstance(inputs, Tensor) else inputs
    if not (isinstance(given, tuple) and all(isinstance(i, Tensor) for i in given)):
        return (
            "Using non-full backward hooks on a Module that does not take as input a single Tensor or a tuple of "
            f"Tensors{_DEPRECATED}of the grad_input.{_INSTEAD}"
        )
    makers = {r.grad_fn for r in results if r.grad_fn is not None}
    if not makers or (len(makers) == 1 and node not in makers):
        return (
            f"Using a non-full backward hook when outputs are nested in python data structure{_DEPRECATED}grad_output."
        )
    if len(makers) > 1:
        return (
            f"Using a non-full backward hook when outputs are generated by different autograd Nodes{_DEPRECATED}"
            f"grad_output.{_INSTEAD}"
        )
    before = {i.grad_fn for i in given if i.grad_fn is not None}
    if before != {n for n, _ in node.next_functions}:
        return (
            f"Using a non-full backward hook when the forward contains multiple autograd Nodes{_DEPRECATED}grad_input."
            f"{_INSTEAD}"
        )
    return None
