"""torch.utils.flop_counter: refused, since XLA computes whole programs; jax's cost analysis counts what they do."""

from __future__ import annotations

from typing import Any

from .._core.errors import no_such_name as _no_such_name


class FlopCounterMode:
    """Refused: there is no dispatcher that sees every operator."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(
            "FlopCounterMode is not supported: there is no dispatcher below the functions of torch. "
            "jax.jit(torchgrad_jax.to_jax(f)).lower(...).cost_analysis() says what XLA computes"
        )


def __getattr__(name: str) -> Any:
    raise AttributeError(_no_such_name(f"torch.utils.flop_counter.{name}"))
