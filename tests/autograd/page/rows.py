"""How the rows of the page are written: under what they show, a function of the module that gives what is compared."""

from collections.abc import Callable
from typing import Any


class Rows(dict[str, Callable[[Any], Any]]):
    """Rows by what they show: ``name``, ``name(option, option)``, ``Class.member(option)`` or ``name: example``."""

    def __call__(self, key: str) -> Callable[[Any], Any]:
        """As a decorator, add a row that takes several lines."""

        def add(fn: Callable[[Any], Any]) -> Callable[[Any], Any]:
            self[key] = fn
            return fn

        return add


def leaf(m: Any, *values: float, dtype: str = "float32") -> Any:
    """A leaf that requires a gradient."""
    return m.tensor([float(v) for v in values], dtype=getattr(m, dtype), requires_grad=True)


def text_of_error(call: Callable[[], Any]) -> Any:
    """What a call gives, or the class and the first line of the error that it raises."""
    try:
        return call()
    except Exception as error:
        return type(error).__name__, str(error).partition("\n")[0]
