"""Sizes that are symbols: what is traced with them holds for other sizes, too.

    sizes = Sizes((5, 3))
    n, k = sizes.symbols
    n * k + 1  # a Size, whose hint is 16
    n == 4  # False, and from now on `sizes.guards` says that this holds where n is not 4

A `Size` is a dimension with a *hint*, the number that it is in the trace at hand. Nobody gets at that number: a size
has no `__index__`. It answers comparisons by its hint, and each answer that does not follow from what is known of the
symbols (they are at least 2, since 0 and 1 are no symbols) is written down as a guard. The trace holds for exactly the
sizes that give the same answers. JAX takes any object with `dimension_as_value` as a dimension.

A size in a `set` or a `dict` beside numbers is found by its hash, and no guard is written down: kernels do not do that.
"""

from __future__ import annotations

import functools
import math
import operator
import threading
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np

from ..signals import contextmanager
from .private import AVAL, CONVOLUTION, CORE, Patches

Terms = tuple[tuple[tuple[int, ...], int], ...]
"""A sum of products: of each product the numbers of its factors, and what it is multiplied by."""
SMALLEST = 2


class NotGeneral(Exception):
    """A trace holds for one size alone, or nobody can tell for which it holds."""


class Sizes:
    """The symbols of one trace, and the answers that it got."""

    def __init__(self, hints: Sequence[int], equal: dict[int, int] | None = None) -> None:
        self.hints = [*hints]
        """Of each factor of a product: first of the symbols, then of quotients."""
        self.lowest: list[int | None] = [SMALLEST] * len(self.hints)
        self.quotients: list[tuple[Any, Any]] = []
        self.guards: dict[tuple[str, Terms], bool] = {}
        """By ``("==", terms)`` or ``("<", terms)``, whether the terms are 0, or less than 0."""
        self.decided: dict[tuple[Any, tuple[Any, ...]], Any] = {}
        """By function and sizes, what `decided` gave, which is a guard as well."""
        self._known: dict[Terms, Size] = {}
        self._lock = threading.RLock()
        self._texts: dict[Size, str] = {}
        self._numbers: dict[Any, int] = {}
        self.tracing = 0
        """How many traces with these symbols are under way. Outside of them a size is equal to no number: JAX looks for
        what it traced before by shapes whose hashes need not be equal, and would find a trace with symbols."""
        self.avals: dict[Any, Any] = {}
        """What JAX knows of arrays of these sizes, by shape, dtype and more."""
        self.n = len(self.hints)
        self.symbols = [self.size({(i,): 1}) for i in range(self.n)]
        for i, j in (equal or {}).items():  # they are one symbol from here on
            assert self.symbols[i] == self.symbols[j]
            self.symbols[i] = self.symbols[j]

    def size(self, terms: dict[tuple[int, ...], int]) -> Any:
        """The sum of these terms: a size, or a number where there is no symbol in it."""
        items = tuple(sorted([(factors, c) for factors, c in terms.items() if c]))
        if not items or (len(items) == 1 and not items[0][0]):
            return items[0][1] if items else 0
        found = self._known.get(items)
        return self._known.setdefault(items, Size(self, items)) if found is None else found

    @contextmanager
    def trace(self) -> Iterator[None]:
        """Inside, sizes answer whether they are equal to a number; one thread at a time."""
        with self._lock, _KNOWN_TO_JAX():
            self.tracing += 1
            try:
                yield
            finally:
                self.tracing -= 1

    @contextmanager
    def deciding(self) -> Iterator[Callable[[], Callable[[Sequence[int]], bool]]]:
        """Inside, answers are kept apart from those before; gives `check` of these alone."""
        with self.trace():
            before = self.guards, self.decided
            self.guards, self.decided = {}, {}
            try:
                yield self.check
            finally:
                self.guards, self.decided = before

    def quotient(self, a: Any, b: Any) -> Any:
        """``a // b`` as a factor of its own."""
        key = _key(a), _key(b)
        number = self._numbers.get(key)
        if number is None:
            self.hints.append(hint(a) // hint(b))
            low, over = _low(a), _low(b)
            self.lowest.append(0 if low is not None and low >= 0 and over is not None and over > 0 else None)
            self.quotients.append((a, b))
            number = self._numbers[key] = len(self.hints) - 1
        return self.size({(number,): 1})

    def answer(self, op: str, d: Size) -> bool:
        """Whether `d` is 0, or less than 0."""
        low, high = d.low, d.high
        if (low is not None and low > 0) or (op == "<" and low == 0):
            return False
        if high is not None and high < 0:
            return op == "<"
        if op == "==" and d.terms[0][1] < 0:
            d = -d
        truth = d.hint == 0 if op == "==" else d.hint < 0
        self.guards[op, d.terms] = truth
        return truth

    def require(self, shape: Sequence[Any], other: Sequence[Any]) -> None:
        """Two shapes have as many elements, or the trace holds for nothing."""
        with self.trace():
            if math.prod(shape) != math.prod(other):
                raise NotGeneral(f"the shapes {shape} and {other}")

    def equal(self) -> dict[int, int]:
        """Which symbols have to be equal to an earlier one, by the answers so far."""
        found: dict[int, int] = {}
        for (op, terms), truth in self.guards.items():
            if (op, truth) == ("==", True) and len(terms) == 2 and terms[0][1] == -terms[1][1]:
                symbols = [factors[0] for factors, _ in terms if len(factors) == 1 and factors[0] < self.n]
                if len(symbols) == 2:
                    first, second = sorted(found.get(s, s) for s in symbols)
                    found = {s: first if other == second else other for s, other in found.items()}
                    found |= {second: first} if first != second else {}
        return found

    def text(self, x: Any) -> str:
        """A size, or a number, as an expression in `s`, the numbers that the symbols stand for."""
        if not isinstance(x, Size):
            return repr(int(x))
        found = self._texts.get(x)
        if found is None:
            parts = [
                "*".join([f"({c})"] * (c != 1 or not factors) + [*map(self._factor, factors)]) for factors, c in x.terms
            ]
            found = self._texts[x] = f"({'+'.join(parts)})"
        return found

    def _factor(self, number: int) -> str:
        if number < self.n:
            return f"s[{number}]"
        a, b = self.quotients[number - self.n]
        return f"({self.text(a)}//{self.text(b)})"

    def check(self) -> Callable[[Sequence[int]], bool]:
        """A function of the numbers that the symbols stand for: whether they give the answers so far."""
        parts = [
            f"{'' if truth else 'not '}{self.text(self.size(dict(terms)))} {op} 0"
            for (op, terms), truth in [*self.guards.items()]
        ]
        space: dict[str, Any] = {}
        for i, ((fn, sizes), value) in enumerate([*self.decided.items()]):
            space[f"f{i}"], space[f"v{i}"] = fn, value
            parts.append(f"f{i}({', '.join(map(self.text, sizes))}) == v{i}")
        return written("lambda s: " + (" and ".join(parts) or "True"), space)


WRITTEN = "<sizes>"
"""The file that functions of sizes are in, which are written as text."""


def written(text: str, names: dict[str, Any] | None = None) -> Any:
    """Return the function that a text says, with these names."""
    return eval(compile(text, WRITTEN, "eval"), {} if names is None else names)


def hint(x: Any) -> int:
    """The number that a size is in its trace. Not for kernels: what they do with it holds for that number alone."""
    return x.hint if isinstance(x, Size) else int(x)


def _key(x: Any) -> Any:
    return x.terms if isinstance(x, Size) else int(x)


def _low(x: Any) -> int | None:
    return x.low if isinstance(x, Size) else int(x)


_WHOLE = (int, np.integer)


class Size:
    """A sum of products of symbols."""

    __slots__ = ("__weakref__", "_hash", "high", "hint", "low", "sizes", "terms")
    __array_ufunc__ = None

    def __init__(self, sizes: Sizes, terms: Terms) -> None:
        self.sizes, self.terms, self._hash = sizes, terms, hash((id(sizes), terms))
        self.hint = 0
        lowest: list[int | None] = []
        highest: list[int | None] = []
        for factors, c in terms:
            value, least = c, c
            for i in factors:
                value *= sizes.hints[i]
                low = sizes.lowest[i]
                least = None if least is None or low is None else least * low
            self.hint += value
            lowest.append(least if c > 0 or not factors else None)
            highest.append(least if c < 0 or not factors else None)
        self.low, self.high = _sum(lowest), _sum(highest)

    def __repr__(self) -> str:
        return self.sizes.text(self)

    def __hash__(self) -> int:
        return self._hash

    def _terms(self, other: Any) -> Terms | None:
        if other.__class__ is Size:
            if other.sizes is not self.sizes:
                raise NotGeneral("sizes of two traces")
            return other.terms
        return (((), int(other)),) if isinstance(other, _WHOLE) else None

    # --- arithmetic

    def __add__(self, other: Any) -> Any:
        return self._plus(other, 1, "__add__")

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self._plus(other, -1, "__sub__")

    def _plus(self, other: Any, sign: int, name: str) -> Any:
        more = self._terms(other)
        if more is None:
            return self._as_array(name, other)
        terms = dict(self.terms)
        for factors, c in more:
            terms[factors] = terms.get(factors, 0) + sign * c
        return self.sizes.size(terms)

    def __rsub__(self, other: Any) -> Any:
        return self._as_array("__rsub__", other) if self._terms(other) is None else -self + other

    def __neg__(self) -> Any:
        return self.sizes.size({factors: -c for factors, c in self.terms})

    def __mul__(self, other: Any) -> Any:
        more = self._terms(other)
        if more is None:
            return self._as_array("__mul__", other)
        terms: dict[tuple[int, ...], int] = {}
        for mine, c in self.terms:
            for theirs, d in more:
                key = tuple(sorted(mine + theirs))
                terms[key] = terms.get(key, 0) + c * d
        return self.sizes.size(terms)

    __rmul__ = __mul__

    def __pow__(self, n: Any) -> Any:
        if not isinstance(n, int) or n < 0:
            return self._as_array("__pow__", n)
        return functools.reduce(lambda out, _: self * out, range(n), 1)

    def __floordiv__(self, other: Any) -> Any:
        return self._as_array("__floordiv__", other) if self._terms(other) is None else _quotient(self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._as_array("__rfloordiv__", other) if self._terms(other) is None else _quotient(int(other), self)

    def __mod__(self, other: Any) -> Any:
        return self._as_array("__mod__", other) if self._terms(other) is None else self - (self // other) * other

    def __rmod__(self, other: Any) -> Any:
        return other - (other // self) * self

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __truediv__(self, other: Any) -> Any:
        return self._as_array("__truediv__", other)

    def __rtruediv__(self, other: Any) -> Any:
        return self._as_array("__rtruediv__", other)

    def _as_array(self, name: str, other: Any) -> Any:
        if not isinstance(other, float | int | jax.Array | Size):
            return NotImplemented
        other = other.dimension_as_value() if isinstance(other, Size) else other
        return getattr(self.dimension_as_value(), name)(other)

    # --- answers

    def __bool__(self) -> bool:
        return not self.sizes.answer("==", self)

    def __eq__(self, other: Any) -> bool:
        if other is self:
            return True
        if isinstance(other, float) and other.is_integer():
            other = int(other)
        if isinstance(other, jax.Array):
            return NotImplemented
        if other.__class__ is Size:
            if other.sizes is not self.sizes:
                return False
        elif not isinstance(other, _WHOLE) or not self.sizes.tracing:
            return False
        d = self - other
        return self.sizes.answer("==", d) if d.__class__ is Size else d == 0

    def __ne__(self, other: Any) -> bool:
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal

    def __lt__(self, other: Any) -> bool:
        return self._below(other, 1)

    def __gt__(self, other: Any) -> bool:
        return self._below(other, -1)

    def __le__(self, other: Any) -> bool:
        above = self._below(other, -1)
        return above if above is NotImplemented else not above

    def __ge__(self, other: Any) -> bool:
        below = self._below(other, 1)
        return below if below is NotImplemented else not below

    def _below(self, other: Any, sign: int) -> bool:
        """Whether it is less than another size or number; with `sign` -1, whether it is greater."""
        if isinstance(other, float) and other in (float("inf"), float("-inf")):
            return (other > 0) == (sign > 0)
        if self._terms(other) is None:
            return NotImplemented
        d = (self - other) * sign
        return self.sizes.answer("<", d) if d.__class__ is Size else d < 0

    # --- what JAX asks of a dimension

    def max(self, other: Any) -> Any:
        return self if self >= other else other

    def min(self, other: Any) -> Any:
        return self if self <= other else other

    rmax, rmin = max, min

    def dimension_as_value(self) -> Any:
        """The size as an array."""
        return from_sizes().bind(fn=_itself, sizes=(self,), shape=(), dtype=np.dtype(np.int64), weak=True)

    def __jax_array__(self) -> Any:
        return self.dimension_as_value()


def value_of(n: Any) -> Any:
    """A size as a number to compute with, which functions of JAX's under `jit` take."""
    return n.dimension_as_value() if n.__class__ is Size else n


def _sum(parts: list[int | None]) -> int | None:
    return None if None in parts else sum(parts)  # type: ignore[arg-type]


def _quotient(a: Any, b: Any) -> Any:
    if not isinstance(b, Size) and b in (0, 1):
        return a if b else a // 0
    exact = _exact(a, b)
    return (a if isinstance(a, Size) else b).sizes.quotient(a, b) if exact is None else exact


def _exact(a: Any, b: Any) -> Any:
    """The quotient, where one product divides each of a sum."""
    over = b.terms if isinstance(b, Size) else (((), int(b)),)
    if not isinstance(a, Size):
        return None
    if a.terms == over:
        return 1
    if len(over) != 1:
        return None
    (factors, c), terms = over[0], {}
    for mine, k in a.terms:
        rest = [*mine]
        for f in factors:
            if f not in rest:
                return None
            rest.remove(f)
        if k % c:
            return None
        terms[tuple(rest)] = k // c
    return a.sizes.size(terms)


def pinned(n: Any) -> int:
    """The number that a size is in its trace, which from then on holds for this number alone."""
    number = hint(n)
    assert n == number  # which writes down the guard
    return number


def decided(fn: Callable[..., Any], *sizes: Any) -> Any:
    """``fn(*sizes)``, by which a kernel decides what to do: its trace holds for sizes that give an equal value."""
    value = fn(*map(hint, sizes))
    found = next((n.sizes for n in sizes if n.__class__ is Size), None)
    if found is not None:
        found.decided[fn, sizes] = value
    return value


def of_sizes(fn: Callable[..., Any], *sizes: Any, shape: Any = (), dtype: Any = None) -> Any:
    """``fn(*sizes)``, a number or an array of NumPy's; in a trace with symbols, what stands for it.

    Args:
        fn: a function that depends on nothing but these sizes.
        sizes: sizes, or numbers.
        shape: of the result, from these sizes.
        dtype: of the result; None for a number of Python's.
    """
    if not any(n.__class__ is Size for n in sizes):
        return fn(*sizes)
    weak = dtype is None
    kind = np.asarray(fn(*map(hint, sizes))).dtype if weak else np.dtype(dtype)
    return from_sizes().bind(fn=fn, sizes=sizes, shape=tuple(shape), dtype=kind, weak=weak)


def _itself(n: int) -> int:
    return n


@functools.cache
def from_sizes() -> Any:
    """What a function gives for some sizes. Steps for given sizes have the values in its place."""

    def described(fn: Any, sizes: Any, shape: Any, dtype: Any, weak: bool) -> Any:
        return jax.core.ShapedArray(shape, dtype, weak_type=weak)

    p = CORE.Primitive("from_sizes")
    p.made_by = from_sizes  # so another process makes it, which reads a trace with this step
    p.def_abstract_eval(described)
    return p


def _as_dimension(canonical: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda dim: dim if dim.__class__ is Size else canonical(dim)


def _as_padding(x: Any) -> Any:
    return x if x.__class__ is Size else operator.index(x)


def _describing(create: Callable[..., Any]) -> Any:
    def described(shape: Any, *more: Any) -> Any:
        """Return what JAX knows of an array: one object for equal ones, so that JAX compares them by identity."""
        sizes = next((n.sizes for n in shape if n.__class__ is Size), None)
        if sizes is None:
            return create(shape, *more)
        found = sizes.avals.get((shape, *more))
        if found is None:
            found = sizes.avals.setdefault((shape, *more), _like(create((1,) * len(shape), *more), shape))
        return found

    return staticmethod(described)


def _like(aval: Any, shape: Any) -> Any:
    """A description with another shape."""
    made = object.__new__(AVAL)
    for name in AVAL.__slots__:
        if name != "__weakref__":  # a name with an underscore holds what was derived from the shape
            object.__setattr__(made, name, None if name.startswith("_") else getattr(aval, name))
    object.__setattr__(made, "shape", shape)
    return made


_KNOWN_TO_JAX = Patches(
    (AVAL, "_create", _describing),
    (CORE, "_canonicalize_dimension", _as_dimension),
    (CONVOLUTION, "operator", lambda module: SimpleNamespace(**{**vars(module), "index": _as_padding})),
)
"""Inside, JAX takes sizes for dimensions. For other code nothing changes meanwhile."""
