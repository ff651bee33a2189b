"""Random numbers: torch's CPU generator and its draws, reproduced number for number in numpy.

torch's CPU generator is MT19937, whose words numpy produces at full speed. What the functions here
add is how each torch draw turns words into numbers, and how many words it takes: a script seeded
alike draws alike, whatever mix of draws it makes. Every function returns a numpy array and takes
`generator=`, by default `default_generator`. dtypes are numpy's; bfloat16 is that of ml_dtypes.

How close the numbers are to those of torch 2.13 on an x86-64 machine with AVX2: "exact" means every
bit, in every dtype. "f64 n ulps" means that float64 results may differ by so many units in the last
place (before a mean or median is added), since numpy and the C library round log, log1p, exp, sin,
cos and tan differently in a few percent of cases; the other dtypes are then exact but for about one
number in 2**28 that lies that close to the border between two. The number of words taken, and so
everything drawn later, is always torch's.

    draw                              one element takes                numbers
    uniform                           1 word (f64: 2)                  exact
    normal, 16 elements and more      1 word (f64: 2), and 16 of them  exact; f64 2 ulps
                                      more if not a multiple of 16
    normal, fewer than 16             4 words a pair, whose second     exact
                                      the generator may keep
    normal_around                     as normal with mean 0, std 1     as normal
    log_normal                        as normal, fewer than 16         exact; f64 4 ulps from 16 on
    random, randint, randperm         1 word; 2 for ranges from 2**28  exact
    bernoulli, p a number             2 words                          exact (1)
    bernoulli, p an array             1 word (p in f64: 2)             exact
    dropout_mask                      as bernoulli, p a number         exact (1)
    exponential                       2 words                          exact; f64 2 ulps (1)
    cauchy                            2 words                          exact; f64 2 ulps
    geometric                         2 words                          exact
    multinomial, with replacement     2 words a sample                 exact
    multinomial, one or without       2 words a category               exact but for ties (1) (2)
    poisson, binomial                 until a trial is accepted        exact
    standard_gamma                    until a trial is accepted        exact
    dirichlet                         as standard_gamma                exact; f64 2 ulps

(1) Tried on AMD only. On Intel's own processors torch's MKL builds are known to draw these from a
    stream of MKL, which one word of the generator seeds; here every machine draws as torch on AMD.
(2) Categories whose weight / waiting time agree to the last bit come in order of their number,
    which torch leaves to its sort: common in the half types, rare from float32 on.

poisson, binomial, standard_gamma and dirichlet take words that depend on the words before, so they
run number by number, at about half a microsecond each; all other draws are vectorised.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..arrays import kernels
from ..errors import warn
from ..errors.checks import fail_if, is_traced, numpy_of
from ..jax.x64 import all_with_x64
from ..state import MODES
from . import rejection
from .exchanges import exchanged
from .generator import (
    Generator as Generator,
    among_draws as among_draws,
    current as current,
    default_generator as default_generator,
)
from .keys import KeyStream
from .normals import normals_of_words
from .rounding import Array, block64, cast, exactly, fma32, fma64, is_half, rounded

Shape: TypeAlias = Sequence[int]


@functools.cache
def _floating(dtype: Any, what: str) -> np.dtype:
    dtype = np.dtype(dtype)
    if dtype.name not in ("float16", "bfloat16", "float32", "float64"):
        raise NotImplementedError(f"{what} is not implemented for {dtype.name}")
    return dtype


def cpp_name(dtype: np.dtype) -> str:
    """The dtype as torch's messages about bounds print it."""
    return kernels.cpp_name(np.empty(0, dtype))


def _chosen(generator: Generator | None) -> Generator:
    if generator is None:
        return current() if MODES.keys is None else MODES.keys
    return generator


def _check(holds: Any, message: str) -> None:
    """Raise where a condition, or one of an array of them, does not hold; a program that is traced says so later."""
    if is_traced(holds):
        fail_if(~holds.all(), lambda: RuntimeError(message))
    elif np.count_nonzero(holds) < np.size(holds):
        raise RuntimeError(message)


def check_deviations(std: Any) -> None:
    """Standard deviations of normal numbers, which may be traced."""
    _check(std >= 0, "normal expects all elements of std >= 0.0")


def check_chances(p: Any) -> None:
    """Probabilities of a one, which may be traced."""
    _check(
        (p >= 0) & (p <= 1),
        "Expected p_in >= 0 && p_in <= 1 to be true, but got false.  (Could this error message be improved?  If "
        "so, please report an enhancement request to PyTorch.)",
    )


def check_rates(rates: Any) -> None:
    """Rates of Poisson counts, which may be traced."""
    _check(rates >= 0, "invalid Poisson rate, expected rate to be non-negative")
    _check(numpy_of(rates).isfinite(rates), "invalid Poisson rate, expected rate to be finite")


def check_weights(weights: Any, num_samples: int, replacement: bool) -> None:
    """Weights of categories in the last dimension, which may be traced."""
    rows = weights.astype(np.float64)
    finite = numpy_of(rows).isfinite(rows)
    if replacement and num_samples > 1:
        _check(rows >= 0, "invalid multinomial distribution (encountering probability entry < 0)")
    else:  # torch has another algorithm for these, which takes other words
        _check((rows >= 0) & finite, "probability tensor contains either `inf`, `nan` or element < 0")
    _check(finite, "invalid multinomial distribution (encountering probability entry = infinity or NaN)")
    _check(rows.sum(-1) > 0, "invalid multinomial distribution (sum of probabilities <= 0)")


# ---------------------------------------------------------------------------------------------
# Uniform and normal


def uniform(
    shape: Shape, dtype: Any = np.float32, low: float = 0.0, high: float = 1.0, *, generator: Generator | None = None
) -> Array:
    """Uniform numbers in [low, high): `torch.rand`, `Tensor.uniform_`.

    A complex dtype draws real and imaginary parts in turn.
    """
    dtype = np.dtype(dtype)
    if dtype.kind == "c":
        parts = uniform((*shape, 2), _part(dtype), low, high, generator=generator)
        return parts.view(dtype).reshape(shape)
    dtype = _floating(dtype, "uniform")
    plain = low == 0.0 and high == 1.0
    if not plain:
        _check_range(low, high, dtype)
    generator = _chosen(generator)
    if generator.__class__ is KeyStream:
        return generator.uniform(shape, dtype, low, high)
    count = math.prod(shape)
    if plain and dtype.itemsize >= 4:
        return (generator.floats(count) if dtype.itemsize == 4 else generator.doubles(count)).reshape(shape)
    if dtype.itemsize == 8:
        out = fma64(generator.doubles(count), high - low, low)
    else:
        low, high = float(np.float32(low)), float(np.float32(high))
        out = fma32(generator.floats(count), np.float32(high) - np.float32(low), np.float32(low))
    out = cast(out, dtype)
    # Rounding may reach the excluded end; torch starts over at the other one.
    first, last = np.array([low, high]).astype(dtype)
    out[out == last] = first
    return out.reshape(shape)


_MAX = {"float16": 65504.0, "bfloat16": 3.3895e38, "float32": 3.4029e38, "float64": 1.7977e308}


def _check_range(low: float, high: float, dtype: np.dtype) -> None:
    largest = _MAX[dtype.name]
    for name, value in (("from", low), ("to", high)):
        if not abs(value) <= largest:
            raise RuntimeError(f"{name} is out of bounds for {cpp_name(dtype)}")
    if low > high:
        raise RuntimeError(f"uniform_ expects to return a [from, to) range, but found from={low:g} > to={high:g}")
    if high - low > largest:
        raise RuntimeError(f"uniform_ expects to-from <= {largest:g}, but found to={high:g} and from={low:g}")


def _part(dtype: np.dtype) -> np.dtype:
    return np.dtype(f"f{dtype.itemsize // 2}")


def normal(
    shape: Shape, dtype: Any = np.float32, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None
) -> Array:
    """Normal numbers: `torch.randn`, `Tensor.normal_`, `torch.normal` with numbers.

    A complex dtype draws real and imaginary parts in turn, each with variance std**2 / 2.
    """
    dtype = np.dtype(dtype)
    if not std >= 0.0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")
    if dtype.kind == "c":
        std /= math.sqrt(2.0)
        parts = normal((*shape, 2), _part(dtype), mean, std, generator=generator)
        return parts.view(dtype).reshape(shape)
    dtype = _floating(dtype, "normal")
    generator = _chosen(generator)
    if generator.__class__ is KeyStream:
        return generator.normal(shape, dtype, mean, std)
    count = math.prod(shape)
    plain = mean == 0.0 and std == 1.0
    if count < 16:
        out = generator.serial_normals(count)
    else:
        out = _blocks_of_normals(generator, count, dtype)
    if plain:  # too small to overflow in any dtype
        return rounded(out, dtype).reshape(shape)
    if out.dtype == np.float64:
        out = fma64(out, std, mean)
    else:
        out = fma32(out, np.float32(std), np.float32(mean))
    return cast(out, dtype).reshape(shape)


def normal_around(mean: Any, std: Any, dtype: Any, *, generator: Generator | None = None) -> Array:
    """`torch.normal` with a tensor among its arguments: they broadcast, in the given dtype."""
    dtype = np.dtype(dtype)
    mean, std = np.asarray(mean).astype(dtype), np.asarray(std).astype(dtype)
    check_deviations(std)
    shape = np.broadcast_shapes(mean.shape, std.shape)
    return normal(shape, dtype, generator=generator) * std + mean


def log_normal(
    shape: Shape, dtype: Any = np.float32, mean: float = 1.0, std: float = 2.0, *, generator: Generator | None = None
) -> Array:
    """exp of normal numbers with that mean and std: `Tensor.log_normal_`."""
    dtype = _floating(dtype, "log_normal")
    if not std > 0.0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std:g}")
    generator = _chosen(generator)
    if generator.__class__ is KeyStream:
        return generator.log_normal(shape, dtype, mean, std)
    normals = fma64(generator.serial_normals(math.prod(shape)), std, mean)
    if len(normals) < 16:
        return cast(exactly(math.exp, normals), dtype).reshape(shape)
    with np.errstate(over="ignore"):
        return cast(np.exp(normals), dtype).reshape(shape)


def _blocks_of_normals(generator: Generator, count: int, dtype: np.dtype) -> Array:
    """At least 16 normals. Each 16 uniforms make 16 normals; the last block overlaps the one before if it has to."""
    whole = count - count % 16
    tail = 16 if count % 16 else 0
    # The half types stop after the whole blocks; the others draw `count` uniforms first and then
    # replace the last 16.
    skipped = 0 if is_half(dtype) else count % 16
    draw: Any = generator.doubles if dtype == np.float64 else generator.random32
    drawn: Any = draw(whole + skipped + tail)
    if skipped:
        drawn = np.concatenate([drawn[:whole], drawn[whole + skipped :]])
    normals = block64(drawn) if dtype == np.float64 else normals_of_words(drawn)
    if not tail:
        return normals
    return np.concatenate([normals[: count - 16], normals[whole:]])


# ---------------------------------------------------------------------------------------------
# Integers and permutations

_DIGITS = {"bfloat16": 8, "float16": 11, "float32": 24, "float64": 53}
"""Bits of the mantissa: a floating dtype holds every integer up to 2 to that power."""


def random(shape: Shape, dtype: Any = np.float32, *, generator: Generator | None = None) -> Array:
    """Integers over all that the dtype has from 0 up: `Tensor.random_` without arguments."""
    dtype = np.dtype(dtype)
    generator = _chosen(generator)
    count = math.prod(shape)
    if dtype.name in ("float64", "int64"):
        out: Array = generator.random64(count) % np.uint64(_largest(dtype) + 1)
    elif dtype.name in ("uint16", "uint32", "uint64"):
        raise NotImplementedError(f"random_ is not implemented for {dtype.name}")
    else:
        out = generator.random32(count) % np.uint32(_largest(dtype) + 1)
    return cast(out, dtype).reshape(shape)


def _largest(dtype: np.dtype) -> int:
    """The largest integer drawn of a dtype."""
    return _ends(dtype)[1] if dtype.kind in "biu" else 2 ** _DIGITS[_floating(dtype, "random_").name]


@functools.cache
def _ends(dtype: np.dtype) -> tuple[int, int]:
    """The smallest and the largest number of bool or of an integer dtype."""
    if dtype.kind == "b":
        return 0, 1
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def randint(
    low: int, high: int | None, shape: Shape, dtype: Any = np.int64, *, generator: Generator | None = None
) -> Array:
    """Integers in [low, high): `torch.randint`, `Tensor.random_(low, high)`.

    `high=None` goes up to the largest value of the dtype, as `Tensor.random_(low, None)` does.
    """
    dtype = np.dtype(dtype)
    low, high = operator.index(low), None if high is None else operator.index(high)
    if high is None and low == -(2**63):
        return _all_of_int64(shape, dtype, generator)
    low, high = _bounds(low, high, dtype)
    span = high - low
    generator = _chosen(generator)
    count = math.prod(shape)
    if span < 2**28:
        out = (generator.random32(count) % np.uint32(span)).astype(np.int64)
    else:
        out = (generator.random64(count) % np.uint64(span)).view(np.int64)
    if low:
        out += low if low < 2**63 else low - 2**64
    return cast(out.view(np.uint64) if dtype == np.uint64 else out, dtype).reshape(shape)


def _all_of_int64(shape: Shape, dtype: np.dtype, generator: Generator | None) -> Array:
    if dtype.name not in ("int64", "float64", "float32", "bfloat16"):
        raise RuntimeError(f"random_ over the full 64 bits does not handle {dtype.name}")
    words = _chosen(generator).random64(math.prod(shape))
    return cast(words.view(np.int64), dtype).reshape(shape)


def _bounds(low: int, high: int | None, dtype: np.dtype) -> tuple[int, int]:
    last = _largest(dtype) if high is None else high - 1
    if low > last:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={last + 1}")
    if dtype.kind in "biu":
        least, largest = _ends(dtype)
        if not least <= low <= largest:
            raise RuntimeError(f"from is out of bounds for {cpp_name(dtype)}")
        if last > largest:
            raise RuntimeError(f"to - 1 is out of bounds for {cpp_name(dtype)}")
        return low, last + 1
    digits = _DIGITS[_floating(dtype, "random_").name]
    for name, value in (("from", low), ("to - 1", last)):
        if abs(value) > _MAX[dtype.name]:
            raise RuntimeError(f"{name} is out of bounds for {cpp_name(dtype)}")
        if abs(value) > 2**digits:
            warn.to_user(
                f"{name} is out of bounds [-(2^{digits}), 2^{digits}]. Due to precision limitations "
                f"{cpp_name(dtype)} can support discrete uniform distribution only within this range. "
                "This warning will become an error in version 1.7 release, please fix the code in advance"
            )
    # Leave out integers that the dtype would round to one outside of the range.
    stored_low, stored_last = (int(cast(np.array(float(v)), dtype)) for v in (low + 1, last))
    if stored_low < low:
        low = stored_low + (1 << abs(low + 1).bit_length() - digits)
    if last < stored_last < 2**63:
        last = stored_last - (1 << abs(last).bit_length() - digits) - 1
    return low, last + 1


def randperm(n: int, dtype: Any = np.int64, *, generator: Generator | None = None) -> Array:
    """A random order of 0 to n - 1: `torch.randperm`."""
    dtype = np.dtype(dtype)
    if n < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}]")
    generator = _chosen(generator)
    if n < 2:
        return np.arange(n).astype(dtype)
    if generator.__class__ is KeyStream:
        return generator.permutation(n, dtype)
    if n < 0xFFFFFFFF // 20:
        steps = generator.random32(n - 1) % np.arange(n, 1, -1, dtype=np.uint32)
    else:
        steps = (generator.random64(n - 1) % np.arange(n, 1, -1, dtype=np.uint64)).astype(np.int64)
    return cast(exchanged(np.arange(n - 1) + steps), dtype)


def joined(rows: Sequence[Array]) -> Array:
    """Draws one after the other, of a generator or of a key."""
    return rows[0] if len(rows) == 1 else numpy_of(rows[0]).concatenate(rows)


# ---------------------------------------------------------------------------------------------
# Other distributions of which each element takes a fixed number of words


def bernoulli(
    p: float | Array, shape: Shape | None = None, dtype: Any = np.float32, *, generator: Generator | None = None
) -> Array:
    """Ones with probability p, else zeros: `torch.bernoulli`, `Tensor.bernoulli_`.

    Args:
        p: a Python number, or an array, which torch draws from differently; a 0-d array counts
            as an array.
        shape: the shape drawn; that of the array where there is one and no shape is given.
        dtype: the dtype of the zeros and ones.
        generator: where the words come from.
    """
    generator = _chosen(generator)
    if isinstance(p, (np.ndarray, np.generic)):
        check_chances(p)
        shape = p.shape if shape is None else shape
        count = math.prod(shape)
        draws = generator.doubles(count) if p.dtype == np.float64 else generator.floats(count)
        return (draws.reshape(shape) < p.astype(draws.dtype)).astype(dtype)
    if not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p:g}")
    shape = () if shape is None else shape
    if generator.__class__ is KeyStream:
        return generator.bernoulli(p, shape, dtype)
    return (generator.doubles(math.prod(shape)) < p).reshape(shape).astype(dtype)


def dropout_mask(shape: Shape, p: float, *, generator: Generator | None = None) -> NDArray[np.bool]:
    """Return which elements `F.dropout` keeps when it drops with probability p.

    At p = 0 and p = 1 the answer is known and, as in torch, no word is taken.
    """
    if p in (0.0, 1.0):
        return np.full(shape, p == 0.0)
    return bernoulli(1.0 - p, shape, np.bool, generator=generator)


def exponential(
    shape: Shape, dtype: Any = np.float32, lambd: float = 1.0, *, generator: Generator | None = None
) -> Array:
    """Exponential numbers of rate lambd: `Tensor.exponential_`."""
    dtype = _floating(dtype, "exponential")
    if not lambd > 0.0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={lambd:g}")
    generator = _chosen(generator)
    if generator.__class__ is KeyStream:
        return generator.exponential(shape, dtype, lambd)
    draws = generator.doubles(math.prod(shape))
    return cast(-1.0 / lambd * np.log1p(-draws), dtype).reshape(shape)


def cauchy(
    shape: Shape,
    dtype: Any = np.float32,
    median: float = 0.0,
    sigma: float = 1.0,
    *,
    generator: Generator | None = None,
) -> Array:
    """Cauchy numbers: `Tensor.cauchy_`."""
    dtype = _floating(dtype, "cauchy")
    if not sigma > 0.0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma:g}")
    generator = _chosen(generator)
    if generator.__class__ is KeyStream:
        return generator.cauchy(shape, dtype, median, sigma)
    draws = generator.doubles(math.prod(shape))
    return cast(fma64(np.tan(math.pi * (draws - 0.5)), sigma, median), dtype).reshape(shape)


def geometric(shape: Shape, p: float, dtype: Any = np.float32, *, generator: Generator | None = None) -> Array:
    """Return how many trials of probability p until the first success: `Tensor.geometric_`."""
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p:g}")
    generator = _chosen(generator)
    if generator.__class__ is KeyStream:
        return generator.geometric(shape, p, dtype)
    draws = generator.doubles(math.prod(shape))
    with np.errstate(divide="ignore"):
        trials = np.ceil(np.log(draws) / math.log(1.0 - p))
    return cast(trials, np.dtype(dtype)).reshape(shape)


def multinomial(
    weights: Array,
    num_samples: int,
    replacement: bool = False,
    *,
    column_major: bool = False,
    generator: Generator | None = None,
) -> NDArray[np.int64]:
    """Category numbers with probability proportional to weights: `torch.multinomial`.

    Args:
        weights: one row, or a matrix of rows drawn from one after the other.
        num_samples: how many numbers to draw from each row.
        replacement: whether a category may come up again.
        column_major: whether torch holds the matrix column by column, and so draws in that order.
        generator: where the words come from.
    """
    generator = _chosen(generator)
    dtype = _floating(weights.dtype, "multinomial")
    _check(weights.ndim in (1, 2), "prob_dist must be 1 or 2 dim")
    _check(num_samples > 0, "cannot sample n_sample <= 0 samples")
    rows = np.atleast_2d(weights)
    _check(
        replacement or num_samples <= rows.shape[1],
        "cannot sample n_sample > prob_dist.size(-1) samples without replacement",
    )
    check_weights(rows, num_samples, replacement)
    if replacement and num_samples > 1:
        out = _with_replacement(rows, num_samples, generator)
    else:
        # The first events of processes that run at the rates `weights`.
        with np.errstate(divide="ignore", over="ignore"):
            if column_major:
                waits = exponential(rows.shape[::-1], dtype, generator=generator).T
            else:
                waits = exponential(rows.shape, dtype, generator=generator)
            ratios = (rows / waits).astype(np.float64)
        out = _largest_first(ratios, num_samples)
    return out.reshape(*weights.shape[:-1], num_samples)


def _largest_first(ratios: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """Where the largest numbers of each row are, of equal ones the first; `ratios` may be changed."""
    if count > _FEW_SAMPLES:
        return np.argsort(-ratios, axis=-1, kind="stable")[:, :count]
    out = np.empty((len(ratios), count), np.int64)
    lines = np.arange(len(ratios))
    for k in range(count):
        out[:, k] = ratios.argmax(-1)
        ratios[lines, out[:, k]] = -np.inf
    return out


_FEW_SAMPLES = 8
"""So many searches for the largest number take less time than to sort a row."""


def _with_replacement(rows: Array, count: int, generator: Any) -> NDArray[np.int64]:
    dtype = rows.dtype if rows.dtype == np.float64 else np.dtype(np.float32)
    totals = np.cumsum(rows.astype(dtype), axis=-1, dtype=dtype)
    totals /= totals[:, -1:].copy()
    totals[:, -1] = 1.0
    draws = generator.doubles(len(rows) * count).reshape(len(rows), count)
    low = np.zeros(draws.shape, np.int64)
    high = np.full(draws.shape, rows.shape[1])
    while (low < high).any():  # a binary search in every row at once
        middle = (low + high) // 2
        value = np.take_along_axis(totals, np.minimum(middle, rows.shape[1] - 1), axis=-1)
        below = (low < high) & (value < draws)
        low, high = (np.where(below, middle + 1, low), np.where(below, high, np.minimum(middle, high)))
    return low


# ---------------------------------------------------------------------------------------------
# Distributions whose elements take words until a trial is accepted


def poisson(rates: Array, *, generator: Generator | None = None) -> Array:
    """Poisson counts of the given rates, in their dtype: `torch.poisson`."""
    dtype = _floating(rates.dtype, "poisson")
    check_rates(rates)
    values = rates.astype(np.float64).reshape(-1).tolist()
    with _chosen(generator).one_by_one(2 * len(values)) as draw:
        counts = [rejection.poisson(rate, draw) for rate in values]
    return cast(np.array(counts, np.float64), dtype).reshape(rates.shape)


def binomial(count: Array, prob: Array, *, generator: Generator | None = None) -> Array:
    """Return how many of `count` trials of probability `prob` succeed: `torch.binomial`."""
    dtype = _floating(count.dtype, "binomial")
    if prob.dtype != dtype:
        raise RuntimeError(f"Found dtype {prob.dtype} but expected {dtype}")
    shape = np.broadcast_shapes(count.shape, prob.shape)
    counts, probs = (np.broadcast_to(x, shape).astype(np.float64).reshape(-1).tolist() for x in (count, prob))
    with _chosen(generator).one_by_one(2 * len(counts)) as draw:
        successes = [rejection.binomial(n, p, draw) for n, p in zip(counts, probs)]
    return cast(np.array(successes, np.float64), dtype).reshape(shape)


def standard_gamma(alpha: Array, *, generator: Generator | None = None) -> Array:
    """Gamma numbers of the given shapes and scale 1: `torch._standard_gamma`."""
    dtype = _floating(alpha.dtype, "standard_gamma")
    return np.fmax(cast(_gammas(alpha, _chosen(generator)), dtype), np.finfo(dtype).tiny)


def dirichlet(alpha: Array, *, generator: Generator | None = None) -> Array:
    """Dirichlet numbers, the last axis summing to 1: `torch._sample_dirichlet`."""
    dtype = _floating(alpha.dtype, "dirichlet")
    gammas = _gammas(alpha.astype(np.float64), _chosen(generator))
    gammas = np.fmax(gammas, np.finfo(np.float64).tiny)
    shares = cast(gammas / gammas.sum(-1, keepdims=True), dtype)
    return np.clip(shares, np.finfo(dtype).tiny, np.nextafter(dtype.type(1), dtype.type(0)))


# torch computes in doubles, but takes the shape and what it adds to it in the dtype of the shape,
# and always this 1/3.
_THIRD = np.float32(1.0 / 3.0)


def _gammas(alpha: Array, generator: Any) -> NDArray[np.float64]:
    below_one = alpha < 1
    with np.errstate(divide="ignore"):
        powers = np.where(below_one, 1 / alpha, alpha.dtype.type(0))
    d = np.where(below_one, alpha + 1, alpha) - _THIRD.astype(alpha.dtype)
    parameters = zip(d.astype(np.float64).flat, powers.astype(np.float64).flat)
    with generator.one_by_one(3 * alpha.size) as draw:
        normal = functools.partial(generator.next_normal, draw)
        out = [rejection.gamma(float(d), float(p), draw, normal) for d, p in parameters]
    return np.array(out, np.float64).reshape(alpha.shape)


all_with_x64(globals())
