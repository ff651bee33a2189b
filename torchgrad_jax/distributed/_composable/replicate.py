"""`replicate`: the gradients of a module averaged over processes, without another module around it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from ..._core.arrays.devices import device as Device
from ..._core.jax.caches import remember
from ...nn.modules.module import Module
from ...nn.parallel.distributed import DistributedDataParallel
from ..fsdp._fully_shard import applied_before, group_of, of_original_class

_DDP = "_replicated_by"


class DDP:
    """What a module is, besides its own class, after `replicate`."""

    __new__ = of_original_class

    def __deepcopy__(self, memo: Any) -> NoReturn:
        raise AssertionError("DDP does not support deepcopy. Please use state dict for serialization.")

    def set_requires_gradient_sync(self, requires_gradient_sync: bool) -> None:
        """Say whether the backward passes of the forwards from now on average gradients.

        Args:
            requires_gradient_sync: False for all but the last of several backward passes whose gradients add up.
        """
        _ddp_of(self).require_backward_grad_sync = requires_gradient_sync

    def register_comm_hook(self, state: Any, hook: Any) -> None:
        """Let a function reduce the gradients: see `DistributedDataParallel.register_comm_hook`.

        Args:
            state: its first argument.
            hook: the function.
        """
        _ddp_of(self).register_comm_hook(state, hook)


def _ddp_of(module: Any) -> DistributedDataParallel:
    return module.__dict__[_DDP]


def replicate(module: Module, ignored_modules: Iterable[Module] | None = None, **kwargs: Any) -> Module:
    """Average the gradients of a module over all processes in each backward pass, and give the module back.

    Args:
        module: changed in place: its class becomes one that is a `DDP`, too. Parameters that `fully_shard` splits
            further down are left to it.
        ignored_modules: modules in it whose gradients stay this process's own.
        kwargs: the arguments of `DistributedDataParallel`; `device_id`, a GPU or a device, stands for its `device_ids`.

    Raises:
        RuntimeError: `fully_shard` has been applied to the module.
        AssertionError: this has been applied to it before.
    """
    if group_of(module) is not None:
        raise RuntimeError("Cannot apply `replicate()` on a Module already managed by `fully_shard`")
    if isinstance(module, DDP):
        raise applied_before("replicate", module)
    if "device_id" in kwargs:
        kwargs["device_ids"] = _device_ids(kwargs.pop("device_id"))
    apart = {id(t) for part in ignored_modules or () for t in (*part.parameters(), *part.buffers())}
    apart |= {id(p) for part in module.modules() if group_of(part) is not None for p in part.parameters()}
    before = getattr(module, "_ddp_params_and_buffers_to_ignore", ())
    names = {name for name, t in (*module.named_parameters(), *module.named_buffers()) if id(t) in apart}
    module.__dict__["_ddp_params_and_buffers_to_ignore"] = names | set(before)
    module.__dict__[_DDP] = DistributedDataParallel(module, **kwargs)
    module.register_forward_pre_hook(_before, with_kwargs=True)
    module.register_forward_hook(_after)
    module.__class__ = _class_of(type(module))
    return module


def _device_ids(device: Any) -> Any:
    """What `DistributedDataParallel` calls this device; None for the CPU."""
    if not isinstance(device, int | Device):
        raise RuntimeError(f"Expected device_id to be int or torch.device, but got {type(device)}")
    return None if isinstance(device, Device) and device.type == "cpu" else [device]


def _before(module: Module, args: Any, kwargs: Any) -> Any:
    return _ddp_of(module)._pre_forward(*args, **kwargs)


def _after(module: Module, args: Any, output: Any) -> Any:
    return _ddp_of(module)._post_forward(output)


@remember()
def _class_of(kind: type) -> type:
    return type(f"DDP{kind.__name__}", (DDP, kind), {"__module__": kind.__module__})
