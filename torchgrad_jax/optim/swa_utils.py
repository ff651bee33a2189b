"""torch.optim.swa_utils: averages of the parameters along the way."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from .._core.errors.messages import no_such_name as _no_such_name
from ..autograd.grad_mode import no_grad
from ._averages import (
    get_ema_avg_fn as get_ema_avg_fn,
    get_ema_multi_avg_fn as get_ema_multi_avg_fn,
    get_swa_avg_fn as get_swa_avg_fn,
    get_swa_multi_avg_fn as get_swa_multi_avg_fn,
)
from ._lr_base import LRScheduler, per_group
from .optimizer import Optimizer


@no_grad()
def update_bn(loader: Iterable[Any], model: Any, device: Any = None) -> None:
    """Recompute the running statistics of the batch norm layers of a model.

    Args:
        loader: batches, or tuples whose first entry is one.
        model: what is run on them.
        device: where the batches are moved to.
    """
    from ..nn.modules.batchnorm import _BatchNorm

    momenta = {m: m.momentum for m in model.modules() if isinstance(m, _BatchNorm)}
    if not momenta:
        return
    was_training = model.training
    model.train()
    for m in momenta:
        m.reset_running_stats()
        m.momentum = None  # a plain mean over all batches
    for batch in loader:
        x = batch[0] if isinstance(batch, list | tuple) else batch
        model(x if device is None else x.to(device))
    for m, momentum in momenta.items():
        m.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """From the learning rate to a constant one, for averaging.

    Args:
        optimizer: whose learning rates are set.
        swa_lr: the constant learning rate, for all groups or one per group.
        anneal_epochs: how long it takes to get there.
        anneal_strategy: ``"cos"`` or ``"linear"``.
        last_epoch: the epoch to resume after; -1 to begin.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float,
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        goals = per_group("swa_lr", optimizer, swa_lr)
        for group, goal in zip(optimizer.param_groups, goals, strict=True):
            group["swa_lr"] = goal
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self._anneal_strategy = anneal_strategy
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def anneal_func(self, t: float) -> float:
        """How much of the way is done after a share of the time."""
        return t if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * t)) / 2

    def get_lr(self) -> list[Any]:
        """The next learning rates."""
        self._warn_unless_stepping()
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)

        def done(n: int) -> float:
            return self.anneal_func(max(0, min(1, n / max(1, self.anneal_epochs))))

        before, now = done(step - 1), done(step)
        lrs = []
        for group in self.optimizer.param_groups:
            goal = group["swa_lr"]
            start = goal if before == 1 else (group["lr"] - before * goal) / (1 - before)
            lrs.append(goal * now + start * (1 - now))
        return lrs


AveragedModel: Any  # from `_averaged`, when asked for: modules are not needed before


def __getattr__(name: str) -> Any:
    if name != "AveragedModel":
        raise AttributeError(_no_such_name(f"torch.optim.swa_utils.{name}"))
    from ._averaged import AveragedModel

    return AveragedModel


__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]

for _fn in (get_ema_avg_fn, get_ema_multi_avg_fn, get_swa_avg_fn, get_swa_multi_avg_fn):
    _fn.__module__ = __name__  # so that pickles name them as torch does
