"""DataParallel on one device, where it calls the module; more devices are refused."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, Generic, TypeVar

from ... import cuda
from ..._core.arrays.devices import device as Device
from ..._engine.memory.tensor import Tensor
from ...autograd.profiler import record_function
from ..modules.module import Module

__all__ = ["DataParallel", "data_parallel"]

T = TypeVar("T", bound=Module)

INSTEAD = (
    " is not implemented: XLA runs one program on all devices. Shard the batch over them with "
    "jax.sharding (put the parameters on all devices and split the inputs), and call the module itself"
)


class DataParallel(Module, Generic[T]):
    """A module around another, which is called with inputs on the one GPU there is, or as they are without any.

    Args:
        module: what is called; it moves to the GPU.
        device_ids: the GPU; all of them where it is not given, which is refused where there are several.
        output_device: as in torch; results stay where the module makes them.
        dim: the dimension of the batch.
    """

    module: T

    def __init__(
        self,
        module: T,
        device_ids: Sequence[int | Device] | None = None,
        output_device: int | Device | None = None,
        dim: int = 0,
    ) -> None:
        super().__init__()
        self.module = module
        self.device_ids: list[int] = []
        if not cuda.is_available():
            return
        self.dim = dim
        self.device_ids = _ids(device_ids, "torch.nn.DataParallel over several devices")
        self.output_device = self.device_ids[0] if output_device is None else output_device
        self.src_device_obj = Device("cuda", self.device_ids[0])
        self.module.to(self.src_device_obj)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """The module's result."""
        with record_function("DataParallel.forward"):
            if not self.device_ids:
                return self.module(*inputs, **kwargs)
            return _on(self.module, inputs, kwargs, self.src_device_obj)


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Sequence[int | Device] | None = None,
    output_device: int | Device | None = None,
    dim: int = 0,
    module_kwargs: Any = None,
) -> Any:
    """Call a module as `DataParallel` does.

    Args:
        module: the module, on the GPU.
        inputs: its argument, or a tuple of them.
        device_ids: the GPU.
        output_device: as in torch.
        dim: the dimension of the batch.
        module_kwargs: its arguments by name.

    Raises:
        RuntimeError: there is no GPU.
    """
    if not isinstance(inputs, tuple):
        inputs = (inputs,) if inputs is not None else ()
    if not cuda.is_available():
        raise RuntimeError("device type could not be determined")
    (index,) = _ids(device_ids, "torch.nn.parallel.data_parallel over several devices")
    return _on(module, inputs, module_kwargs or {}, Device("cuda", index))


def _ids(given: Sequence[int | Device] | None, what: str) -> list[int]:
    """The one GPU that is meant."""
    found = range(cuda.device_count()) if given is None else given
    ids = [i if isinstance(i, int) else i.index or 0 for i in found]
    if len(ids) != 1:
        raise NotImplementedError(what + INSTEAD)
    return ids


def _on(module: Module, inputs: Any, kwargs: Any, device: Device) -> Any:
    for t in chain(module.parameters(), module.buffers()):
        if t.device != device:
            raise RuntimeError(
                f"module must have its parameters and buffers on device {device} (device_ids[0]) but found one of "
                f"them on device: {t.device}"
            )
    return module(*moved(inputs, device), **moved(kwargs, device))


def moved(value: Any, device: Device) -> Any:
    """Tensors on a device, in containers of the same kind."""
    if isinstance(value, Tensor):
        return value.to(device)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*[moved(v, device) for v in value])
    if isinstance(value, (list, tuple)):
        return type(value)([moved(v, device) for v in value])
    if isinstance(value, dict):
        return type(value)((k, moved(v, device)) for k, v in value.items())
    return value
