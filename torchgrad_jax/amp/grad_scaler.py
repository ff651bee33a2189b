"""GradScaler: losses times a large number, gradients divided by it, steps left out that would not be finite."""

from __future__ import annotations

import enum
import warnings
from collections import defaultdict
from typing import Any

from .._core import devices, dtypes
from .._engine.bind import NAMESPACES
from .._engine.record import no_grad
from .._engine.tensor import Tensor

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
        self, device: str = "cuda", init_scale: float = 2.0**16, growth_factor: float = 2.0,
        backoff_factor: float = 0.5, growth_interval: int = 2000, enabled: bool = True,
    ) -> None:  # fmt: skip
        self._device = devices.device(device).type
        self._enabled = enabled
        if enabled and self._device == "cuda":
            from .autocast_mode import _has_gpu

            if not _has_gpu():
                warnings.warn(
                    "torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.",
                    stacklevel=2,
                )
                self._enabled = False
        if self._enabled:
            if growth_factor <= 1.0:
                raise AssertionError("The growth factor must be > 1.0.")
            if backoff_factor >= 1.0:
                raise AssertionError("The backoff factor must be < 1.0.")
            self._init_scale = init_scale
            self._scale: Any = None
            self._growth_factor, self._backoff_factor = growth_factor, backoff_factor
            self._growth_interval = growth_interval
            self._growth_tracker = 0
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
            if self._scale is None:
                self._scale = _torch["full"](
                    (), self._init_scale, dtype=dtypes.float32, device=outputs._m.device
                )
            return outputs * self._scale.to(outputs._m.device)
        if isinstance(outputs, list | tuple):
            scaled = [self.scale(x) for x in outputs]
            return type(outputs)(*scaled) if hasattr(outputs, "_fields") else type(outputs)(scaled)
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of an optimizer's parameters by the scale, to clip them, say."""
        if not self._enabled:
            return
        scale = self._started("unscale_")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.UNSCALED:
            raise RuntimeError(
                "unscale_() has already been called on this optimizer since the last update()."
            )
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
        out = None
        if not any(bool(v) for v in state["found_inf_per_device"].values()):
            out = optimizer.step(*args, **kwargs)
        state["stage"] = OptState.STEPPED
        return out

    def update(self, new_scale: Any = None) -> None:
        """Adapt the scale to what was found since the last update, or set it."""
        if not self._enabled:
            return
        scale = self._started("update")
        if new_scale is not None:
            scale.fill_(float(new_scale))
        else:
            found = [
                v
                for s in self._per_optimizer_states.values()
                for v in s["found_inf_per_device"].values()
            ]
            if not found:
                raise AssertionError("No inf checks were recorded prior to update.")
            self._adapt(any(bool(v) for v in found))
        self._per_optimizer_states = defaultdict(_fresh)

    def _adapt(self, infinite: bool) -> None:
        if infinite:
            self._scale.mul_(self._backoff_factor)
            self._growth_tracker = 0
            return
        self._growth_tracker += 1
        if self._growth_tracker == self._growth_interval:
            grown = self._scale * self._growth_factor
            if bool(grown.isfinite()):
                self._scale.copy_(grown)
            self._growth_tracker = 0

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
        """Whether the scaler does anything."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """The state, for a checkpoint; empty if the scaler is disabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(), "growth_factor": self._growth_factor, "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval, "_growth_tracker": self._growth_tracker,
        }  # fmt: skip

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
        self._growth_tracker = state_dict["_growth_tracker"]
