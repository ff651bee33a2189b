"""DistributedDataParallel in a group of one process, where it calls the module."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from ...distributed import get_world_size
from ..modules.module import Module
from .data_parallel import INSTEAD

__all__ = ["DistributedDataParallel"]

_OPTIONS = frozenset({
    "bucket_cap_mb", "find_unused_parameters", "check_reduction", "gradient_as_bucket_view", "static_graph",
    "delay_all_reduce_named_params", "param_to_hook_all_reduce", "mixed_precision", "device_mesh",
    "skip_all_reduce_unused_params", "bucket_cap_mb_list", "batched_grad_copy", "forward_sync_buffers",
})  # fmt: skip


class DistributedDataParallel(Module):
    """A module that calls another one; there are no other processes to add the gradients of.

    Args:
        module: what is trained.
        device_ids: at most one device.
        output_device: the same one.
        options: what says how processes exchange gradients, which has no meaning for one.

    Raises:
        ValueError: `torch.distributed.init_process_group` has not been called.
        NotImplementedError: there are several devices.
        RuntimeError: no parameter of the module requires a gradient.
    """

    def __init__(
        self, module: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0,
        broadcast_buffers: bool | None = None, init_sync: bool = True, process_group: Any = None, **options: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        if get_world_size(process_group) > 1:
            raise NotImplementedError(
                "torch.nn.parallel.DistributedDataParallel in a group of several processes; add the gradients with "
                "torch.distributed.all_reduce after backward()"
            )
        unknown = options.keys() - _OPTIONS
        if unknown:
            raise TypeError(
                f"DistributedDataParallel.__init__() got an unexpected keyword argument '{min(unknown)}'"
            )
        if len(device_ids or ()) > 1:
            raise NotImplementedError(
                "torch.nn.parallel.DistributedDataParallel over several devices" + INSTEAD
            )
        if not any(p.requires_grad for p in module.parameters()):
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameter that requires a "
                "gradient."
            )
        self.module = module
        self.dim, self.broadcast_buffers = dim, broadcast_buffers is not False
        self.process_group = process_group
        self.device = next(iter(module.parameters())).device
        self.require_backward_grad_sync = True

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """The result of the module."""
        return self.module(*inputs, **kwargs)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """A block in which gradients are not exchanged, as they never are."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before


def __getattr__(name: str) -> Any:
    raise AttributeError(f"torchgrad_jax does not implement torch.nn.parallel.distributed.{name}")
