"""A module's state as a dictionary: the methods of `Module`, with `_loading` behind them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, overload

from ..._core.errors import warn
from . import _loading
from ._parts import part_of_module

_REPORT = (
    " that should never be called. Please file an issue at "
    "https://github.com/pytorch/pytorch/issues/new?template=bug-report.yml to report this bug."
)


@part_of_module
class StateDict:
    """The methods of `Module` that give its state and take one."""

    _version: int
    _modules: dict[str, Any]
    _state_dict_hooks: OrderedDict[int, Callable[..., Any]]
    _state_dict_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _load_state_dict_pre_hooks: OrderedDict[int, Callable[..., Any]]

    def get_extra_state(self) -> Any:
        """Return what else belongs to `state_dict`; subclasses define it together with `set_extra_state`."""
        raise RuntimeError(f"Reached a code path in Module.get_extra_state(){_REPORT}")

    def set_extra_state(self, state: Any) -> None:
        """Take back what `get_extra_state` gave.

        Args:
            state: what it gave.
        """
        raise RuntimeError(f"Reached a code path in Module.set_extra_state(){_REPORT}")

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        for name, value in _loading.own_state(self).items():
            destination[prefix + name] = value if keep_vars else value.detach()
        if _loading.overrides(self, "get_extra_state", StateDict.get_extra_state):
            destination[prefix + _loading.EXTRA_STATE] = self.get_extra_state()

    @overload
    def state_dict(
        self, *, destination: dict[str, Any], prefix: str = ..., keep_vars: bool = ...
    ) -> dict[str, Any]: ...
    @overload
    def state_dict(self, *, prefix: str = ..., keep_vars: bool = ...) -> dict[str, Any]: ...
    def state_dict(self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> Any:
        """The parameters and persistent buffers by their dotted names.

        Args:
            destination: a dictionary to put them into.
            prefix: what all names begin with.
            keep_vars: whether the tensors themselves are given, rather than detached ones.

        Example:
            >>> import torchgrad_jax as torch
            >>> list(torch.nn.Linear(2, 3).state_dict())
            ['weight', 'bias']
        """
        if args:
            warn.to_user(
                "Positional args are being deprecated, use kwargs instead. Refer to "
                "https://pytorch.org/docs/main/generated/torch.nn.Module.html#torch.nn.Module.state_dict for details.",
                FutureWarning,
            )
            if destination is None:
                destination = args[0]
            if len(args) > 1 and prefix == "":
                prefix = args[1]
            if len(args) > 2 and keep_vars is False:
                keep_vars = args[2]
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = metadata
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in self._state_dict_hooks.values():
            new = hook(self, destination, prefix, metadata)
            if new is None:
                continue
            if getattr(hook, "_from_public_api", False):
                raise RuntimeError("state_dict post-hook must return None")
            destination = new
        return destination

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        args = (state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        for hook in self._load_state_dict_pre_hooks.values():
            hook(*args)
        extra = _loading.overrides(self, "set_extra_state", StateDict.set_extra_state)
        _loading.load_own(self, *args, extra)

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Copy values from a `state_dict` into this module and all below it.

        Args:
            state_dict: tensors by dotted name.
            strict: whether the names must match exactly.
            assign: whether the tensors take the place of those here, instead of being copied.

        Returns:
            The names that were missing and those that were unexpected.

        Raises:
            RuntimeError: if shapes do not match, or names do not and `strict` is set.
        """
        return _loading.load(self, state_dict, strict, assign)
