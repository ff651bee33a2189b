"""A compiled function that tells a watch when it is called."""

from __future__ import annotations

import functools
from typing import Any


class Compiled:
    """A compiled function with a watch before it."""

    def __init__(self, function: Any, watch: Any) -> None:
        self.__dict__.update(_function=function, _watch=watch, _ran=set())
        functools.update_wrapper(self, function, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._watch.call(self._function, self._ran, args, kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._function, name)
