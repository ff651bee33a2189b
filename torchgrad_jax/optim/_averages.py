"""Ways to average parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._engine.memory.tensor import Tensor
from ..autograd.grad_mode import no_grad


def _check_decay(decay: float) -> None:
    if decay < 0.0 or decay > 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


def _is_inexact(t: Any) -> bool:
    return t.is_floating_point() or t.is_complex()


def get_ema_avg_fn(decay: float = 0.999) -> Callable[..., Any]:
    """A function that forgets old parameters exponentially, for one tensor.

    Args:
        decay: what is kept each time.

    Returns:
        ``f(average, current, count)`` that gives the new average.
    """
    _check_decay(decay)

    @no_grad()
    def ema_update(ema_param: Any, current_param: Any, num_averaged: Any) -> Any:
        return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_swa_avg_fn() -> Callable[..., Any]:
    """A function that keeps the mean of all parameters so far, for one tensor.

    Returns:
        ``f(average, current, count)`` that gives the new average.
    """

    @no_grad()
    def swa_update(averaged_param: Any, current_param: Any, num_averaged: Any) -> Any:
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[..., None]:
    """The same as `get_ema_avg_fn`, for lists of tensors, which it overwrites.

    Args:
        decay: what is kept each time.

    Returns:
        ``f(averages, currents, count)``.
    """
    _check_decay(decay)

    @no_grad()
    def ema_update(ema_param_list: Any, current_param_list: Any, _: Any) -> None:
        inexact = _is_inexact(ema_param_list[0])
        for average, current in zip(ema_param_list, current_param_list, strict=True):
            if inexact:
                average.lerp_(current, 1 - decay)
            else:
                average.copy_(average * decay + current * (1 - decay))

    return ema_update


def get_swa_multi_avg_fn() -> Callable[..., None]:
    """The same as `get_swa_avg_fn`, for lists of tensors, which it overwrites.

    Returns:
        ``f(averages, currents, count)``.
    """

    @no_grad()
    def swa_update(averaged_param_list: Any, current_param_list: Any, num_averaged: Any) -> None:
        share = 1 / (num_averaged + 1)
        inexact = _is_inexact(averaged_param_list[0])
        for average, current in zip(averaged_param_list, current_param_list, strict=True):
            if inexact:
                average.lerp_(current, share)
            elif isinstance(num_averaged, Tensor):
                average.addcdiv_(current - average, num_averaged + 1)
            else:
                average.add_(current - average, alpha=share)

    return swa_update
