"""``TORCHGRAD_JAX_CHECK_CALLS=1``: each call that takes a short way is read in general form, too.

``x.gather(1, i)`` is then looked up by its arguments as they came, and beside that every argument is read by its kind,
as if no such call had been made before. Both have to find the same call of the row with the same leaves, the same key
of its plan, and the same tensors that require gradients; a function that is made of others has to take the arguments
as they are.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from ..._core.state import MODES
from ..graph.views import known_view
from ..memory.tensor import Tensor
from ..run.trace import Call

CHECKING = os.environ.get("TORCHGRAD_JAX_CHECK_CALLS", "") not in ("", "0")


def compare(me: Any, args: Sequence[Any], call: Call, leaves: Sequence[Any], keys: Any = None, mask: int = -1) -> None:
    """Complain if the general reading of a call of the row's function `me` finds something else.

    `mask` says which leaves require gradients, if the call is recorded.
    """
    general, others = _general(me, args)
    same = {"call": _is_same_call(call, general), "leaves": _are_same(leaves, others)}
    if keys is not None and MODES.run.at_once:
        plan_keys, _, requires = MODES.run.keys_of(leaves)
        same |= {"key of the plan": keys == plan_keys, "recorded leaves": mask in (-1, requires)}
    _complain(me.__name__, args, same)


def compare_view(me: Any, args: Sequence[Any], known: tuple[Any, ...]) -> None:
    """The same for a view that was made before: it has to lie where a new one would."""
    general, others = _general(me, args)
    again = known_view(general, others[0]._m, others)
    same = {"call": _is_same_call(known[2], again[2]), "geometry": _are_same(known, again, besides=2)}
    _complain(me.__name__, args, same)


def compare_composite(form: Any) -> Callable[..., Any]:
    """A function that is made of others, for calls whose arguments it was seen to take: each is looked at again."""

    def looked_at(*args: Any, **kwargs: Any) -> Any:
        again, names, out = form.named(args, dict(kwargs), (), None)
        same = kwargs.keys() == names.keys() and all(v is names[k] for k, v in kwargs.items())
        _complain(form.said, args, {"arguments": _are_same(args, again), "names": same, "out": out is None})
        form.look(args, kwargs)
        return form.fn(*args, **kwargs)

    return looked_at


def _general(me: Any, args: Sequence[Any]) -> tuple[Call, tuple[Any, ...]]:
    binding = me.form.binding
    statics, leaves, counts = binding.read(args)
    return binding.call(*statics, *counts), leaves


def _is_same_call(a: Call, b: Call) -> bool:
    """Return whether they are one call; of one that was forgotten meanwhile there may be two."""
    return a is b or (a.row is b.row and a.statics == b.statics and a.argnames == b.argnames)


def _are_same(a: Sequence[Any], b: Sequence[Any], besides: int | None = None) -> bool:
    """Return whether these are the same tensors and equal numbers, but for the one in a place."""
    return len(a) == len(b) and all(_is_same(v, w) for i, (v, w) in enumerate(zip(a, b)) if i != besides)


def _is_same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if isinstance(a, Tensor) or a.__class__ is not b.__class__:
        return False
    return _are_same(a, b) if isinstance(a, list | tuple) else bool(a == b or (a != a and b != b))


def _complain(name: str, args: Sequence[Any], same: dict[str, bool]) -> None:
    if not all(same.values()):
        what = ", ".join(k for k, v in same.items() if not v)
        raise AssertionError(f"{name}: the short way and the general reading differ in {what}. Given was {args}")
