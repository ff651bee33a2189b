"""Which function computes the divergence of which pair of distributions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._core.errors import warn
from .distribution import Distribution

_KL_REGISTRY: dict[tuple[type, type], Callable[[Any, Any], Any]] = {}
_KL_MEMOIZE: dict[tuple[type, type], Any] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Any], Any]:
    """Declare a function of two distributions as their divergence, as a decorator."""
    for name, kind in (("type_p", type_p), ("type_q", type_q)):
        if not isinstance(kind, type) and issubclass(kind, Distribution):
            raise TypeError(f"Expected {name} to be a Distribution subclass but got {kind}")

    def decorator(fn: Any) -> Any:
        _KL_REGISTRY[type_p, type_q] = fn
        _KL_MEMOIZE.clear()  # what was chosen before may not be the closest any more
        return fn

    return decorator


def _dispatch_kl(p: type, q: type) -> Any:
    """The rule for the closest base classes, those of p first."""
    fits = [k for k in _KL_REGISTRY if issubclass(p, k[0]) and issubclass(q, k[1])]
    if not fits:
        return NotImplemented

    def far(k: tuple[type, type]) -> tuple[int, int]:
        return p.__mro__.index(k[0]), q.__mro__.index(k[1])

    left, right = min(fits, key=far), min(fits, key=lambda k: far(k)[::-1])
    if _KL_REGISTRY[left] is not _KL_REGISTRY[right]:
        warn.to_user(
            f"Ambiguous kl_divergence({p.__name__}, {q.__name__}). "
            f"Please register_kl({left[0].__name__}, {right[1].__name__})",
            RuntimeWarning,
        )
    return _KL_REGISTRY[left]


def kl_divergence(p: Distribution, q: Distribution) -> Any:
    """How much p differs from q: the mean of ``log p(x) - log q(x)`` over samples x of p.

    Raises:
        NotImplementedError: no rule for the two classes.
    """
    kinds = (type(p), type(q))
    if kinds not in _KL_MEMOIZE:
        _KL_MEMOIZE[kinds] = _dispatch_kl(*kinds)
    rule = _KL_MEMOIZE[kinds]
    if rule is NotImplemented:
        names = [k.__name__ for k in kinds]
        raise NotImplementedError(f"No KL(p || q) is implemented for p type {names[0]} and q type {names[1]}")
    return rule(p, q)
