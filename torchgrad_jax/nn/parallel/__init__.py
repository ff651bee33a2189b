"""torch.nn.parallel: refused, since here arrays are spread over devices and modules are not copied."""

from __future__ import annotations

from typing import Any

from ..modules.module import Module

__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel"]

_INSTEAD = (
    " is not implemented: XLA runs one program on all devices. Shard the batch over them with "
    "jax.sharding (put the parameters on all devices and split the inputs), and call the module itself"
)


class DataParallel(Module):
    """Exists to be compared with; making one raises.

    Args:
        module: what would be copied to all devices.
        device_ids: the devices.
        output_device: where results would be gathered.
        dim: the dimension of the batch.
    """

    def __init__(
        self, module: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0
    ) -> None:
        raise NotImplementedError("torch.nn.DataParallel" + _INSTEAD)


class DistributedDataParallel(Module):
    """Exists to be compared with; making one raises.

    Args:
        module: what would be trained by several processes.
    """

    def __init__(self, module: Any, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError("torch.nn.parallel.DistributedDataParallel" + _INSTEAD)


def data_parallel(
    module: Any, inputs: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0, module_kwargs: Any = None
) -> Any:  # fmt: skip
    """Raises; see `DataParallel`."""
    raise NotImplementedError("torch.nn.parallel.data_parallel" + _INSTEAD)


def __getattr__(name: str) -> Any:
    raise AttributeError(f"torchgrad_jax does not implement torch.nn.parallel.{name}")
