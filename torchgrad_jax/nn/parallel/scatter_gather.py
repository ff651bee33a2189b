"""torch.nn.parallel.scatter_gather: a batch on one GPU is moved; batches are not spread over several."""

from __future__ import annotations

from typing import Any

from ..._core.arrays.devices import device as Device
from ..._core.errors import warn
from ..._engine.memory.tensor import Tensor

__all__ = ["gather", "scatter", "scatter_kwargs"]


def _refused(name: str) -> NotImplementedError:
    return NotImplementedError(
        f"torch.nn.parallel.scatter_gather.{name} over several devices is not implemented: XLA runs one program on all "
        "devices. Shard the batch over them with jax.sharding"
    )


def is_namedtuple(obj: Any) -> bool:
    """Return whether something is an instance of a named tuple."""
    warn.to_user("`is_namedtuple` is deprecated, please use the python checks instead", FutureWarning)
    return isinstance(obj, tuple) and hasattr(obj, "_asdict") and hasattr(obj, "_fields")


def _gpus(targets: Any) -> list[Device]:
    found = [Device("cuda", t) if isinstance(t, int) else Device(t) for t in targets]
    for d in found:
        if d.type == "cpu":
            raise ValueError(f"Expected a non cpu device, but got: {d}")
    return found


def scatter(inputs: Any, target_gpus: Any, dim: int = 0) -> Any:
    """For each GPU its part of the tensors, and a reference to everything else.

    Args:
        inputs: tensors, in containers or not.
        target_gpus: where to; a tensor for more than one is refused.
        dim: the dimension of the batch.

    Raises:
        NotImplementedError: there are tensors, and several GPUs.
    """
    count = len(target_gpus)

    def spread(x: Any) -> list[Any]:
        if isinstance(x, Tensor):
            devices = _gpus(target_gpus)
            if len(devices) != 1:
                raise _refused("scatter")
            return [x.to(devices[0])]
        if isinstance(x, tuple) and hasattr(x, "_fields"):
            return [type(x)(*row) for row in zip(*map(spread, x))]
        if isinstance(x, tuple) and x:
            return list(zip(*map(spread, x)))
        if isinstance(x, list) and x:
            return [list(row) for row in zip(*map(spread, x))]
        if isinstance(x, dict) and x:
            return [type(x)(row) for row in zip(*map(spread, x.items()))]
        return [x] * count

    return spread(inputs)


def scatter_kwargs(inputs: Any, kwargs: Any, target_gpus: Any, dim: int = 0) -> Any:
    """`scatter` of a function's arguments: as many of those by position as of those by name."""
    rows = list(scatter(inputs, target_gpus, dim)) if inputs else []
    named = list(scatter(kwargs, target_gpus, dim)) if kwargs else []
    rows += [()] * (len(named) - len(rows))
    named += [{} for _ in range(len(rows) - len(named))]
    return tuple(rows), tuple(named)


def gather(outputs: Any, target_device: Any, dim: int = 0) -> Any:
    """Return what is on several GPUs together on one: refused, unless it is on one.

    Raises:
        NotImplementedError: there are several.
    """
    first = outputs[0]
    if isinstance(first, Tensor):
        if any(x.device.type == "cpu" for x in outputs):
            raise AssertionError("Gather function not implemented for CPU tensors")
        if len(outputs) != 1:
            raise _refused("gather")
        return first.to(target_device)
    if first is None:
        return None
    if isinstance(first, dict):
        if any(len(x) != len(first) for x in outputs):
            raise ValueError("All dicts must have the same number of keys")
        return type(first)((k, gather([x[k] for x in outputs], target_device, dim)) for k in first)
    parts = [gather(row, target_device, dim) for row in zip(*outputs)]
    return type(first)(*parts) if hasattr(first, "_fields") else type(first)(parts)
