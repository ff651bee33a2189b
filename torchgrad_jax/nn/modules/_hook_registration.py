"""The hooks that a module can be given, one method for each kind."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from ...utils.hooks import RemovableHandle
from . import _hooks
from ._parts import part_of_module

Hooks = OrderedDict[int, Callable[..., Any]]


@part_of_module
class HookRegistration:
    """The methods of `Module` that register hooks."""

    _backward_pre_hooks: Hooks
    _backward_hooks: Hooks
    _is_full_backward_hook: bool | None
    _forward_hooks: Hooks
    _forward_hooks_with_kwargs: OrderedDict[int, bool]
    _forward_hooks_always_called: OrderedDict[int, bool]
    _forward_pre_hooks: Hooks
    _forward_pre_hooks_with_kwargs: OrderedDict[int, bool]
    _state_dict_hooks: Hooks
    _state_dict_pre_hooks: Hooks
    _load_state_dict_pre_hooks: Hooks
    _load_state_dict_post_hooks: Hooks

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, args)`` before every forward; it may return new arguments.

        Args:
            hook: what to call.
            prepend: whether it comes before the hooks that are there.
            with_kwargs: whether it gets and may return the keyword arguments too.
        """
        handle = _register(self._forward_pre_hooks, hook, prepend, self._forward_pre_hooks_with_kwargs)
        if with_kwargs:
            self._forward_pre_hooks_with_kwargs[handle.id] = True
        return handle

    def register_forward_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, args, output)`` after every forward; it may return a new output.

        Args:
            hook: what to call.
            prepend: whether it comes before the hooks that are there.
            with_kwargs: whether it gets the keyword arguments too, before the output.
            always_call: whether it is called even when the forward raises.
        """
        handle = _register(
            self._forward_hooks, hook, prepend, [self._forward_hooks_with_kwargs, self._forward_hooks_always_called]
        )
        if with_kwargs:
            self._forward_hooks_with_kwargs[handle.id] = True
        if always_call:
            self._forward_hooks_always_called[handle.id] = True
        return handle

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(module, grad_output)`` once the gradients of the outputs are there.

        Args:
            hook: what to call; it may return new gradients.
            prepend: whether it comes before the hooks that are there.
        """
        return _register(self._backward_pre_hooks, hook, prepend)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(module, grad_input, grad_output)`` once the gradients of the inputs are there.

        Args:
            hook: what to call; it may return new gradients of the inputs.
            prepend: whether it comes before the hooks that are there.
        """
        self._choose_backward_hooks(True)
        return _register(self._backward_hooks, hook, prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """The older kind of `register_full_backward_hook`, which sees the last node only.

        Args:
            hook: what to call.
        """
        self._choose_backward_hooks(False)
        return _register(self._backward_hooks, hook)

    def _choose_backward_hooks(self, full: bool) -> None:
        if self._is_full_backward_hook is not None and self._is_full_backward_hook is not full:
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a single Module. Please use only "
                "one of them."
            )
        self._is_full_backward_hook = full

    def _get_backward_hooks(self) -> tuple[list[Any], list[Any]]:
        return _hooks.backward_hooks(self)

    def _get_backward_pre_hooks(self) -> list[Any]:
        return _hooks.backward_pre_hooks(self)

    def _maybe_warn_non_full_backward_hook(self, inputs: Any, result: Any, grad_fn: Any) -> None:
        _hooks.warn_about_older(inputs, result, grad_fn)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, prefix, keep_vars)`` before the state of this module is collected.

        Args:
            hook: what to call.
        """
        return _register(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, state_dict, prefix, local_metadata)`` after the state was collected.

        Args:
            hook: what to call; it changes the dictionary in place and returns None.
        """
        hook._from_public_api = True
        return _register(self._state_dict_hooks, hook)

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "Cannot register the same function as the state dict post hook that was previously registered via "
                "register_state_dict_post_hook"
            )
        return _register(self._state_dict_hooks, hook)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call a hook before a state is loaded into this module.

        Args:
            hook: called with the module, the state, the prefix, the metadata, `strict`, and the lists
                of missing keys, unexpected keys and error messages.
        """
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        wrapped = _hooks._WrappedHook(hook, self if with_module else None)
        return _register(self._load_state_dict_pre_hooks, wrapped)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, incompatible_keys)`` after a state was loaded.

        Args:
            hook: what to call; it may change the lists in place.
        """
        return _register(self._load_state_dict_post_hooks, hook)


def _register(hooks: Any, hook: Callable[..., Any], prepend: bool = False, extra: Any = None) -> RemovableHandle:
    handle = RemovableHandle(hooks, extra_dict=extra)
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle
