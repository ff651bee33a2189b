"""What is measured of a model: a training as a user writes it, eager, with the model compiled, or the whole step."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

CALLS = 5
TOLERANCE = 1e-4
"""Of the largest number in a tensor: a program may add in another order than its steps one by one."""
SMALLEST = 1e-2
"""A tensor with only smaller numbers is compared as if this were the largest: biases begin at 0."""


def adamw(params: Any) -> torch.optim.Optimizer:
    """Divides by no rounding error: gradients that are 0 but for rounding would move by the whole rate."""
    return torch.optim.AdamW([p for p in params if p.requires_grad], lr=1e-3, eps=1e-3)


@dataclass
class Training:
    """A model, what draws its batches, and its loss of a batch."""

    model: Any
    batch: Callable[[], Any]
    loss: Callable[[Any, Any], torch.Tensor] = lambda model, batch: model(**batch).loss
    optimizer: Callable[[Any], torch.optim.Optimizer] = adamw

    def start(self, way: str) -> tuple[Callable[[Any], Any], Any]:
        """The step to call, and what of it is compiled."""
        model, optimizer, loss_of = self.model, self.optimizer(self.model.parameters()), self.loss
        if way == "model":
            model = torch.compile(model)

        def step(batch: Any) -> torch.Tensor:
            loss = loss_of(model, batch)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss

        if way == "step":
            step = torch.compile(step)
        return step, {"model": model, "step": step}.get(way)

    def state(self) -> dict[str, torch.Tensor]:
        """What the training has changed."""
        return {k: v.detach() for k, v in self.model.state_dict().items() if isinstance(v, torch.Tensor)}


@dataclass
class Measured:
    """How the calls of one way went."""

    values: list[Any]
    state: dict[str, torch.Tensor]
    seconds: list[float] = field(default_factory=list)
    counts: list[dict[str, int]] = field(default_factory=list)
    """What the compiled object had counted after each call."""
    reasons: list[str] = field(default_factory=list)

    def row(self) -> dict[str, Any]:
        """For the parent process."""
        return {"seconds": self.seconds, "counts": self.counts, "reasons": self.reasons}


def measure(make: Callable[[], Any], way: str) -> Measured:
    """Make a training, and run its calls with batches of equal shapes and new values."""
    torch.manual_seed(0)
    training = make()
    batches = [training.batch() for _ in range(CALLS)]
    torch.manual_seed(1)
    call, compiled = training.start(way)
    found = Measured([], {})
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for batch in batches:
            began = time.perf_counter()
            found.values.append(call(batch).tolist())
            found.seconds.append(time.perf_counter() - began)
            found.counts.append(dict(_inner(compiled, "counts") or {}))
    found.state = training.state()
    found.reasons = [str(r) for r in _inner(compiled, "reasons") or ()]
    found.reasons += [str(w.message) for w in told if str(w.message).startswith("torch.compile")]
    return found


def _inner(compiled: Any, name: str) -> Any:
    """An attribute of the compiled object behind a function, a module or something that wraps one."""
    own = getattr(compiled, "__dict__", {}).get("_compiled", compiled)
    return getattr(own, name, None)


def difference(want: Measured, got: Measured) -> str:
    """The first place where a compiled training parts from the eager one; empty if there is none."""
    for i, (a, b) in enumerate(zip(want.values, got.values, strict=True)):
        why = _apart(torch.tensor(a), torch.tensor(b), smallest=1e-6)
        if why:
            return f"value of call {i + 1}: {why}"
    if want.state.keys() != got.state.keys():
        return f"state has other names: {sorted(want.state.keys() ^ got.state.keys())[:3]}"
    for name, a in want.state.items():
        why = _apart(a, got.state[name], SMALLEST)
        if why:
            return f"{name}: {why}"
    return ""


def _apart(a: torch.Tensor, b: torch.Tensor, smallest: float) -> str:
    if a.shape != b.shape or a.dtype != b.dtype:
        return f"{tuple(b.shape)} {b.dtype}, not {tuple(a.shape)} {a.dtype}"
    if not a.numel():
        return ""
    a, b = a.double(), b.double()
    if not bool(torch.isfinite(a).all()):
        return "" if torch.equal(torch.nan_to_num(a), torch.nan_to_num(b)) else "not finite, and not the same"
    off = (a - b).abs().max().item() / max(a.abs().max().item(), smallest)
    return "" if off <= TOLERANCE else f"off by {off:.1e} of the largest number"


def small_words(vocabulary: int = 60, shape: Sequence[int] = (2, 8)) -> torch.Tensor:
    """A batch of texts: no word is one of the first, which stand for padding and the like."""
    return torch.randint(4, vocabulary, tuple(shape))
