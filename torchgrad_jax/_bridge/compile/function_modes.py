"""Programs and operators that are made under autocast: what they are kept for, and how their code runs again."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from ..._core.signals import contextmanager
from ..._core.state import MODES
from ..._engine.overrides import asking


@contextmanager
def autocast_off() -> Iterator[tuple[Any, Any] | None]:
    """Within it autocast is off. Gives the mode and how it was, for `under_autocast` and as a key.

    It gives None, and changes nothing, where other function modes than autocast are active.
    """
    modes = MODES.function_modes
    if len(modes) == 1 and hasattr(modes[0], "resumed"):
        with modes[0].suspended() as described:
            yield modes[0], described
    else:
        yield None


def under_autocast(f: Callable[..., Any], mode: Any, described: Any) -> Callable[..., Any]:
    """A function that runs with autocast as it was when `autocast_off` described it."""

    @functools.wraps(f)
    def call(*args: Any, **kwargs: Any) -> Any:
        with mode.resumed(described):
            return f(*args, **kwargs)

    return call


def under_modes(f: Callable[..., Any], modes: tuple[Any, ...]) -> Callable[..., Any]:
    """A function that runs under these function modes, whenever it is called."""

    @functools.wraps(f)
    def call(*args: Any, **kwargs: Any) -> Any:
        with asking.only_modes(modes):
            return f(*args, **kwargs)

    return call
