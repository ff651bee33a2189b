"""In-place random fills: `uniform_`, `normal_` and their kin.

They are writes like any other: the leaf check, the version counter and the graph see them. What was
overwritten gets a gradient of zeros.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._core.arrays import dtypes
from .._core.arrays.kernels import cpp_name
from .._core.arrays.meta import Meta, meta
from .._core.arrays.transfer import place
from .._core.errors import messages as errors
from .._core.jax.caches import CALLS
from .._core.random import rng
from .._core.state import GRAD, MODES
from .._engine.entry.arguments import as_int
from .._engine.entry.bind import composite
from .._engine.graph.history import check_captured, check_inplace, requires_grad_of
from .._engine.graph.inplace import apply_inplace
from .._engine.memory.strided import check_writable
from .._engine.memory.tensor import Tensor, make
from .._engine.run.trace import Call
from .._ops.registry import Grad
from .arguments import real, unexpected, unmatched
from .random import _FLOATS, check_integers, chosen, draw, integers, laid, normals, refuse, uniforms

_REAL = (dtypes.bool_, dtypes.uint8, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64, *_FLOATS)


@CALLS.memo()
def overwriting(name: str, node: str, edges: tuple[int, ...] = (0,), grad: Grad = Grad.YES) -> Call:
    """A call whose result is its last leaf, with gradients of zeros for the others."""
    return Call(
        name, lambda leaves: leaves[-1], node_name=node, argnames=("self",), edges=lambda keys: edges, grad=grad
    )


def fill(me: Tensor, name: str, node: str, values: Callable[[Meta], np.ndarray]) -> Tensor:
    """Overwrite a tensor with numbers drawn for its meta; nothing is drawn where that is forbidden."""
    if MODES.transforms:
        check_captured(me, name)
    if MODES.bits & GRAD:
        check_inplace(me, requires_grad_of(me))
    m = me._m
    try:
        check_writable(me)
    except RuntimeError:
        values(meta((0,), m.dtype, m.device))  # complaints about the arguments come first
        raise
    if not MODES.run.at_once:
        new = _filling(me, values)
    else:
        new = make(place(values, m), meta(m.shape, m.dtype, m.device))
    return apply_inplace(overwriting(name, node), (me, new))


def _filling(me: Tensor, values: Callable[[Meta], np.ndarray]) -> Tensor:
    """The numbers to write inside of `vmap`: the same for all examples, or a row for each example."""
    run = MODES.run
    inside, m = run.inside(me), me._m
    if run.randomness == "different" and not inside:
        raise RuntimeError(errors.BATCHED_FILL)
    if run.batch is None or not inside:
        return draw(m, values)
    if run.randomness == "same":  # torch draws into new memory and copies that
        return draw(meta(m.shape, m.dtype, m.device), values)
    return draw(m, values, batch=run.batch.memory_meta(me))


@composite(function=False)
def uniform_(self: Tensor, *args: Any, generator: Any = None, **named: Any) -> Tensor:
    """Fill with uniform numbers: ``uniform_(from=0, to=1)``."""
    if len(args) > 2:
        raise TypeError(f"uniform_() takes from 0 to 2 positional arguments but {len(args)} were given")
    given = {"from": 0.0, "to": 1.0, **dict(zip(("from", "to"), args))}
    for k in [k for k in named if k in given]:
        given[k] = named.pop(k)
    unexpected("uniform_", named)
    low, high = real("uniform_", "from", given["from"], 1), real("uniform_", "to", given["to"], 2)
    gen = chosen("uniform_", generator, self._m.device)
    return fill(self, "uniform_", "UniformBackward0", lambda m: uniforms(m, gen, low, high))


@composite(function=False)
def normal_(self: Tensor, mean: Any = 0.0, std: Any = 1.0, *, generator: Any = None) -> Tensor:
    """Fill with normal numbers."""
    mu, sigma = real("normal_", "mean", mean, 1), real("normal_", "std", std, 2)
    gen = chosen("normal_", generator, self._m.device)
    return fill(self, "normal_", "NormalBackward0", lambda m: normals(m, gen, mu, sigma))


@composite(function=False)
def log_normal_(self: Tensor, mean: Any = 1.0, std: Any = 2.0, *, generator: Any = None) -> Tensor:
    """Fill with numbers whose logarithm is normal."""
    mu, sigma = real("log_normal_", "mean", mean, 1), real("log_normal_", "std", std, 2)
    gen = chosen("log_normal_", generator, self._m.device)

    def values(m: Meta) -> np.ndarray:
        refuse("log_normal_cpu", m.dtype, _FLOATS)
        return laid(m, rng.log_normal((m.numel,), m.dtype.np, mu, sigma, generator=gen))

    return fill(self, "log_normal_", "LogNormalBackward0", values)


@composite(function=False)
def exponential_(self: Tensor, lambd: Any = 1.0, *, generator: Any = None) -> Tensor:
    """Fill with exponential numbers."""
    rate = real("exponential_", "lambd", lambd, 1)
    gen = chosen("exponential_", generator, self._m.device)

    def values(m: Meta) -> np.ndarray:
        if not m.dtype.is_floating_point:
            raise RuntimeError(
                "Exponential distribution is a continuous probability distribution. dtype must be a floating point but "
                f"you specified {dtypes.scalar_type_name(m.dtype)}"
            )
        refuse("exponential_cpu", m.dtype, _FLOATS)
        return laid(m, rng.exponential((m.numel,), m.dtype.np, rate, generator=gen))

    return fill(self, "exponential_", "ExponentialBackward0", values)


@composite(function=False)
def cauchy_(self: Tensor, median: Any = 0.0, sigma: Any = 1.0, *, generator: Any = None) -> Tensor:
    """Fill with Cauchy numbers."""
    middle, width = real("cauchy_", "median", median, 1), real("cauchy_", "sigma", sigma, 2)
    gen = chosen("cauchy_", generator, self._m.device)

    def values(m: Meta) -> np.ndarray:
        if not m.dtype.is_floating_point:
            raise RuntimeError(
                "Cauchy distribution is a continuous probability distribution. dtype must be a floating point but you "
                f"specified {cpp_name(np.zeros(0, m.dtype.np))}"
            )
        refuse("cauchy_cpu", m.dtype, _FLOATS)
        return laid(m, rng.cauchy((m.numel,), m.dtype.np, middle, width, generator=gen))

    return fill(self, "cauchy_", "CauchyBackward0", values)


@composite(function=False)
def geometric_(self: Tensor, p: Any, *, generator: Any = None) -> Tensor:
    """Fill with how many trials the first success took."""
    chance = real("geometric_", "p", p, 1)
    gen = chosen("geometric_", generator, self._m.device)

    def values(m: Meta) -> np.ndarray:
        refuse("geometric_cpu", m.dtype, _REAL[1:])
        return laid(m, rng.geometric((m.numel,), chance, m.dtype.np, generator=gen))

    return fill(self, "geometric_", "GeometricBackward0", values)


@composite(function=False)
def random_(self: Tensor, *args: Any, generator: Any = None, **named: Any) -> Tensor:
    """Fill with integers: over all that the dtype has, below ``to``, or in [``from``, ``to``)."""
    names = ("to",) if len(args) + len(named) == 1 else ("from", "to")
    given = {**dict(zip([n for n in names if n not in named], args)), **named}
    ends = {k: as_int(v) for k, v in given.items()}
    upper_open = len(args) + len(named) == 2 and given.get("to", 0) is None
    bad = any(v is None and not (k == "to" and upper_open) for k, v in ends.items())
    if bad or (given and set(given) != set(names)) or len(args) + len(named) != len(given):
        raise unmatched("random_")
    gen = chosen("random_", generator, self._m.device)
    if not given:
        return fill(self, "random_", "RandomBackward2", lambda m: _any_integers(m, gen))
    node = "RandomBackward1" if len(given) == 1 else "RandomBackward0"
    low, high = ends.get("from") or 0, ends["to"]

    def values(m: Meta) -> np.ndarray:
        check_integers(m.dtype)
        return integers(m, gen, low, high)

    return fill(self, "random_", node, values)


def _any_integers(m: Meta, gen: Any) -> np.ndarray:
    refuse("random_kernel_cpu", m.dtype, _REAL)
    return laid(m, rng.random((m.numel,), m.dtype.np, generator=gen))
