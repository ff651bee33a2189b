"""torch._dynamo.testing: backends that count the programs that are made."""

from __future__ import annotations

from typing import Any

from .._bridge.compile.stance import ProgramCounter, checked_backend
from .._core.errors.messages import missing as _missing


class CompileCounter(ProgramCounter):
    """As `backend=` of `torch.compile` it counts, and XLA compiles.

    `frame_count` is how many programs were made: one for each combination of shapes, dtypes and constants, and one
    more for each trace again. `op_count` is how many operators they have. Functions are compiled whole, so where torch
    breaks a function into several graphs, this counts one.

    Example:
        >>> import torchgrad_jax as torch
        >>> counter = CompileCounter()
        >>> f = torch.compile(lambda x: x.sin() + 1, backend=counter)
        >>> _ = f(torch.ones(2)), f(torch.ones(2)), f(torch.ones(3))
        >>> counter.frame_count
        2
    """


class CompileCounterWithBackend(ProgramCounter):
    """`CompileCounter` for a backend by name. All names of torch's backends mean XLA.

    Args:
        backend: the name.

    `graphs` is always empty: a program is StableHLO, and no graph of torch's operators.
    """

    def __init__(self, backend: str) -> None:
        self.backend: Any = checked_backend(backend)
        super().__init__()

    def clear(self) -> None:
        super().clear()
        self.graphs: list[Any] = []


__getattr__ = _missing(__name__)
