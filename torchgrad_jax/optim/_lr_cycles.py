"""Schedules that go up and down, learning rate and momentum against each other."""

from __future__ import annotations

import math
import types
from collections.abc import Callable
from functools import partial
from typing import Any

from ._lr_base import LRScheduler, check_optimizer, per_group, put_rate
from .optimizer import Optimizer


class _Opposed(LRScheduler):
    """Moves the momentum, or the first of the betas, against the learning rate."""

    cycle_momentum: bool
    use_beta1: bool

    def _prepare_momentum(self, base: Any, high: Any, last_epoch: int) -> tuple[Any, Any]:
        options = self.optimizer.defaults
        if "momentum" not in options and "betas" not in options:
            raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
        self.use_beta1 = "betas" in options
        highs = per_group("max_momentum", self.optimizer, high)
        bases = per_group("base_momentum", self.optimizer, base)
        if last_epoch == -1:
            for group, top, bottom in zip(self.optimizer.param_groups, highs, bases, strict=True):
                self._set_momentum(group, top)
                group["max_momentum"], group["base_momentum"] = top, bottom
        return bases, highs

    def _set_momentum(self, group: dict[str, Any], value: Any) -> None:
        if self.use_beta1:
            group["betas"] = (value, *group["betas"][1:])
        else:
            group["momentum"] = value


class CyclicLR(_Opposed):
    """Between two learning rates in triangles, which may get lower.

    Args:
        optimizer: whose learning rates are set.
        base_lr, max_lr: the bounds, for all groups or one per group.
        step_size_up, step_size_down: steps on the way up and down; the same if the second is None.
        mode: ``"triangular"``, ``"triangular2"`` (halved each cycle) or ``"exp_range"`` (times gamma each step).
        gamma: for the last mode.
        scale_fn: a height of one's own, a function of the cycle or the step, instead of `mode`.
        scale_mode: ``"cycle"`` or ``"iterations"``: what `scale_fn` is given.
        cycle_momentum: whether the momentum cycles too, the other way round.
        base_momentum, max_momentum: its bounds.
        last_epoch: the step to resume after; -1 to begin.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float = 0.8,
        max_momentum: float = 0.9,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        base_lrs = per_group("base_lr", optimizer, base_lr)
        if last_epoch == -1:
            for lr, group in zip(base_lrs, optimizer.param_groups, strict=True):
                put_rate(group, lr)
        self.max_lrs = per_group("max_lr", optimizer, max_lr)
        up = float(step_size_up)
        self.total_size = up + (up if step_size_down is None else float(step_size_down))
        self.step_ratio = up / self.total_size
        if scale_fn is None and mode not in ("triangular", "triangular2", "exp_range"):
            raise ValueError("mode is invalid and scale_fn is None")
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_ref: Callable[[float], float]
        self._scale_fn_custom: Any = scale_fn
        self.scale_mode = scale_mode
        self._init_scale_fn()
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            found = self._prepare_momentum(base_momentum, max_momentum, last_epoch)
            self.base_momentums, self.max_momentums = found
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def _init_scale_fn(self) -> None:
        if self._scale_fn_custom is not None:
            return
        self.scale_mode = "iterations" if self.mode == "exp_range" else "cycle"
        self._scale_fn_ref = {
            "triangular": _level,
            "triangular2": _halving,
            "exp_range": partial(_decaying, self.gamma),
        }[self.mode]

    def scale_fn(self, x: float) -> float:
        """The height of a cycle or a step."""
        custom = self._scale_fn_custom
        return self._scale_fn_ref(x) if custom is None else custom(x)

    def get_lr(self) -> list[Any]:
        """The next learning rates; sets the momentum as well."""
        self._warn_unless_stepping()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        rising = x <= self.step_ratio
        share = x / self.step_ratio if rising else (x - 1) / (self.step_ratio - 1)
        at = cycle if self.scale_mode == "cycle" else self.last_epoch
        lrs = [
            low + (high - low) * share * self.scale_fn(at)
            for low, high in zip(self.base_lrs, self.max_lrs, strict=True)
        ]
        if self.cycle_momentum:
            ends = zip(self.base_momentums, self.max_momentums, self.optimizer.param_groups)
            for low, high, group in ends:
                self._set_momentum(group, high - (high - low) * share * self.scale_fn(at))
        return lrs

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer; of a function of one's own, the attributes of a callable object."""
        state = self._state("_scale_fn_ref", "_scale_fn_custom")
        own = self._scale_fn_custom
        plain = own is None or isinstance(own, types.FunctionType)
        state["_scale_fn_custom"] = None if plain else own.__dict__.copy()
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what a `state_dict` says; a function of one's own stays."""
        attributes = state_dict.pop("_scale_fn_custom")
        super().load_state_dict(state_dict)
        if attributes is not None:
            self._scale_fn_custom.__dict__.update(attributes)
        self._init_scale_fn()


def _level(x: float) -> float:
    return 1.0


def _halving(x: float) -> float:
    return 1 / 2.0 ** (x - 1)


def _decaying(gamma: float, x: float) -> float:
    return gamma**x


def _phase(end: float, lr: tuple[str, str], momentum: tuple[str, str]) -> dict[str, Any]:
    return {
        "end_step": end,
        "start_lr": lr[0],
        "end_lr": lr[1],
        "start_momentum": momentum[0],
        "end_momentum": momentum[1],
    }


def _positive(value: Any, name: str) -> int:
    if value <= 0 or not isinstance(value, int):
        raise ValueError(f"Expected positive integer {name}, but got {value}")
    return value


class OneCycleLR(_Opposed):
    """Up to a large learning rate and down to a tiny one, once.

    Args:
        optimizer: whose learning rates are set.
        max_lr: the peak, for all groups or one per group.
        total_steps: how many steps there are; or else `epochs` and `steps_per_epoch`.
        epochs, steps_per_epoch: their product is the number of steps.
        pct_start: share of the steps on the way up.
        anneal_strategy: ``"cos"`` or ``"linear"``.
        cycle_momentum: whether the momentum cycles too, the other way round.
        base_momentum, max_momentum: its bounds.
        div_factor: the peak divided by the first learning rate.
        final_div_factor: the first learning rate divided by the last.
        three_phase: come back as long as it went up, and only then further down.
        last_epoch: the step to resume after; -1 to begin.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        if total_steps is not None:
            self.total_steps = _positive(total_steps, "total_steps")
        elif epochs is not None and steps_per_epoch is not None:
            _positive(epochs, "epochs")
            self.total_steps = epochs * _positive(steps_per_epoch, "steps_per_epoch")
        else:
            raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
        self._schedule_phases = self._phases(pct_start, three_phase)
        if pct_start < 0 or pct_start > 1 or not isinstance(pct_start, float):
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self._anneal_func_type = anneal_strategy
        peaks = per_group("max_lr", optimizer, max_lr)
        if last_epoch == -1:
            for group, peak in zip(optimizer.param_groups, peaks):
                group["initial_lr"] = peak / div_factor
                group["max_lr"] = peak
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._prepare_momentum(base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)

    def _phases(self, share: float, three: bool) -> list[dict[str, Any]]:
        last = self.total_steps - 1
        down, up = ("max_momentum", "base_momentum"), ("base_momentum", "max_momentum")
        phases = [_phase(float(share * self.total_steps) - 1, ("initial_lr", "max_lr"), down)]
        if not three:
            return [*phases, _phase(last, ("max_lr", "min_lr"), up)]
        back = float(2 * share * self.total_steps) - 2
        flat = ("max_momentum", "max_momentum")
        return [*phases, _phase(back, ("max_lr", "initial_lr"), up), _phase(last, ("initial_lr", "min_lr"), flat)]

    def _anneal_func(self, start: Any, end: Any, share: float) -> Any:
        if self._anneal_func_type == "cos":
            return end + (start - end) / 2.0 * (math.cos(math.pi * share) + 1)
        return (end - start) * share + start

    def get_lr(self) -> list[Any]:
        """The next learning rates; sets the momentum as well."""
        self._warn_unless_stepping()
        now = self.last_epoch
        if now > self.total_steps:
            raise ValueError(f"Tried to step {now} times. The specified number of total steps is {self.total_steps}")
        *early, phase = self._schedule_phases
        start = 0.0
        for candidate in early:
            if now <= candidate["end_step"]:
                phase = candidate
                break
            start = candidate["end_step"]
        share = (now - start) / (phase["end_step"] - start)
        lrs = []
        for group in self.optimizer.param_groups:
            ends = group[phase["start_lr"]], group[phase["end_lr"]]
            lrs.append(self._anneal_func(*ends, share))
            if self.cycle_momentum:
                ends = group[phase["start_momentum"]], group[phase["end_momentum"]]
                self._set_momentum(group, self._anneal_func(*ends, share))
        return lrs
