"""Tracing below autograd, which is not there: nothing is ever being traced so."""

from __future__ import annotations

from typing import Any


def get_proxy_mode() -> None:
    """None: there is no such tracing."""


def make_fx(f: Any, *args: Any, **kwargs: Any) -> Any:
    """Refused: `torch.fx.symbolic_trace` records calls of public functions; `torch.func` and JAX transform programs.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError("make_fx is not supported: it traces torch's internal operators, which are not here")
