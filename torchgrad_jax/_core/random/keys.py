"""Random numbers from a key of JAX's: each draw takes the key's next part, by the order of use."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from ..jax.own_kernels import jit
from ..jax.running_transforms import current_trace
from ..jax.x64 import IS_GUEST, Fn, with_x64
from ..signals import contextmanager
from ..state import MODES


def is_key(x: Any) -> bool:
    """Return whether something is a typed key of `jax.random`, or an array of keys."""
    return isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jax.dtypes.prng_key)


def words_of(x: Any) -> Any:
    """An array; of typed keys, the words that they consist of."""
    return jax.random.key_data(x) if is_key(x) else jnp.asarray(x)


def checked(key: Any) -> Any:
    """A typed key, also of the two words of `jax.random.PRNGKey`.

    Raises:
        TypeError: it is no single key.
    """
    if is_key(key):
        typed = key
    elif getattr(key, "dtype", None) == np.uint32:
        typed = jax.random.wrap_key_data(jnp.asarray(key))
    else:
        raise TypeError(f"rngs: expected a key such as jax.random.key(0), not {type(key).__name__}")
    if typed.shape:
        raise TypeError(f"rngs: expected one key, not keys of shape {typed.shape}")
    return typed


def _draws(method: Fn) -> Fn:
    """A method that draws, whose numbers have all their bits in a program that JAX lowers without 64-bit types, too."""
    if not IS_GUEST:
        return method
    draw_now = with_x64(method)

    @functools.wraps(method)
    def draw(self: KeyStream, *args: Any, **kwargs: Any) -> Any:
        if type(current_trace()).__name__ != "DynamicJaxprTrace":
            return draw_now(self, *args, **kwargs)
        return jit(lambda key: method(_OfOneDraw(key), *args, **kwargs))(self.next())

    return cast("Fn", draw)


class KeyStream:
    """Stands for a generator while numbers come from a key. Its methods have the shapes and dtypes of `rng`."""

    __slots__ = ("drawn", "key", "trace")

    def __init__(self, key: Any, drawn: int = 0) -> None:
        self.key, self.drawn = checked(key), drawn
        self.trace = current_trace()

    def may_draw(self) -> bool:
        """Return whether no other function is being traced, whose numbers would be the same in each run."""
        now = current_trace()
        return now is self.trace or type(now).__name__ != "DynamicJaxprTrace"

    def next(self) -> Any:
        """The key of the next draw.

        Raises:
            RuntimeError: another function is being traced.
        """
        if not self.may_draw():
            raise RuntimeError(
                "a random operation inside of a function that JAX traces on its own (jax.jit, jax.lax.scan, ...) would "
                "give the same numbers each time it runs; pass a key to that function, and draw inside of "
                "`with torchgrad_jax.interop.rngs(key)` there"
            )
        self.drawn += 1
        return jax.random.fold_in(self.key, self.drawn - 1)

    @_draws
    def random32(self, count: int) -> Any:
        return jax.random.bits(self.next(), (count,), jnp.uint32)

    @_draws
    def random64(self, count: int) -> Any:
        return jax.random.bits(self.next(), (count,), jnp.uint64)

    @_draws
    def floats(self, count: int) -> Any:
        return jax.random.uniform(self.next(), (count,), jnp.float32)

    @_draws
    def doubles(self, count: int) -> Any:
        return jax.random.uniform(self.next(), (count,), jnp.float64)

    @_draws
    def uniform(self, shape: Sequence[int], dtype: Any, low: float, high: float) -> Any:
        return jax.random.uniform(self.next(), tuple(shape), dtype, low, high)

    @_draws
    def normal(self, shape: Sequence[int], dtype: Any, mean: float, std: float) -> Any:
        return jax.random.normal(self.next(), tuple(shape), dtype) * std + mean

    @_draws
    def log_normal(self, shape: Sequence[int], dtype: Any, mean: float, std: float) -> Any:
        return jnp.exp(self.normal(shape, dtype, mean, std))

    @_draws
    def permutation(self, n: int, dtype: Any) -> Any:
        return jax.random.permutation(self.next(), n).astype(dtype)

    @_draws
    def bernoulli(self, p: float, shape: Sequence[int], dtype: Any) -> Any:
        return jax.random.bernoulli(self.next(), p, tuple(shape)).astype(dtype)

    @_draws
    def exponential(self, shape: Sequence[int], dtype: Any, rate: float) -> Any:
        return jax.random.exponential(self.next(), tuple(shape), dtype) / rate

    @_draws
    def cauchy(self, shape: Sequence[int], dtype: Any, median: float, sigma: float) -> Any:
        return jax.random.cauchy(self.next(), tuple(shape), dtype) * sigma + median

    @_draws
    def geometric(self, shape: Sequence[int], p: float, dtype: Any) -> Any:
        level = 1.0 - self.floats(math.prod(shape)).reshape(tuple(shape))  # in (0, 1]
        return jnp.maximum(jnp.ceil(jnp.log(level) / math.log(1.0 - p)), 1.0).astype(dtype)


class _OfOneDraw(KeyStream):
    """A key that is used for one draw."""

    __slots__ = ()

    def next(self) -> Any:
        """The key itself."""
        return self.key


@contextmanager
def drawing_from(key: Any) -> Iterator[None]:
    """Take the numbers of draws that name no generator from a key, inside of this context.

    Example:
        >>> import jax
        >>> import torchgrad_jax as torch
        >>> with torch.interop.rngs(jax.random.key(0)):
        ...     a = torch.rand(2)
        >>> with torch.interop.rngs(jax.random.key(0)):
        ...     b = torch.rand(2)
        >>> torch.equal(a, b)
        True
    """
    before, MODES.keys = MODES.keys, None if key is None else KeyStream(key)
    try:
        yield
    finally:
        MODES.keys = before


@contextmanager
def resumed(stream: KeyStream | None, drawn: int) -> Iterator[None]:
    """A context in which draws repeat the numbers that came after so many draws."""
    if stream is None:
        yield
        return
    before, MODES.keys = MODES.keys, KeyStream(stream.key, drawn)
    try:
        yield
    finally:
        MODES.keys = before
