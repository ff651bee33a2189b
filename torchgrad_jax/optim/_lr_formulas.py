"""Schedules that are a formula of the epoch."""

from __future__ import annotations

import math
import types
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from ._lr_base import LRScheduler
from .optimizer import Optimizer


class _ByFunction(LRScheduler):
    """A schedule given by one function of the epoch per group."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Any, last_epoch: int = -1) -> None:
        self.optimizer = optimizer
        n = len(optimizer.param_groups)
        if not isinstance(lr_lambda, list | tuple):
            lr_lambda = [lr_lambda] * n
        elif len(lr_lambda) != n:
            raise ValueError(f"Expected {n} lr_lambdas, but got {len(lr_lambda)}")
        self.lr_lambdas: list[Callable[[int], float]] = list(lr_lambda)
        self._check_functions()
        super().__init__(optimizer, last_epoch)

    def _check_functions(self) -> None:
        """Nothing to check, unless a subclass does."""

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer; of the functions, the attributes of callable objects."""
        state = self._state("lr_lambdas")
        state["lr_lambdas"] = [
            None if isinstance(f, types.FunctionType) else f.__dict__.copy() for f in self.lr_lambdas
        ]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what a `state_dict` says; functions stay as they are."""
        self.__dict__.update({k: v for k, v in state_dict.items() if k != "lr_lambdas"})
        for f, attributes in zip(self.lr_lambdas, state_dict["lr_lambdas"]):
            if attributes is not None:
                f.__dict__.update(attributes)


class LambdaLR(_ByFunction):
    """The initial learning rate times a function of the epoch.

    Args:
        optimizer: whose learning rates are set.
        lr_lambda: the function, or one per group.
        last_epoch: the epoch to resume after; -1 to begin.
    """

    def get_lr(self) -> list[Any]:
        """The next learning rates."""
        self._warn_unless_stepping()
        return [lr * f(self.last_epoch) for f, lr in zip(self.lr_lambdas, self.base_lrs, strict=True)]


class MultiplicativeLR(_ByFunction):
    """The last learning rate times a function of the epoch.

    Args:
        optimizer: whose learning rates are set.
        lr_lambda: the function, or one per group.
        last_epoch: the epoch to resume after; -1 to begin.
    """

    def _check_functions(self) -> None:
        for f in self.lr_lambdas:
            if not callable(f):
                raise TypeError(f"lr_lambda should be a function, but got {type(f).__name__}")

    def get_lr(self) -> list[Any]:
        """The next learning rates."""
        self._warn_unless_stepping()
        if self._is_initial:
            return self._unchanged()
        groups = self.optimizer.param_groups
        return [g["lr"] * f(self.last_epoch) for f, g in zip(self.lr_lambdas, groups, strict=True)]


class StepLR(LRScheduler):
    """Multiply by `gamma` every `step_size` epochs.

    Args:
        optimizer: whose learning rates are set.
        step_size: epochs between changes.
        gamma: the factor.
        last_epoch: the epoch to resume after; -1 to begin.
    """

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The next learning rates."""
        self._warn_unless_stepping()
        due = self.last_epoch != 0 and self.last_epoch % self.step_size == 0
        return self._times(self.gamma) if due else self._unchanged()

    def _get_closed_form_lr(self) -> list[Any]:
        return self._base_times(self.gamma ** (self.last_epoch // self.step_size))


class MultiStepLR(LRScheduler):
    """Multiply by `gamma` at each milestone.

    Args:
        optimizer: whose learning rates are set.
        milestones: epochs, in order; one given twice counts twice.
        gamma: the factor.
        last_epoch: the epoch to resume after; -1 to begin.
    """

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The next learning rates."""
        self._warn_unless_stepping()
        times = self.milestones.get(self.last_epoch, 0)
        return self._times(self.gamma**times) if times else self._unchanged()

    def _get_closed_form_lr(self) -> list[Any]:
        passed = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return self._base_times(self.gamma**passed)


class ConstantLR(LRScheduler):
    """A smaller learning rate for the first epochs.

    Args:
        optimizer: whose learning rates are set.
        factor: by what it is smaller.
        total_iters: for how many epochs.
        last_epoch: the epoch to resume after; -1 to begin.
    """

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        if factor > 1.0 or factor < 0:
            raise ValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The next learning rates."""
        self._warn_unless_stepping()
        if self.last_epoch == 0:
            return self._times(self.factor)
        if self.last_epoch == self.total_iters:
            return self._times(1.0 / self.factor)
        return self._unchanged()

    def _get_closed_form_lr(self) -> list[Any]:
        over = self.last_epoch >= self.total_iters
        return self._base_times(self.factor + over * (1 - self.factor))


class LinearLR(LRScheduler):
    """From one factor to another along a straight line.

    Args:
        optimizer: whose learning rates are set.
        start_factor: the factor at the beginning.
        end_factor: the factor after `total_iters` epochs.
        total_iters: how long it takes.
        last_epoch: the epoch to resume after; -1 to begin.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 < start_factor <= 1.0:
            raise ValueError("Starting multiplicative factor expected to be greater than 0 and less or equal to 1.")
        if end_factor > 1.0 or end_factor < 0:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The next learning rates."""
        self._warn_unless_stepping()
        if self.last_epoch == 0:
            return self._times(self.start_factor)
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._unchanged()
        rise = self.end_factor - self.start_factor
        before = self.total_iters * self.start_factor + (self.last_epoch - 1) * rise
        return self._times(1.0 + rise / before)

    def _get_closed_form_lr(self) -> list[Any]:
        rise = self.end_factor - self.start_factor
        gone = min(self.total_iters, self.last_epoch)
        return self._base_times(self.start_factor + rise * gone / self.total_iters)


class ExponentialLR(LRScheduler):
    """Multiply by `gamma` every epoch.

    Args:
        optimizer: whose learning rates are set.
        gamma: the factor.
        last_epoch: the epoch to resume after; -1 to begin.
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The next learning rates."""
        self._warn_unless_stepping()
        return self._unchanged() if self._is_initial else self._times(self.gamma)

    def _get_closed_form_lr(self) -> list[Any]:
        return self._base_times(self.gamma**self.last_epoch)


class PolynomialLR(LRScheduler):
    """Down to zero along a power.

    Args:
        optimizer: whose learning rates are set.
        total_iters: how many epochs it takes.
        power: the power.
        last_epoch: the epoch to resume after; -1 to begin.
    """

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The next learning rates."""
        self._warn_unless_stepping()
        now = self.last_epoch
        if self._is_initial or now > self.total_iters:
            return self._unchanged()
        left = (1.0 - now / self.total_iters) / (1.0 - (now - 1) / self.total_iters)
        return self._times(left**self.power)

    def _get_closed_form_lr(self) -> list[Any]:
        left = 1.0 - min(self.total_iters, self.last_epoch) / self.total_iters
        return [lr * left**self.power for lr in self.base_lrs]


class CosineAnnealingLR(LRScheduler):
    """Along a cosine, from the initial learning rate to `eta_min` in `T_max` epochs, and back.

    Args:
        optimizer: whose learning rates are set.
        T_max: half of the period.
        eta_min: the smallest learning rate.
        last_epoch: the epoch to resume after; -1 to begin.
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The next learning rates."""
        self._warn_unless_stepping()
        now, low, groups = self.last_epoch, self.eta_min, self.optimizer.param_groups
        if self._is_initial:
            return self._unchanged()
        if self._step_count == 1 and now > 0:
            height = 1 + math.cos(now * math.pi / self.T_max)
            return [low + (lr - low) * height / 2 for lr in self.base_lrs]
        if (now - 1 - self.T_max) % (2 * self.T_max) == 0:  # it was at the bottom
            rise = 1 - math.cos(math.pi / self.T_max)
            return [g["lr"] + (lr - low) * rise / 2 for lr, g in zip(self.base_lrs, groups)]
        before = 1 + math.cos(math.pi * (now - 1) / self.T_max)
        share = (1 + math.cos(math.pi * now / self.T_max)) / before
        return [share * (g["lr"] - low) + low for g in groups]

    def _get_closed_form_lr(self) -> list[Any]:
        height = 1 + math.cos(math.pi * self.last_epoch / self.T_max)
        return [self.eta_min + (lr - self.eta_min) * height / 2 for lr in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Down a cosine and up again at once, each time for longer.

    Args:
        optimizer: whose learning rates are set.
        T_0: epochs until the first restart.
        T_mult: by how much each period is longer than the one before.
        eta_min: the smallest learning rate.
        last_epoch: the epoch to resume after; -1 to begin.
    """

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, float | int):
            raise ValueError(f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}")
        self.T_0 = T_0
        self.T_i: Any = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: Any = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The next learning rates."""
        self._warn_unless_stepping()
        height = 1 + math.cos(math.pi * self.T_cur / self.T_i)
        return [self.eta_min + (lr - self.eta_min) * height / 2 for lr in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Set the learning rates of the next epoch, or of any, also between two of them.

        Args:
            epoch: which epoch it is; may have a fraction.
        """
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        now: Any = epoch
        if now is None:
            now = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        else:
            self._jump(now)
        self.last_epoch = math.floor(now)
        with self._within_step():
            values = self.get_lr()
        self._set(values)

    def _jump(self, epoch: float) -> None:
        """Find the period that an epoch is in."""
        if epoch < 0:
            raise ValueError(f"Expected non-negative epoch, but got {epoch}")
        if epoch < self.T_0:
            self.T_i, self.T_cur = self.T_0, epoch
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            n = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            self.T_cur = epoch - self.T_0 * (self.T_mult**n - 1) / (self.T_mult - 1)
            self.T_i = self.T_0 * self.T_mult**n
