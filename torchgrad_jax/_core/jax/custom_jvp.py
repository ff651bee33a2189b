"""`jax.custom_jvp` whose rules leave out the terms of arguments that have no tangent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.custom_derivatives import SymbolicZero

from .sizes import Size
from .x64 import with_x64


class custom_jvp(jax.custom_jvp):
    """As `jax.custom_jvp`, but an argument without a tangent adds nothing to the result's tangent.

    Of ``x / y`` at ``y = 0`` where only `x` has a tangent, the rule ``(tx - ty * out) / y`` gives ``tx / y``. JAX would
    pass zeros for `ty`, and ``0 * inf`` is NaN.
    """

    def defjvp(self, jvp: Callable[..., Any], symbolic_zeros: bool = False) -> Callable[..., Any]:
        """Set the rule. With `symbolic_zeros` it looks itself at which tangents are absent."""
        rule = jvp if symbolic_zeros else _of_given_tangents(jvp)
        super().defjvp(with_x64(_without_tangents_of_integers(rule)), symbolic_zeros=True)
        return jvp


def _without_tangents_of_integers(rule: Callable[..., Any]) -> Callable[..., Any]:
    """The rule, which says of results that are integers that they have no tangent.

    Zeros in their place would be the same on all devices, and JAX refuses those in a `shard_map`, where results differ.
    """

    def jvp(*args: Any) -> Any:
        primal, tangent = rule(*args)
        return primal, jax.tree.map(_absent_if_of_integers, primal, tangent, is_leaf=is_absent)

    return jvp


def _absent_if_of_integers(primal: Any, tangent: Any) -> Any:
    of_integers = _of_integers(tangent) and not is_absent(tangent)
    return SymbolicZero(jax.typeof(primal).to_tangent_aval()) if of_integers else tangent


def _of_given_tangents(rule: Callable[..., Any]) -> Callable[..., Any]:
    """The rule for tangents of which some are absent.

    A rule is linear, so it is its own derivative. JAX's derivative of it by the tangents that are given has no terms of
    the others, which are constants to it. A rule that calls its own function would recur without end, so it asks for
    `symbolic_zeros`.
    """

    def jvp(*args: Any) -> Any:
        *static, primals, tangents = args
        leaves, tree = jax.tree.flatten(tangents, is_leaf=is_absent)
        full = [_zeros(t) if is_absent(t) else t for t in leaves]
        given = [k for k, t in enumerate(leaves) if not is_absent(t)]
        if all(k in given or _of_integers(t) for k, t in enumerate(leaves)):
            return rule(*static, primals, jax.tree.unflatten(tree, full))
        along: list[Any] = []
        structure: Any = None

        def of_given(*ts: Any) -> Any:
            nonlocal along, structure
            for k, t in zip(given, ts):
                full[k] = t
            out, tangent = rule(*static, primals, jax.tree.unflatten(tree, full))
            along, structure = jax.tree.flatten(tangent)
            return [t for t in along if not _of_integers(t)], out

        ts = [leaves[k] for k in given]
        at = [jax.numpy.zeros_like(t) for t in ts]
        _, moved, out = jax.jvp(of_given, at, ts, has_aux=True)
        rest = iter(moved)
        return out, jax.tree.unflatten(structure, [t if _of_integers(t) else next(rest) for t in along])

    return jvp


NO_TANGENT = np.zeros((), jax.dtypes.float0)
"""The tangent of a result that is an integer, as a rule says it."""


def is_absent(t: Any) -> bool:
    """Return whether a rule with `symbolic_zeros` was given no tangent here."""
    return isinstance(t, SymbolicZero)


def _zeros(t: Any) -> Any:
    """Zeros in the shape of a symbolic zero; an integer's tangents have a dtype of their own."""
    if _of_integers(t):
        return NO_TANGENT if any(n.__class__ is Size for n in t.shape) else np.zeros(t.shape, t.dtype)
    return jax.numpy.zeros(t.shape, t.dtype)


def _of_integers(t: Any) -> bool:
    return getattr(t, "dtype", None) == jax.dtypes.float0
