"""Names for stretches of a program, as torch.autograd.profiler gives them."""

from __future__ import annotations

import contextlib
from typing import Any

import jax


class record_function(contextlib.ContextDecorator):
    """A named stretch in the traces that `jax.profiler` collects; also a decorator.

    Args:
        name: what the stretch is called.
        args: more text for the label.

    Example:
        >>> with record_function("forward"):
        ...     pass
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name
        self.args = args
        self.run_callbacks_on_exit = True
        self._annotation: Any = None

    def __enter__(self) -> record_function:
        label = self.name if self.args is None else f"{self.name} {self.args}"
        self._annotation = jax.profiler.TraceAnnotation(label)
        self._annotation.__enter__()
        return self

    def __exit__(self, *exc: Any) -> None:
        self._annotation.__exit__(*exc)
        self._annotation = None

    def _recreate_cm(self) -> record_function:
        return type(self)(self.name, self.args)


__all__ = ["record_function"]
