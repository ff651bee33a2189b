"""torch.nn.parallel.scatter_gather: refused, since batches are not spread over devices here."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["gather", "scatter", "scatter_kwargs"]


def _refuse(name: str) -> NoReturn:
    raise NotImplementedError(
        f"torch.nn.parallel.scatter_gather.{name} is not implemented: XLA runs one program on all devices. Shard the "
        "batch over them with jax.sharding"
    )


def scatter(inputs: Any, target_gpus: Any, dim: int = 0) -> NoReturn:
    """Refused: batches are not spread over devices."""
    _refuse("scatter")


def scatter_kwargs(inputs: Any, kwargs: Any, target_gpus: Any, dim: int = 0) -> NoReturn:
    """Refused: batches are not spread over devices."""
    _refuse("scatter_kwargs")


def gather(outputs: Any, target_device: Any, dim: int = 0) -> NoReturn:
    """Refused: batches are not spread over devices."""
    _refuse("gather")
