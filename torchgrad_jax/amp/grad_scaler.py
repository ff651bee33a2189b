"""GradScaler: losses times a large number, gradients divided by it, steps left out that would not be finite."""

from __future__ import annotations

import contextlib
import enum
from collections import defaultdict
from typing import Any

from .._bridge.compile.trace.choose import choose
from .._core.arrays import devices, dtypes
from .._core.errors import warn
from .._core.errors.messages import Unsupported
from .._core.state import MODES
from .._engine.entry.bind import NAMESPACES
from .._engine.graph.record import no_grad
from .._engine.memory.kept_traces import watch_always
from .._engine.memory.tensor import Tensor

_torch = NAMESPACES[""]


class OptState(enum.Enum):
    """Where an optimizer is between two updates of the scale."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


def _fresh() -> dict[str, Any]:
    return {"stage": OptState.READY, "found_inf_per_device": {}}


class GradScaler:
    """Scales losses, unscales gradients, skips steps with infinite gradients, adapts the scale.

    Args:
        device: the type of devices that gradients are on. "cuda" without a GPU disables the scaler.
        init_scale: the scale to begin with.
        growth_factor: times what the scale grows after `growth_interval` finite steps.
        backoff_factor: times what it shrinks after a step that was not finite.
        growth_interval: finite steps in a row before it grows.
        enabled: False makes all methods pass through.
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device = devices.device(device).type
        self._enabled = enabled
        watch_always(self)
        if enabled and self._device == "cuda":
            from .autocast_mode import _has_gpu

            if not _has_gpu():
                warn.to_user("torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.")
                self._enabled = False
        if self._enabled:
            if growth_factor <= 1.0:
                raise AssertionError("The growth factor must be > 1.0.")
            if backoff_factor >= 1.0:
                raise AssertionError("The backoff factor must be < 1.0.")
            self._init_scale = init_scale
            self._scale: Any = None
            self._growth_tracker: Any = None
            self._growth_factor, self._backoff_factor = growth_factor, backoff_factor
            self._growth_interval = growth_interval
            self._init_growth_tracker = 0
            self._per_optimizer_states: dict[int, dict[str, Any]] = defaultdict(_fresh)

    def _started(self, fn: str) -> Any:
        if self._scale is None:
            raise AssertionError(
                f"Attempted {fn} but _scale is None.  This may indicate your script did not use "
                "scaler.scale(loss or outputs) earlier in the iteration."
            )
        return self._scale

    def scale(self, outputs: Any) -> Any:
        """A tensor, or tensors in lists and tuples, times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            scale: Any = self._scale
            if scale is None:
                scale = self._begin(outputs._m.device)
            return outputs * scale.to(outputs._m.device)
        if isinstance(outputs, list | tuple):
            scaled = [self.scale(x) for x in outputs]
            return type(outputs)(*scaled) if hasattr(outputs, "_fields") else type(outputs)(scaled)
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def _begin(self, device: Any) -> Any:
        """Make the tensors of the scale; where a step is being compiled, before its program."""
        run = MODES.run if MODES.run.may_write_outside else None
        with contextlib.nullcontext() if run is None else run.uses.making_state(self):
            full = _torch["full"]
            self._scale = full((), self._init_scale, dtype=dtypes.float32, device=device)
            start = self._init_growth_tracker
            self._growth_tracker = full((), start, dtype=dtypes.int32, device=device)
        return self._scale

    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of an optimizer's parameters by the scale, to clip them, say."""
        if not self._enabled:
            return
        scale = self._started("unscale_")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.UNSCALED:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        inverse = scale.double().reciprocal().float()
        state["found_inf_per_device"] = self._divide(optimizer, inverse)
        state["stage"] = OptState.UNSCALED

    def _divide(self, optimizer: Any, inverse: Any) -> dict[Any, Any]:
        finite: dict[Any, Any] = {}
        with no_grad():
            for group in optimizer.param_groups:
                for p in group["params"]:
                    g = p.grad
                    if g is None:
                        continue
                    if g.dtype is dtypes.float16:
                        raise ValueError("Attempting to unscale FP16 gradients.")
                    good = g.isfinite().all()
                    finite[g.device] = good & finite[g.device] if g.device in finite else good
                    g.mul_(inverse.to(g.device))
        return {d: (~good).to(dtypes.float32) for d, good in finite.items()}

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Let the optimizer step, unless a gradient is infinite or not a number."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._started("step")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if state["stage"] is OptState.READY:
            self.unscale_(optimizer)
        if not state["found_inf_per_device"]:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        out = self._step_if_finite(optimizer, state, lambda: optimizer.step(*args, **kwargs))
        state["stage"] = OptState.STEPPED
        return out

    def _step_if_finite(self, optimizer: Any, state: dict[str, Any], step: Any) -> Any:
        out: list[Any] = [None]
        before = _python_of(optimizer) if _is_compiling() else None

        def take() -> None:
            out[0] = step()

        choose(_any_infinite([state]), lambda: None, take)
        if _is_compiling() and (out[0] is not None or _python_of(optimizer) != before):
            raise Unsupported(
                f"torch.compile: the step of a {type(optimizer).__name__} gives or changes Python values, but the "
                "values of gradients decide whether GradScaler.step takes it; leave scaler.step(optimizer) outside "
                "of the function"
            )
        return out[0]

    def update(self, new_scale: Any = None) -> None:
        """Adapt the scale to what was found since the last update, or set it."""
        if not self._enabled:
            return
        scale = self._started("update")
        if new_scale is not None:
            scale.fill_(float(new_scale))
        else:
            found = [s for s in self._per_optimizer_states.values() if s["found_inf_per_device"]]
            if not found:
                raise AssertionError("No inf checks were recorded prior to update.")
            with no_grad():
                choose(_any_infinite(found), self._shrink, self._grow)
        self._per_optimizer_states.clear()

    def _shrink(self) -> None:
        self._scale.mul_(self._backoff_factor)
        self._growth_tracker.zero_()

    def _grow(self) -> None:
        self._growth_tracker.add_(1)
        choose(self._growth_tracker == self._growth_interval, self._grow_now)

    def _grow_now(self) -> None:
        grown = self._scale * self._growth_factor
        choose(grown.isfinite(), lambda: self._scale.copy_(grown))
        self._growth_tracker.zero_()

    def get_scale(self) -> float:
        """The scale; 1.0 if the scaler is disabled."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else self._scale.item()

    def get_growth_factor(self) -> float:
        """Times what the scale grows."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Change times what the scale grows."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """Times what the scale shrinks."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Change times what the scale shrinks."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """Finite steps before the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Change after how many finite steps the scale grows."""
        self._growth_interval = new_interval

    def is_enabled(self) -> bool:
        """Return whether the scaler does anything."""
        return self._enabled

    def _get_growth_tracker(self) -> int:
        if self._growth_tracker is None:
            return self._init_growth_tracker
        return int(self._growth_tracker.item())

    def state_dict(self) -> dict[str, Any]:
        """The state, for a checkpoint; empty if the scaler is disabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._get_growth_tracker(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler."
            )
        self._init_scale = state_dict["scale"]
        if self._scale is not None:
            self._scale.fill_(state_dict["scale"])
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._init_growth_tracker = state_dict["_growth_tracker"]
        if self._growth_tracker is not None:
            self._growth_tracker.fill_(state_dict["_growth_tracker"])


def _any_infinite(states: list[dict[str, Any]]) -> Any:
    """Return whether a gradient was not finite, as a tensor."""
    first, *others = [v for s in states for v in s["found_inf_per_device"].values()]
    return sum((v.to(first.device) for v in others), first) > 0


def _python_of(optimizer: Any) -> dict[Any, Any]:
    """What an optimizer keeps in Python that its step may change: options, state and attributes that are no tensors."""
    own = vars(optimizer)
    states = own.get("state")  # an optimizer without one has a property
    states = optimizer.state if states is None else states
    held = [own, *optimizer.param_groups, *states.values()]
    return {
        (id(h), key): value
        for h in held
        for key, value in h.items()
        if isinstance(value, int | float | complex | str | tuple) and key != "_opt_called"
    }


def _is_compiling() -> bool:
    return MODES.run.may_write_outside
