"""torch.distributed.elastic.multiprocessing.errors: errors of launched processes, for the one that launched them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def record(fn: Callable[P, T], error_handler: object = None) -> Callable[P, T]:
    """The function itself: no process waits for a file that tells its errors, and they are raised as they are.

    Args:
        fn: the main function of a script.
        error_handler: of those errors; there is nothing to hand over to it.
    """
    if error_handler is not None:
        raise NotImplementedError(
            "record(): error_handler is not supported: no process is launched here"
        )

    @functools.wraps(fn)
    def main(*args: P.args, **kwargs: P.kwargs) -> T:
        return fn(*args, **kwargs)

    return main


__all__ = ["record"]
