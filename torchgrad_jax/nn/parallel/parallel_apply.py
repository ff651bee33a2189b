"""torch.nn.parallel.parallel_apply: modules called one after another; XLA's queue is what runs beside Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import cuda
from ..._core.arrays.devices import device as Device
from ..._engine.memory.tensor import Tensor

__all__ = ["get_a_var", "parallel_apply"]


def get_a_var(obj: Any) -> Tensor | None:
    """Some tensor of a structure; None if there is none."""
    if isinstance(obj, Tensor):
        return obj
    values = obj.items() if isinstance(obj, dict) else obj if isinstance(obj, list | tuple) else ()
    for value in values:
        found = get_a_var(value)
        if found is not None:
            return found
    return None


def parallel_apply(
    modules: Sequence[Any], inputs: Sequence[Any], kwargs_tup: Any = None, devices: Any = None
) -> list[Any]:
    """The results of modules, each with its own inputs on its own GPU.

    Args:
        modules: what is called.
        inputs: the arguments of each, or its only one.
        kwargs_tup: the arguments by name of each.
        devices: the GPU of each; that of its inputs if not given.
    """
    if len(modules) != len(inputs):
        raise AssertionError(f"The number of modules {len(modules)} is not equal to the number of inputs {len(inputs)}")
    named = kwargs_tup if kwargs_tup is not None else [{}] * len(modules)
    if len(named) != len(modules):
        raise AssertionError(
            f"The number of modules {len(modules)} is not equal to the number of kwargs_tup {len(named)}"
        )
    if devices is not None:
        if len(devices) != len(modules):
            raise AssertionError(
                f"The number of modules {len(modules)} is not equal to the number of devices {len(devices)}"
            )
        for d in devices:
            kind = "cuda" if isinstance(d, int) else Device(d).type
            if kind != "cuda":
                raise ValueError(f"Expected a cuda device, but got: {d}")
    if not cuda.is_available():
        raise RuntimeError("Cannot access accelerator device when none is available.")
    return [
        module(*(given if isinstance(given, list | tuple) else (given,)), **options)
        for module, given, options in zip(modules, inputs, named)
    ]
