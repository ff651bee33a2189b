"""Modules that learn the sizes of their parameters from the first input."""

from __future__ import annotations

import itertools
from typing import Any

from ...autograd.grad_mode import no_grad
from ..parameter import is_lazy

__all__ = ["LazyModuleMixin"]


class LazyModuleMixin:
    """To be mixed into a module whose parameters get their shapes at the first call.

    Subclasses make `UninitializedParameter` and define `initialize_parameters`, which is called with
    the arguments of the first call. The module then becomes one of the class `cls_to_become`.
    """

    cls_to_become: type[Any] | None = None

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._load_hook = self._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = self.register_forward_pre_hook(self._infer_parameters, with_kwargs=True)

    def _save_to_state_dict(self: Any, destination: Any, prefix: str, keep_vars: bool) -> None:
        for name, value in self._parameters.items():
            if value is not None:
                plain = not (is_lazy(value) or keep_vars)
                destination[prefix + name] = value.detach() if plain else value
        for name, value in self._buffers.items():
            if value is not None and name not in self._non_persistent_buffers_set:
                plain = not (is_lazy(value) or keep_vars)
                destination[prefix + name] = value.detach() if plain else value

    def _lazy_load_hook(
        self: Any,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: Any,
        unexpected_keys: Any,
        error_msgs: Any,
    ) -> None:
        """Take the shapes from a state about to be loaded."""
        for name, value in itertools.chain(self._parameters.items(), self._buffers.items()):
            key = prefix + name
            if value is None or key not in state_dict:
                continue
            if is_lazy(value) and not is_lazy(state_dict[key]):
                with no_grad():
                    value.materialize(state_dict[key].shape)

    def initialize_parameters(self: Any, *args: Any, **kwargs: Any) -> None:
        """Give the parameters their shapes, judging by the arguments of the first call."""
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def has_uninitialized_params(self: Any) -> bool:
        """Return whether a parameter or buffer has no shape yet."""
        held = itertools.chain(self._parameters.values(), self._buffers.values())
        return any(is_lazy(value) for value in held)

    def _infer_parameters(self: Any, module: Any, args: Any, kwargs: Any = None) -> None:
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {self._get_name()} has not been fully initialized")
        module._initialize_hook.remove()
        module._load_hook.remove()
        del module._initialize_hook, module._load_hook
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become

    def _replicate_for_data_parallel(self: Any) -> Any:
        raise RuntimeError(
            "Modules with uninitialized parameters can't be used with `DataParallel`. Run a dummy forward pass to "
            "correctly initialize the modules"
        )
