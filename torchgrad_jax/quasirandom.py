"""torch.quasirandom: Sobol' points, which fill a cube more evenly than random ones."""

from __future__ import annotations

import functools

import numpy as np

from ._core.arrays.dtypes import get_default_dtype as _default_dtype
from ._engine.memory.tensor import Tensor
from ._functions.create import empty as _empty, tensor as _tensor
from ._functions.random import Generator as _Generator, randint as _randint

_BITS = 30


@functools.lru_cache(maxsize=16)
def _directions(dimension: int) -> np.ndarray:
    """The direction numbers of Joe and Kuo, a row per dimension: SciPy's table, which has no public name."""
    try:
        from scipy.stats import qmc
    except ImportError as e:
        raise ImportError("SobolEngine reads its direction numbers from scipy") from e
    return np.asarray(qmc.Sobol(dimension, scramble=False, bits=_BITS)._sv).astype(np.int64)


def _scrambled(numbers: np.ndarray, triangles: np.ndarray) -> np.ndarray:
    """Every direction number, as a vector of bits, times its dimension's triangular matrix modulo 2."""
    places = np.arange(_BITS)
    rows = np.where(places[:, None] == places[None, :], 1, np.tril(triangles))
    bits = (numbers[..., None] >> (_BITS - 1 - places)) & 1  # the highest first
    mixed = np.einsum("dpk,djk->djp", rows, bits) % 2
    return (mixed << (_BITS - 1 - places)).sum(-1)


class SobolEngine:
    """Draws the points of a Sobol' sequence, scrambled at random if wanted.

    Args:
        dimension: of the cube, from 1 to 21201.
        scramble: whether to scramble, which keeps the evenness (Owen).
        seed: of the scrambling; without it the default generator decides.

    Example:
        >>> import torchgrad_jax as torch
        >>> torch.quasirandom.SobolEngine(2).draw(3)
        tensor([[0.0000, 0.0000],
                [0.5000, 0.5000],
                [0.7500, 0.2500]])
    """

    MAXBIT = _BITS
    MAXDIM = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if dimension > self.MAXDIM or dimension < 1:
            raise ValueError(f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}]")
        self.dimension, self.scramble, self.seed = dimension, scramble, seed
        numbers = _directions(dimension)
        shift = np.zeros(dimension, np.int64)
        if scramble:
            generator = None if seed is None else _Generator().manual_seed(seed)
            low = _randint(2, (dimension, _BITS), generator=generator).numpy()
            shift = (low.astype(np.int64) << np.arange(_BITS)).sum(1)
            triangles = _randint(2, (dimension, _BITS, _BITS), generator=generator).numpy()
            numbers = _scrambled(numbers, triangles)
        self.sobolstate, self.shift = _tensor(numbers), _tensor(shift)
        self.quasi = self.shift.clone()
        self.num_generated = 0

    def _from(self, first: int, n: int) -> np.ndarray:
        """Points as whole numbers: number i is the shift and the directions of i's Gray code, in exclusive or."""
        index = np.arange(first, first + n, dtype=np.int64)
        gray = index ^ (index >> 1)
        out = np.repeat(self.shift.numpy()[None], n, 0)
        for j, numbers in enumerate(self.sobolstate.numpy().T):
            out ^= ((gray >> j) & 1)[:, None] * numbers
        return out

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: object | None = None) -> Tensor:
        """The next `n` points, of shape `(n, dimension)`, in the default dtype unless another is given."""
        dtype = _default_dtype() if dtype is None else dtype
        if n < 0:
            _empty(n, self.dimension)  # torch's complaint
        points = self._from(self.num_generated, n)
        if n:
            # The point before the next one: what torch keeps, and starts from.
            self.quasi = _tensor(self._from(self.num_generated + n - 1, 1)[0])
        self.num_generated += n
        drawn = (_tensor(points) / 2.0**_BITS if n else _empty(0, self.dimension)).to(dtype)
        return drawn if out is None else out.resize_(drawn.shape).copy_(drawn)

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: object | None = None) -> Tensor:
        """The next `2**m` points; raises where that would leave the sequence out of balance."""
        total = self.num_generated + 2**m
        if total & (total - 1):
            raise ValueError(
                "The balance properties of Sobol' points require n to be a power of 2. "
                f"{self.num_generated} points have been previously generated, then: "
                f"n={self.num_generated}+2**{m}={total}. If you still want to do this, please use "
                "'SobolEngine.draw()' instead."
            )
        return self.draw(n=2**m, out=out, dtype=dtype)

    def reset(self) -> SobolEngine:
        """Go back to the first point."""
        self.quasi = self.shift.clone()
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Leave out the next `n` points."""
        self.num_generated += n
        self.quasi = _tensor(self._from(max(self.num_generated - 1, 0), 1)[0])
        return self

    def __repr__(self) -> str:
        said = [f"dimension={self.dimension}"]
        if self.scramble:
            said.append("scramble=True")
        if self.seed is not None:
            said.append(f"seed={self.seed}")
        return f"{self.__class__.__name__}({', '.join(said)})"
