"""What the optimizers that update each element by a rule have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp

from .._core.arrays import devices
from .._core.arrays.dtypes import float64
from .._core.arrays.meta import meta
from .._core.arrays.python_numbers import Number, plain
from .._core.state import GRAD, MODES
from .._engine.entry.bind import NAMESPACES
from .._engine.memory.tensor import Tensor, make
from ..autograd.grad_mode import enable_grad
from ._scalars import number, scalar_tensor
from .optimizer import Optimizer, _use_grad_for_differentiable

_CAPTURABLE = ("cuda", "xpu", "hpu", "privateuseone", "xla")
_FUSED = ["mps", "cuda", "xpu", "hpu", "cpu", "privateuseone"]

API_CHANGED = "API has changed, `{}` argument must contain a list of singleton tensors"


def call(name: str, *args: Any, **kwargs: Any) -> Any:
    """A function of the main namespace."""
    return NAMESPACES[""][name](*args, **kwargs)


def insist(condition: Any, message: str, error: type[Exception] = ValueError) -> None:
    """Raise unless the condition holds."""
    if not condition:
        raise error(message)


def check_lr(lr: Any, message: str = "Invalid learning rate: {}") -> None:
    """A learning rate is one number, not negative."""
    insist(not isinstance(lr, Tensor) or lr._m.numel == 1, "Tensor lr must be 1-element")
    insist(lr >= 0.0, message.format(lr))


def check_betas(betas: Any) -> None:
    """Coefficients of running averages are in [0, 1)."""
    for i in (0, 1):
        insist(0.0 <= betas[i] < 1.0, f"Invalid beta parameter at index {i}: {betas[i]}")


def check_adam(lr: Any, eps: float, betas: Any, weight_decay: float) -> None:
    """What Adam and those after it ask of their options, in torch's order."""
    check_lr(lr)
    insist(eps >= 0.0, f"Invalid epsilon value: {eps}")
    check_betas(betas)
    insist(weight_decay >= 0.0, f"Invalid weight_decay value: {weight_decay}")


def check_fused(fused: Any, foreach: Any, differentiable: Any) -> None:
    """`fused` excludes the other two."""
    if fused:
        insist(not differentiable, "`fused` does not support `differentiable`", RuntimeError)
        insist(not foreach, "`fused` and `foreach` cannot be `True` together.", RuntimeError)


def check_fused_param(p: Any) -> None:
    """What `fused` asks of a parameter."""
    if not (p.device.type in (*_FUSED, "tpu") and p.is_floating_point()):
        raise RuntimeError(
            "`fused=True` requires all the params to be floating point Tensors of "
            f"supported devices: {_FUSED} but {p.dtype} and {p.device.type}"
        )


def check_capturable(capturable: bool, names: str, *columns: Sequence[Any], xla: bool = True) -> None:
    """`capturable` wants parameters and step counts on an accelerator."""
    if not capturable:
        return
    allowed = list(_CAPTURABLE if xla else _CAPTURABLE[:-1])
    for tensors in zip(*columns, strict=True):
        types = {t.device.type for t in tensors}
        if len(types) != 1 or not types <= {*allowed, "tpu"}:
            raise AssertionError(f"If capturable=True, {names} must be on supported devices: {allowed}.")


def check_steps(tensors: Sequence[Any], name: str = "state_steps") -> None:
    """Step counts used to be numbers."""
    insist(all(isinstance(t, Tensor) for t in tensors), API_CHANGED.format(name), RuntimeError)


def amp(grads: list[Any], grad_scale: Any, found_inf: Any, fused: Any) -> bool:
    """Unscale the gradients, which a fused step does itself; whether to step at all."""
    if grad_scale is None and found_inf is None:
        return True
    if not fused:
        raise AssertionError("Expected grad_scale and found_inf to be None")
    if found_inf is not None and bool(found_inf):
        return False
    if grad_scale is not None:
        for g in grads:
            g.div_(grad_scale.to(device=g.device))
    return True


def hyper(**values: Any) -> dict[str, Any]:
    """Hyperparameters as numbers, and whether weights decay; tensors stay tensors where the step is recorded."""
    if "weight_decay" in values:
        values["decays"] = is_on(values["weight_decay"])
    return values if MODES.bits & GRAD else {k: number(v) for k, v in values.items()}


def is_on(coefficient: Any) -> bool:
    """Return whether a coefficient makes a difference; one that is being traced might."""
    value = coefficient if type(coefficient) is Number else number(coefficient)
    return bool(value != 0) if isinstance(value, float | int) else True


def live(group: dict[str, Any]) -> dict[str, Any]:
    """A group whose learning rate is read again each time, where the step is being compiled."""
    lr = group["lr"]
    if type(lr) is not Number:
        return group
    m = meta((), float64, devices.resolve(devices.device("cpu")))
    return {**group, "lr": make(jnp.asarray(lr.array(), m.dtype.np), m)}


CAPTURABLE_DEFAULTS: dict[str, Any] = {"foreach": None, "maximize": False, "differentiable": False, "capturable": False}
"""Options that state from older versions of most optimizers may lack."""


class Ruled(Optimizer):
    """An optimizer that updates its groups one after the other.

    A subclass gives the state of a new parameter (`_STATE`, `_start`) and the update of a group (`_update`).
    """

    _STATE: tuple[str, ...] = ()
    """What a new parameter's state holds as zeros, after its scalars."""
    _SCALARS: tuple[tuple[str, float], ...] = (("step", 0.0),)
    """Its scalars, and where they start."""
    _OPTIONS: tuple[str, ...] = ()
    """Options of a group that the functional form takes by name, beside those that all have."""

    _GROUP_DEFAULTS: dict[str, Any] = {"maximize": False, "foreach": None, "differentiable": False}
    """Options that state from older versions may lack."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            for name, value in self._GROUP_DEFAULTS.items():
                group.setdefault(name, value)
            for p in group["params"]:
                old: dict[str, Any] = vars(self)["state"].get(p) or {}
                for name in ("step", "mu_product", "eta", "mu"):
                    if name in old and not isinstance(old[name], Tensor):
                        old[name] = self._scalar(group, p, float(old[name]))

    def _scalar(self, group: dict[str, Any], p: Any, value: float) -> Tensor:
        """A scalar of a parameter's state; with the parameter if the step is not to touch the host."""
        fused = group.get("fused")
        beside = p if fused or group.get("capturable") else None
        return scalar_tensor(value, beside, fused)

    def _zeros(self, p: Any) -> Any:
        return call("zeros_like", p)

    def _start(self, state: dict[str, Any], group: dict[str, Any], p: Any) -> None:
        """Fill the state of a parameter that is updated for the first time."""
        for name, value in self._SCALARS:
            state[name] = self._scalar(group, p, value)
        for name in self._STATE:
            state[name] = self._zeros(p)

    def _start_outside(self, state: dict[str, Any], group: dict[str, Any], p: Any) -> None:
        """`_start`; where the step is being compiled, before the program, which then is the same in each call."""
        run = self.compiling(p)
        rate = self._group_of(group)["lr"]
        # Computed by the program.
        if run is None or (isinstance(rate, Tensor) and run.inside(rate)):
            self._start(state, group, p)
            return
        with run.uses.making_state(self):
            self._start(state, group, p)

    def compiling(self, p: Any) -> Any:
        """The run in which a step on a parameter from outside is being compiled, or None."""
        run = MODES.run
        return run if run.may_write_outside and not run.inside(p) else None

    def _rate(self, group: dict[str, Any]) -> Any:
        """The learning rate as it is now, also where the step is being compiled, for state that begins with it."""
        rate = self._group_of(group)["lr"]
        return rate.item() if isinstance(rate, Tensor) else plain(rate)

    def _group_of(self, group: dict[str, Any]) -> dict[str, Any]:
        """The group whose options these are."""
        return next(g for g in self.param_groups if g["params"] is group["params"])

    def _collect(self, group: dict[str, Any], *names: str) -> Any:
        """Parameters that have a gradient, the gradients, and columns of state."""
        params = [p for p in group["params"] if p.grad is not None]
        if not names:
            return [params, [p.grad for p in params]]
        held = vars(self)["state"]
        states = [held[p] for p in params]
        for p, state in zip(params, states):
            if not state:
                if group.get("fused"):
                    check_fused_param(p)
                self._start_outside(state, group, p)
        columns = [[state.get(name) for state in states] for name in names]
        return [params, [p.grad for p in params], *columns]

    def _given(self, group: dict[str, Any]) -> dict[str, Any]:
        """The options of a group as the functional form takes them."""
        beta1, beta2 = group.get("betas", (None, None))
        known = {**group, "beta1": beta1, "beta2": beta2}
        return {k: known[k] for k in (*self._OPTIONS, "foreach", "maximize", "differentiable")}

    def _update(self, group: dict[str, Any]) -> None:
        raise NotImplementedError

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient.

        Args:
            closure: computes the loss again and returns it.

        Returns:
            What `closure` returned, or None.
        """
        return self._step(closure)

    @_use_grad_for_differentiable
    def _step(self, closure: Callable[[], Any] | None) -> Any:
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        for group in self.param_groups:
            self._update(live(group))
        return loss
