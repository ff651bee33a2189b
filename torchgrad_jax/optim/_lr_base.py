"""What all schedules of learning rates share."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from .._core.errors import warn
from .._core.signals import contextmanager
from .._core.state import MODES
from .._engine.memory.kept_traces import watch_always
from .._engine.memory.tensor import Tensor
from .optimizer import Optimizer

EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being "
    "deprecated where possible. Please use `scheduler.step()` to step the "
    "scheduler. During the deprecation, if epoch is different from None, the "
    "closed form is used instead of the new chainable form, where available. "
    "Please open an issue if you are unable to replicate your use case: "
    "https://github.com/pytorch/pytorch/issues/new/choose."
)
_ORDER = "See more details at https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"
_OVERRIDDEN = (
    "Seems like `optimizer.step()` has been overridden after learning rate scheduler "
    "initialization. Please, make sure to call `optimizer.step()` before "
    f"`lr_scheduler.step()`. {_ORDER}"
)
_TOO_EARLY = (
    "Detected call of `lr_scheduler.step()` before `optimizer.step()`. "
    "In PyTorch 1.1.0 and later, you should call them in the opposite order: "
    "`optimizer.step()` before `lr_scheduler.step()`.  Failure to do this "
    "will result in PyTorch skipping the first value of the learning rate schedule. "
    f"{_ORDER}"
)
_RESUMED = (
    "param 'initial_lr' is not specified in param_groups[{}] when resuming scheduler with "
    "last_epoch >= 0.\nThis typically happens when:\n"
    "1. You're trying to resume training from a checkpoint but haven't properly loaded the optimizer state\n"
    "2. You're using last_epoch >= 0 for a fresh training run (not recommended)"
)


def copied(value: Any) -> Any:
    """A value that later writes to a tensor do not change."""
    return value.clone() if isinstance(value, Tensor) else value


def values_of(optimizer: Optimizer, key: str) -> list[Any]:
    """An option of every group."""
    return [copied(group[key]) for group in optimizer.param_groups]


def put_rate(group: dict[str, Any], value: Any) -> None:
    """Set the learning rate; a tensor is overwritten, so that its other users see the change."""
    old: Any = group["lr"]
    if not isinstance(old, Tensor):
        group["lr"] = value
        return
    if isinstance(value, Tensor) and value._m.ndim:
        value = value.squeeze()
    old.fill_(value)


def per_group(name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """One value per group, given one for all or a list of them."""
    n = len(optimizer.param_groups)
    if not isinstance(value, list | tuple):
        return [copied(value) for _ in range(n)]
    if len(value) != n:
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. "
            f"{name} has {len(value)} values, param_groups has {n}."
        )
    return [copied(v) for v in value]


def check_optimizer(optimizer: Any) -> None:
    """Schedules are for optimizers."""
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


def _note_steps(optimizer: Any) -> None:
    """Let the optimizer remember that it was stepped, for the warning about the order."""
    if hasattr(optimizer.step, "_wrapped_by_lr_sched"):
        return
    plain = optimizer.step.__func__
    owner = weakref.ref(optimizer)  # the wrapper is in the optimizer's own dictionary

    @functools.wraps(plain)
    def step(*args: Any, **kwargs: Any) -> Any:
        me: Any = owner()
        me._opt_called = True
        return plain.__get__(me, type(me))(*args, **kwargs)

    step._wrapped_by_lr_sched = True  # type: ignore[attr-defined]
    optimizer.step = step
    optimizer.__dict__.setdefault("_opt_called", False)


def in_python(step: Callable[..., Any]) -> Callable[..., Any]:
    """A schedule's `step`, which in a compiled function is taken in Python, for real, in each run."""
    if hasattr(step, "_in_python"):
        return step

    @functools.wraps(step)
    def taken(self: Any, *args: Any, **kwargs: Any) -> Any:
        log = MODES.run.uses.log
        if log is None:
            return step(self, *args, **kwargs)
        return log.event(functools.partial(step, self), args, kwargs)

    taken._in_python = True  # type: ignore[attr-defined]
    return taken


class LRScheduler:
    """Base of schedules: `step` after each epoch sets the learning rates that `get_lr` returns.

    Args:
        optimizer: whose learning rates are set.
        last_epoch: the epoch to resume after; -1 to begin.
    """

    _get_lr_called_within_step: bool = False
    _is_initial: bool = False
    _last_lr: list[Any]
    optimizer: Any

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "step" in vars(cls):
            cls.step = in_python(vars(cls)["step"])

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        check_optimizer(optimizer)
        watch_always(self)
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", copied(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(_RESUMED.format(i))
        self.base_lrs: list[Any] = values_of(optimizer, "initial_lr")
        self.last_epoch: Any = last_epoch
        _note_steps(optimizer)
        self._initial_step()

    def _initial_step(self) -> None:
        """The step that sets the first learning rates; it does not count as one."""
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer."""
        return self._state()

    def _state(self, *without: str) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in ("optimizer", *without)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what a `state_dict` says."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[Any]:
        """The learning rates that were set last, one per group."""
        return self._last_lr

    def get_lr(self) -> list[Any]:
        """The next learning rates; only for `step` to call."""
        raise NotImplementedError

    @in_python
    def step(self, epoch: int | None = None) -> None:
        """Set the learning rates of the next epoch.

        Args:
            epoch: which epoch it is; deprecated.
        """
        if self._step_count == 1:  # the first step after the initial one
            if not hasattr(self.optimizer.step, "_wrapped_by_lr_sched"):
                warn.to_user(_OVERRIDDEN)
            elif not getattr(self.optimizer, "_opt_called", False):
                warn.to_user(_TOO_EARLY)
        self._step_count += 1
        if epoch is not None:
            warn.to_user(EPOCH_DEPRECATION_WARNING)
        self._update_lr(epoch)

    @contextmanager
    def _within_step(self) -> Iterator[None]:
        self._get_lr_called_within_step = True
        try:
            yield
        finally:
            self._get_lr_called_within_step = False

    def _update_lr(self, epoch: int | None = None) -> None:
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        closed = None if epoch is None else getattr(self, "_get_closed_form_lr", None)
        with self._within_step():
            values = self.get_lr() if closed is None else closed()
        self._set(values)

    def _set(self, values: list[Any]) -> None:
        for group, lr in zip(self.optimizer.param_groups, values, strict=True):
            put_rate(group, lr)
        self._last_lr = values_of(self.optimizer, "lr")

    # --- for get_lr

    def _warn_unless_stepping(self) -> None:
        if not self._get_lr_called_within_step:
            warn.to_user("To get the last learning rate computed by the scheduler, please use `get_last_lr()`.")

    def _unchanged(self) -> list[Any]:
        return values_of(self.optimizer, "lr")

    def _times(self, factor: Any) -> list[Any]:
        return [group["lr"] * factor for group in self.optimizer.param_groups]

    def _base_times(self, factor: Any) -> list[Any]:
        return [lr * factor for lr in self.base_lrs]


class _LRScheduler(LRScheduler):
    """The base class under the name it once had."""
