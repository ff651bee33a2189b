"""A model whose parameters are averages of another's."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from copy import deepcopy
from typing import Any

from .._bridge.compile.trace.choose import choose
from .._core.arrays import dtypes
from ..autograd.grad_mode import no_grad
from ..nn.modules.module import Module
from ._averages import get_swa_avg_fn, get_swa_multi_avg_fn
from ._ruled import call


class AveragedModel(Module):
    """A copy of a model that `update_parameters` turns into an average over time.

    Args:
        model: what is copied.
        device: where the copy lives.
        avg_fn: ``f(average, current, count)`` that gives a new average; the mean if None.
        multi_avg_fn: the same for lists of tensors, which it overwrites.
        use_buffers: whether buffers are averaged too, rather than copied.
    """

    n_averaged: Any

    def __init__(
        self,
        model: Any,
        device: Any = None,
        avg_fn: Callable[..., Any] | None = None,
        multi_avg_fn: Callable[..., None] | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        count = call("tensor", 0, dtype=dtypes.int64, device=device)
        self.register_buffer("n_averaged", count)
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the averaged model computes."""
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Any) -> None:
        """Take the parameters of a model into the average.

        Args:
            model: one of the same structure.
        """
        mine, theirs = self._averaged(self.module), self._averaged(model)
        pairs = [(p.detach(), q.detach().to(p.device)) for p, q in zip(mine, theirs)]
        with no_grad():
            choose(self.n_averaged == 0, lambda: self._copy(pairs), lambda: self._average(pairs))
        if not self.use_buffers:
            for b, now in zip(self.module.buffers(), model.buffers(), strict=True):
                b.detach().copy_(now.detach().to(b.device))
        self.n_averaged += 1

    def _copy(self, pairs: list[tuple[Any, Any]]) -> None:
        for average, current in pairs:
            average.copy_(current)

    def _averaged(self, model: Any) -> Any:
        if self.use_buffers:
            return itertools.chain(model.parameters(), model.buffers())
        return model.parameters()

    def _average(self, pairs: list[tuple[Any, Any]]) -> None:
        together = self.multi_avg_fn
        if together is None and self.avg_fn is None and pairs and pairs[0][0].device.type == "cuda":
            together = get_swa_multi_avg_fn()
        if together is None:
            each = self.avg_fn or get_swa_avg_fn()
            for average, current in pairs:
                average.copy_(each(average, current, self.n_averaged.to(average.device)))
            return
        alike: dict[Any, tuple[list[Any], list[Any]]] = {}
        for average, current in pairs:
            columns = alike.setdefault((average.device, average.dtype), ([], []))
            columns[0].append(average)
            columns[1].append(current)
        for (device, _), columns in alike.items():
            together(*columns, self.n_averaged.to(device))


AveragedModel.__module__ = "torchgrad_jax.optim.swa_utils"
