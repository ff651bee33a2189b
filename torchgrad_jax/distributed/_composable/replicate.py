"""`replicate`: DistributedDataParallel for a module that stays the one it is, with the names of its parameters."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

from ..._core.arrays.devices import device
from ...nn.modules.container import ParameterList
from ...nn.modules.module import Module
from ...nn.parallel.distributed import DistributedDataParallel
from ..fsdp._fully_shard import group_of, made_as_before

__all__ = ["DDP", "replicate"]

_STATE = "_replicate_state"


class _State:
    """What belongs to a replicated module: its options until its first forward, and what averages gradients then."""

    def __init__(self, ignored: set[Any], options: dict[str, Any]) -> None:
        self.ignored, self.options = ignored, options
        self.no_sync = False
        self.comm_hooks: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
        self.ddp: DistributedDataParallel | None = None

    def begun(self, module: Module) -> DistributedDataParallel:
        """What averages the gradients of a module; the processes get equal parameters when it is made."""
        if self.ddp is None:
            self.ddp = DistributedDataParallel(ParameterList(_parameters(module, self.ignored)), **self.options)
        for args, kwargs in self.comm_hooks:
            self.ddp.register_comm_hook(*args, **kwargs)
        self.comm_hooks.clear()
        return self.ddp


def _parameters(module: Module, ignored: set[Any]) -> Iterator[Any]:
    """The parameters of a module and of those within it, but for ignored modules and those of `fully_shard`."""
    if module in ignored or group_of(module) is not None:
        return
    yield from module.parameters(recurse=False)
    for child in module.children():
        yield from _parameters(child, ignored)


class DDP:
    """What the class of a replicated module derives from, besides the one that it had."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """An instance of the class that the module had before: `model[:2]` calls this."""
        return made_as_before(cls, args, kwargs)

    def set_requires_gradient_sync(self, requires_gradient_sync: bool) -> None:
        """Say whether the next backward passes average gradients, or only add to those of this process.

        Args:
            requires_gradient_sync: whether they average.
        """
        state_of(self).no_sync = not requires_gradient_sync

    def register_comm_hook(self, *args: Any, **kwargs: Any) -> None:
        """Let a function reduce the gradients, as `DistributedDataParallel.register_comm_hook` does."""
        state_of(self).comm_hooks.append((args, kwargs))


def state_of(module: Any) -> _State:
    """What belongs to a replicated module.

    Raises:
        AttributeError: it is not replicated.
    """
    found = module.__dict__.get(_STATE)
    if found is None:
        raise AttributeError(f"replicate() was not called with this module: {module}")
    return found


def replicate(module: Any, ignored_modules: Iterable[Any] | None = None, **kwargs: Any) -> Any:
    """Average the gradients of a module over all processes in each backward pass, as DistributedDataParallel does.

    The module stays itself, so that the names of its parameters do. At its first forward all processes get the
    parameters of rank 0.

    Args:
        module: changed in place; its class becomes one that derives from `DDP`, too.
        ignored_modules: modules within it whose parameters stay each process's own.
        kwargs: options of `DistributedDataParallel`; and `device_id`, the GPU of the parameters, or a CPU.

    Raises:
        RuntimeError: `device_id` is no device, or the module is one of `fully_shard`.
        AssertionError: the module is replicated already.

    Example:
        >>> import torchgrad_jax as torch
        >>> from torchgrad_jax.distributed._composable import replicate
        >>> net = replicate(torch.nn.Linear(2, 1))
        >>> type(net).__name__, list(net.state_dict())
        ('DDPLinear', ['weight', 'bias'])
    """
    if "device_id" in kwargs:
        kwargs["device_ids"] = _device_ids(kwargs.pop("device_id"))
    if group_of(module) is not None:
        raise RuntimeError("Cannot apply `replicate()` on a Module already managed by `fully_shard`")
    if _STATE in module.__dict__:
        raise AssertionError(
            "Each distinct composable distributed API can only be applied to a module once. replicate has already been "
            f"applied to the following module:\n{module}"
        )
    module.__dict__[_STATE] = _State(set(ignored_modules or ()), kwargs)
    module.register_forward_pre_hook(_before, with_kwargs=True)
    module.register_forward_hook(_after)
    module.__class__ = _class_of(type(module))
    return module


def _device_ids(where: Any) -> list[Any] | None:
    """The devices for DistributedDataParallel, which has none for a module on the CPU."""
    if not isinstance(where, int | device) or isinstance(where, bool):
        raise RuntimeError(f"Expected device_id to be int or torch.device, but got {type(where)}")
    return None if isinstance(where, device) and where.type == "cpu" else [where]


def _before(module: Module, args: Any, kwargs: Any) -> Any:
    state = state_of(module)
    ddp = state.begun(module)
    ddp.require_backward_grad_sync = not state.no_sync
    return ddp._pre_forward(*args, **kwargs)


def _after(module: Module, args: Any, output: Any) -> Any:
    return state_of(module).begun(module)._post_forward(output)


def _not_copied(*args: Any, **kwargs: Any) -> NoReturn:
    raise AssertionError("DDP does not support deepcopy. Please use state dict for serialization.")


@functools.cache
def _class_of(kind: type) -> type:
    """The class of a replicated module of a class."""
    return type(f"DDP{kind.__name__}", (DDP, kind), {"__deepcopy__": _not_copied})
