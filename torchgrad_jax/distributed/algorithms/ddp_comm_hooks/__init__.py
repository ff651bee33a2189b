"""torch.distributed.algorithms.ddp_comm_hooks: other ways to reduce the gradients of DistributedDataParallel."""

from __future__ import annotations

import functools
from collections.abc import Callable
from enum import Enum
from typing import Any

from . import (
    debugging_hooks as debugging_hooks,
    default_hooks as default_hooks,
    post_localSGD_hook as post_localSGD_hook,
    powerSGD_hook as powerSGD_hook,
)

__all__ = ["DDPCommHookType", "register_ddp_comm_hook"]


class _Choice:
    """How one kind of hook is registered; a class of its own, so that `Enum` takes it as a value."""

    def __init__(self, register: Callable[[Any, Any], None]) -> None:
        self._register = register

    def __call__(self, model: Any, state: Any = None) -> None:
        self._register(model, state)


def _plain(hook: Any) -> _Choice:
    return _Choice(lambda model, state: model.register_comm_hook(state, hook))


def _low_rank(rank: int) -> _Choice:
    """The state that is given is a process group."""
    state_of = functools.partial(powerSGD_hook.PowerSGDState, matrix_approximation_rank=rank)
    return _Choice(lambda model, group: model.register_comm_hook(state_of(group), powerSGD_hook.powerSGD_hook))


class DDPCommHookType(Enum):
    """Hooks by name, without those that quantize, and without the batched PowerSGD, which raises in torch."""

    ALLREDUCE = _plain(default_hooks.allreduce_hook)
    FP16_COMPRESS = _plain(default_hooks.fp16_compress_hook)
    BF16_COMPRESS = _plain(default_hooks.bf16_compress_hook)
    POWER_SGD = _low_rank(1)
    POWER_SGD_RANK2 = _low_rank(2)
    NOOP = _plain(debugging_hooks.noop_hook)


def register_ddp_comm_hook(comm_hook_type: DDPCommHookType, model: Any, state: Any = None) -> None:
    """Let a hook that is known by its name reduce the gradients of a model.

    Args:
        comm_hook_type: which one.
        model: a DistributedDataParallel.
        state: the hook's state; for those that send matrices of low rank, a process group.
    """
    comm_hook_type.value(model, state)
