"""A loop that ends by its values, with a gradient.

JAX refuses the reverse-mode derivative of `while_loop`, since nobody knows how many steps there will be to keep values
of. Here the forward loop keeps what its first steps began with, in `_SLOTS` places; when these are full it drops every
second one and from then on keeps every second step, and so on. The backward loop goes from the last step to the
first, and computes what a step began with from the place before it. A loop of up to `_SLOTS` steps is computed
once more by the backward pass, one of `n` steps about `n * n / _SLOTS / 3` steps more. These loops are such loops
themselves, so that there are derivatives of any order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..._core.random.keys import is_key, words_of
from .forward_mode import with_rule

_SLOTS = 64


def while_loop(goes_on: Callable[..., Any], body: Callable[..., Any], init: Any) -> Any:
    """`jax.lax.while_loop`, with a derivative."""
    flat, spec = jax.tree_util.tree_flatten(init)
    keys = [jax.random.key_impl(x) if is_key(x) else None for x in flat]
    first = [words_of(x) for x in flat]

    def value_of(arrays: Sequence[Any]) -> Any:
        leaves = [x if impl is None else jax.random.wrap_key_data(x, impl=impl) for x, impl in zip(arrays, keys)]
        return jax.tree_util.tree_unflatten(spec, leaves)

    def over(f: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *arrays: [words_of(x) for x in jax.tree_util.tree_leaves(f(value_of(arrays)))]

    like = jax.eval_shape(over(body), *first)
    first = [_alike(x, y) for x, y in zip(first, like)]
    if list(map(_kind, first)) != list(map(_kind, like)):
        raise TypeError(
            "while_loop: the body has to return values of the dtypes and shapes that it is given, but is given "
            f"{', '.join(map(_kind, first))} and returns {', '.join(map(_kind, like))}"
        )
    step, read, effects = _closed(over(body), first)
    test, tested, more = _closed(over(goes_on), first)
    loop = _Loop(step, test, len(first), len(read))
    n = len(first) + len(read) + len(tested)
    of_loop = with_rule(
        lambda *args: _run(loop, *args),
        lambda *args: _forward(loop, *args),
        lambda kept, u: _backward(loop, kept, u),
        lambda kept, v: _push(loop, kept[:n], v),
        effects | more,
    )
    return value_of(of_loop(*first, *read, *tested))


def _kind(x: Any) -> str:
    return f"{x.dtype} {tuple(x.shape)}"


def _closed(f: Callable[..., Any], like: Sequence[Any]) -> tuple[Any, list[Any], Any]:
    """A function of the carried values and of what it reads besides; what it reads, and its effects."""
    closed, n = jax.make_jaxpr(f)(*like), len(like)

    def run(*args: Any) -> list[Any]:
        return jax.core.eval_jaxpr(closed.jaxpr, args[n:], *args[:n])

    return run, [jnp.asarray(c) for c in closed.consts], closed.effects


def _alike(x: Any, like: Any) -> Any:
    """A first value of the type that the body gives it, where it was a number of Python."""
    return lax.convert_element_type(x, like.dtype) if jax.typeof(x).weak_type else x


class _Loop:
    """One loop: its two functions, of the carried values and of what they read besides."""

    def __init__(self, step: Any, test: Any, carried: int, read: int) -> None:
        self._step, self._test, self.carried, self.read = step, test, carried, read

    def split(self, args: Sequence[Any]) -> tuple[Any, ...]:
        """Carried values, and what the two functions read."""
        n, m = self.carried, self.carried + self.read
        return tuple(args[:n]), tuple(args[n:m]), tuple(args[m:])

    def test(self, x: Any, tested: Any) -> Any:
        """Return whether there is one more step."""
        return self._test(*x, *tested)[0]

    def step(self, x: Any, read: Any) -> tuple[Any, ...]:
        """The next values."""
        found = self._step(*x, *read)
        return tuple(lax.convert_element_type(y, v.dtype) for y, v in zip(found, x))

    def gradients(self, x: Any, read: Any, slopes: Any) -> tuple[Any, Any]:
        """From the slopes of the floating values after a step those before it, and of what it reads."""

        def floating(values: Any, read: Any) -> list[Any]:
            given = iter(values)
            whole = [next(given) if _is_floating(v) else v for v in x]
            return [y for y in self.step(whole, read) if _is_floating(y)]

        _, back = jax.vjp(floating, [v for v in x if _is_floating(v)], read)
        of_x, of_read = back(list(slopes))
        return of_x, [g if _is_floating(c) else jnp.zeros_like(c) for g, c in zip(of_read, read)]


def _is_floating(x: Any) -> bool:
    return jnp.issubdtype(x.dtype, jnp.inexact)


def _run(loop: _Loop, *args: Any) -> tuple[Any, ...]:
    x, read, tested = loop.split(args)
    return lax.while_loop(lambda x: loop.test(x, tested), lambda x: loop.step(x, read), x)


def _push(loop: _Loop, args: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
    """The tangents of the results: a loop over the values and their tangents, which has derivatives itself."""
    x, read, tested = loop.split(args)
    given = iter(tangents)
    slopes = [next(given) if _is_floating(v) else _no_slope(v) for v in (*x, *read)]
    of_read = slopes[len(x) :]

    def step(carry: Any) -> Any:
        x, moving = carry
        rest = iter(moving)
        of_x = [next(rest) if _is_floating(v) else _no_slope(v) for v in x]
        x, found = jax.jvp(lambda *args: loop.step(args[: len(x)], args[len(x) :]), (*x, *read), (*of_x, *of_read))
        return x, [t for v, t in zip(x, found) if _is_floating(v)]

    start = [t for v, t in zip(x, slopes) if _is_floating(v)]
    return list(while_loop(lambda carry: loop.test(carry[0], tested), step, (x, start))[1])


def _forward(loop: _Loop, *args: Any) -> Any:
    """The loop, and what some of its steps began with: (values, number of steps, slots, steps between slots)."""
    first, read, tested = loop.split(args)

    def keep(n: Any, x: Any, slots: Any, stride: Any) -> Any:
        slots, stride = lax.cond(n == stride * _SLOTS, _halved, lambda s, k: (s, k), slots, stride)
        at = n // stride
        kept = lambda s, v: s.at[at].set(jnp.where(n % stride == 0, v, s[at]))  # noqa: E731
        return tuple(map(kept, slots, x)), stride

    def step(carry: Any) -> Any:
        x, n, slots, stride = carry
        slots, stride = keep(n, x, slots, stride)
        return loop.step(x, read), n + 1, slots, stride

    slots = tuple(jnp.zeros((_SLOTS, *v.shape), v.dtype) for v in first)
    start = (first, jnp.int32(0), slots, jnp.int32(1))
    x, n, slots, stride = while_loop(lambda c: loop.test(c[0], tested), step, start)
    return x, [*args, n, stride, *slots]


def _halved(slots: Any, stride: Any) -> Any:
    half = tuple(jnp.concatenate([s[::2], jnp.zeros_like(s[::2])]) for s in slots)
    return half, stride * 2


def _backward(loop: _Loop, kept: Sequence[Any], slopes: Sequence[Any]) -> list[Any]:
    end = len(kept) - 2 - loop.carried
    _, read, tested = loop.split(kept[:end])
    n, stride, *slots = kept[end:]

    def before(i: Any) -> Any:
        """Return what step `i` began with."""
        at = i // stride
        start = tuple(s[at] for s in slots)
        return _repeat(at * stride, i, lambda _, x: loop.step(x, read), start)

    def step(k: Any, carry: Any) -> Any:
        slopes, of_read = carry
        slopes, more = loop.gradients(before(n - 1 - k), read, slopes)
        return tuple(slopes), tuple(map(jnp.add, of_read, more))

    zeros = tuple(jnp.zeros_like(c) for c in read)
    found, of_read = _repeat(0, n, step, (tuple(slopes), zeros))
    of_all = [*found, *[g for g in of_read if _is_floating(g)]]
    return of_all + [jnp.zeros_like(t) for t in tested if _is_floating(t)]


def _repeat(start: Any, end: Any, body: Callable[..., Any], init: Any) -> Any:
    """`fori_loop` with a derivative, whatever the bounds."""

    def step(carry: Any) -> Any:
        return carry[0] + 1, body(*carry)

    return while_loop(lambda c: c[0] < end, step, (jnp.asarray(start, jnp.int32), init))[1]


def _no_slope(x: Any) -> Any:
    return np.zeros(x.shape, jax.dtypes.float0)
