"""What programs of these tests share; a program runs under torch and under torchgrad_jax alike."""

import warnings
from collections.abc import Callable
from typing import Any


def leaf(m: Any, *values: float) -> Any:
    """A leaf that requires a gradient."""
    return m.tensor([float(v) for v in values], requires_grad=True)


def attempt(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, list[Any]]:
    """What a call gives or raises, and what it warns of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            outcome = ("ok", fn(*args, **kwargs))
        except Exception as error:
            outcome = (type(error).__name__, str(error))
    seen = [(w.category.__name__, str(w.message)) for w in caught]
    return outcome, [w for w in seen if w[0] != "DeprecationWarning"]
