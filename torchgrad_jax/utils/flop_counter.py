"""torch.utils.flop_counter: counts of nothing; counting is refused, since XLA computes whole programs."""

from __future__ import annotations

import warnings
from collections import defaultdict
from typing import Any, NoReturn

from .._core.errors import no_such_name as _no_such_name


class FlopCounterMode:
    """A counter that nothing was counted with yet: entering it is refused.

    Args:
        mods: no longer used, as in torch.
        depth: how deep a table would show modules.
        display: whether leaving would print a table.
        custom_mapping: the user's own formulas.

    Differs from torch: no dispatcher sees every operator. JAX's cost analysis counts what XLA computes.
    """

    def __init__(
        self, mods: Any = None, depth: int = 2, display: bool = True, custom_mapping: Any = None
    ) -> None:
        if mods is not None:
            warnings.warn(
                "mods argument is not needed anymore, you can stop passing it", stacklevel=2
            )
        self.depth, self.display = depth, display
        self.flop_counts: defaultdict[str, dict[Any, int]] = defaultdict(dict)

    def get_total_flops(self) -> int:
        """0: nothing was counted."""
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        """By module and operator: nothing."""
        return {k: dict(v) for k, v in self.flop_counts.items()}

    def __enter__(self) -> NoReturn:
        raise NotImplementedError(
            "FlopCounterMode does not count: there is no dispatcher below the functions of torch. "
            "jax.jit(torchgrad_jax.to_jax(f)).lower(...).cost_analysis() says what XLA computes"
        )

    def __exit__(self, *raised: object) -> None:
        """Never reached, since entering raises."""


def __getattr__(name: str) -> Any:
    raise AttributeError(_no_such_name(f"torch.utils.flop_counter.{name}"))
