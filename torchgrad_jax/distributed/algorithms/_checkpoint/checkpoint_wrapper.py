"""torch.distributed.algorithms._checkpoint.checkpoint_wrapper: modules whose activations are not kept for backward.

`apply_activation_checkpointing` puts a wrapper around some submodules, before or after `fully_shard`. State
dictionaries have the names of the modules inside.
"""

from __future__ import annotations

import enum
import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

from ....autograd.graph import save_on_cpu
from ....nn.modules.module import Module
from ....utils.checkpoint import checkpoint
from ...fsdp.wrap import lambda_auto_wrap_policy, wrap_children

_CHECKPOINT_WRAPPED_MODULE = "_checkpoint_wrapped_module"
_CHECKPOINT_PREFIX = _CHECKPOINT_WRAPPED_MODULE + "."


class CheckpointImpl(enum.Enum):
    """Which kind of checkpoint: one with a backward of its own, or one by hooks of saved tensors."""

    REENTRANT = enum.auto()
    NO_REENTRANT = enum.auto()


class ActivationWrapper(Module, ABC):
    """A module around another, whose attributes and state dictionary are those of the one inside.

    Args:
        mod: the module inside.
    """

    def __init__(self, mod: Module) -> None:
        super().__init__()
        self._checkpoint_wrapped_module = mod
        self._register_state_dict_hook(_names_out)
        self._register_load_state_dict_pre_hook(_names_in)

    @abstractmethod
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the module inside."""

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == _CHECKPOINT_WRAPPED_MODULE:
                raise
            return getattr(self._checkpoint_wrapped_module, name)

    def __getitem__(self, key: Any) -> Any:
        """An item of the module inside."""
        return self._checkpoint_wrapped_module.__getitem__(key)

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        """The parameters by the names that they have inside."""
        for name, parameter in super().named_parameters(*args, **kwargs):
            yield name.replace(_CHECKPOINT_PREFIX, ""), parameter


def _names_out(module: Any, state_dict: dict[str, Any], prefix: str, *_: Any) -> None:
    inside = prefix + _CHECKPOINT_PREFIX
    for name in [n for n in state_dict if n.startswith(inside)]:
        state_dict[prefix + name.removeprefix(inside)] = state_dict.pop(name)


def _names_in(state_dict: dict[str, Any], prefix: str, *_: Any) -> None:
    inside = prefix + _CHECKPOINT_PREFIX
    for name in [n for n in state_dict if n.startswith(prefix) and not n.startswith(inside)]:
        state_dict[inside + name.removeprefix(prefix)] = state_dict.pop(name)


class OffloadWrapper(ActivationWrapper):
    """Keeps what its module saves for backward in the memory of the host."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the module inside."""
        with save_on_cpu(pin_memory=True):
            return self._checkpoint_wrapped_module(*args, **kwargs)


class CheckpointWrapper(ActivationWrapper):
    """Runs its module again in backward instead of keeping what it saved.

    Args:
        mod: the module.
        checkpoint_impl: which kind of checkpoint.
        checkpoint_fn: a function to use instead of `torch.utils.checkpoint.checkpoint`.
        checkpoint_fn_kwargs: its options.
    """

    def __init__(
        self,
        mod: Module,
        checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
        checkpoint_fn: Callable[..., Any] | None = None,
        **checkpoint_fn_kwargs: Any,
    ) -> None:
        super().__init__(mod)
        self.checkpoint_impl = checkpoint_impl
        if checkpoint_fn is None:
            reentrant = checkpoint_impl is CheckpointImpl.REENTRANT
            checkpoint_fn = functools.partial(checkpoint, use_reentrant=reentrant)
        self.checkpoint_fn = functools.partial(checkpoint_fn, **checkpoint_fn_kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the module inside."""
        inside = self._checkpoint_wrapped_module
        if self.checkpoint_impl is CheckpointImpl.NO_REENTRANT or not kwargs:
            return self.checkpoint_fn(inside, *args, **kwargs)
        # A reentrant checkpoint takes no keywords, and differentiates what it is given by position.
        n, names = len(args), list(kwargs)
        run = lambda *xs: inside(*xs[:n], **dict(zip(names, xs[n:], strict=True)))  # noqa: E731
        return self.checkpoint_fn(run, *args, *kwargs.values())


def offload_wrapper(module: Module) -> Module:
    """A module that keeps what it saves for backward in the memory of the host.

    Args:
        module: what is wrapped.
    """
    return OffloadWrapper(module)


def checkpoint_wrapper(
    module: Module,
    checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
    checkpoint_fn: Callable[..., Any] | None = None,
    **checkpoint_fn_kwargs: Any,
) -> Module:
    """A module that runs again in backward instead of keeping what it saved.

    Args:
        module: what is wrapped.
        checkpoint_impl: which kind of checkpoint.
        checkpoint_fn: a function to use instead of `torch.utils.checkpoint.checkpoint`.
        checkpoint_fn_kwargs: its options.
    """
    return CheckpointWrapper(module, checkpoint_impl, checkpoint_fn, **checkpoint_fn_kwargs)


def apply_activation_checkpointing(
    model: Module,
    checkpoint_wrapper_fn: Callable[..., Module] = checkpoint_wrapper,
    check_fn: Callable[[Module], bool] = lambda _: True,
    auto_wrap_policy: Any = None,
) -> None:
    """Wrap some submodules of a model in place; the model itself stays what it is.

    Args:
        model: whose submodules are wrapped.
        checkpoint_wrapper_fn: wraps one.
        check_fn: which ones.
        auto_wrap_policy: which ones, instead of `check_fn`.
    """
    chosen = functools.partial(lambda_auto_wrap_policy, lambda_fn=check_fn)
    wrap_children(model, auto_wrap_policy or chosen, checkpoint_wrapper_fn, set(), {})
