"""Random numbers as torch's loaders draw them, so that the order of examples is the same."""

from __future__ import annotations

from typing import Any

from ..._core.state import MODES
from ..._engine.entry.bind import NAMESPACES
from ..._functions.random import Generator

_torch = NAMESPACES[""]


def _where() -> dict[str, Any]:
    """Where numbers are drawn that Python reads: not on hardware that is not here, whose tensors have no values."""
    return {} if MODES.target is None else {"device": "cpu"}


def permutation(n: int, generator: Generator | None) -> list[int]:
    """The numbers below n in random order."""
    return _torch["randperm"](n, generator=generator, **_where()).tolist()


def integers(high: int, n: int, generator: Generator | None) -> list[int]:
    """n numbers below `high`."""
    return _torch["randint"](high, (n,), generator=generator, **_where()).tolist()


def seed(generator: Generator | None = None) -> int:
    """A seed for a generator of one's own."""
    from ..._core.arrays import dtypes

    return int(_torch["empty"]((), dtype=dtypes.int64, **_where()).random_(generator=generator).item())


def fresh_generator() -> Generator:
    """A generator seeded from the default one."""
    out = Generator()
    out.manual_seed(seed())
    return out
