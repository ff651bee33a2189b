"""What the operators are given: three sizes, and functions that draw an array of one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Random = np.random.RandomState


@dataclass(frozen=True)
class Size:
    """The extents that the inputs of one size have."""

    name: str
    rows: int
    columns: int
    """A matrix of `rows` times `columns` is what most operators are given."""
    side: int
    """Matrices that are multiplied."""
    order: int
    """Matrices that are decomposed, which takes much longer."""
    batch: int
    channels: int
    image: int

    @property
    def depth(self) -> int:
        """Each side of a volume, which has three."""
        return max(4, self.image // 4)


SIZES = {
    "tiny": Size("tiny", rows=3, columns=4, side=4, order=3, batch=1, channels=2, image=6),
    "mid": Size("mid", rows=64, columns=128, side=64, order=16, batch=4, channels=8, image=16),
    "large": Size("large", rows=1024, columns=1024, side=512, order=128, batch=8, channels=16, image=64),
}

Input = Callable[[Random, Size], np.ndarray]


def _normal(rs: Random, *shape: int) -> np.ndarray:
    return rs.randn(*shape).astype(np.float32)


def matrix(rs: Random, s: Size) -> np.ndarray:
    """Numbers around 0."""
    return _normal(rs, s.rows, s.columns)


def distinct(rs: Random, s: Size) -> np.ndarray:
    """Numbers of which no two in one row are equal, so that there is one way to sort them."""
    return (orders(rs, s) / s.columns).astype(np.float32)


def vector(rs: Random, s: Size) -> np.ndarray:
    """One number for each column."""
    return _normal(rs, s.columns)


def scalar(rs: Random, s: Size) -> np.ndarray:
    """A tensor without dimensions."""
    return np.float32(rs.uniform(0.5, 1.5)).reshape(())


def many(rs: Random, s: Size) -> np.ndarray:
    """As many numbers as a matrix has, in one dimension."""
    return _normal(rs, s.rows * s.columns)


def points(rs: Random, s: Size) -> np.ndarray:
    """A point in three dimensions for each row."""
    return _normal(rs, s.rows, 3)


def positive(rs: Random, s: Size) -> np.ndarray:
    """Numbers from 1/2 to 3/2."""
    return rs.uniform(0.5, 1.5, (s.rows, s.columns)).astype(np.float32)


def near_one(rs: Random, s: Size) -> np.ndarray:
    """Numbers so near to 1 that products of many are neither 0 nor infinite."""
    return rs.uniform(0.99, 1.01, (s.rows, s.columns)).astype(np.float32)


def share(rs: Random, s: Size) -> np.ndarray:
    """Numbers between 0 and 1."""
    return rs.uniform(0.05, 0.95, (s.rows, s.columns)).astype(np.float32)


def complex_matrix(rs: Random, s: Size) -> np.ndarray:
    """Complex numbers."""
    return (matrix(rs, s) + 1j * matrix(rs, s)).astype(np.complex64)


def mask(rs: Random, s: Size) -> np.ndarray:
    """True or false."""
    return rs.rand(s.rows, s.columns) < 0.5


def places(rs: Random, s: Size) -> np.ndarray:
    """A column for each element of a matrix."""
    return rs.randint(0, s.columns, (s.rows, s.columns))


def orders(rs: Random, s: Size) -> np.ndarray:
    """The columns of each row in an order of its own: no column twice."""
    return np.argsort(rs.rand(s.rows, s.columns), 1)


def labels(rs: Random, s: Size) -> np.ndarray:
    """A column for each row."""
    return rs.randint(0, s.columns, s.rows)


def few(rs: Random, s: Size) -> np.ndarray:
    """Three columns."""
    return rs.randint(0, s.columns, 3)


def lines(rs: Random, s: Size) -> np.ndarray:
    """The rows, in another order."""
    return rs.permutation(s.rows)


def scattered(rs: Random, s: Size) -> np.ndarray:
    """A column for as many elements as a matrix has, in one dimension."""
    return rs.randint(0, s.columns, s.rows * s.columns)


def square(rs: Random, s: Size) -> np.ndarray:
    """A matrix that is multiplied."""
    return _normal(rs, s.side, s.side)


def row_of_square(rs: Random, s: Size) -> np.ndarray:
    """A vector that goes with such a matrix."""
    return _normal(rs, s.side)


def squares(rs: Random, s: Size) -> np.ndarray:
    """A batch of matrices, each a quarter as wide; 4 at least."""
    side = max(4, s.side // 4)
    return _normal(rs, 2 * s.batch, side, side)


def solid(rs: Random, s: Size) -> np.ndarray:
    """A symmetric matrix with eigenvalues from 1 on, well apart."""
    basis = np.linalg.qr(rs.randn(s.order, s.order))[0]
    return ((basis * np.arange(1, s.order + 1)) @ basis.T / np.sqrt(s.order)).astype(np.float32)


def oblong(rs: Random, s: Size) -> np.ndarray:
    """A matrix to decompose that has twice as many rows as columns."""
    basis = np.linalg.qr(rs.randn(2 * s.order, s.order))[0]
    return (basis * np.arange(1, s.order + 1)).astype(np.float32)


def image(rs: Random, s: Size) -> np.ndarray:
    """Images of several channels."""
    return _normal(rs, s.batch, s.channels, s.image, s.image)


def sequence(rs: Random, s: Size) -> np.ndarray:
    """Sequences of several channels, as long as an image has pixels in four lines."""
    return _normal(rs, s.batch, s.channels, 4 * s.image)


def volume(rs: Random, s: Size) -> np.ndarray:
    """Volumes of several channels."""
    return _normal(rs, s.batch, s.channels, s.depth, s.depth, s.depth)


def channel(rs: Random, s: Size) -> np.ndarray:
    """A positive number for each channel."""
    return rs.uniform(0.5, 1.5, s.channels).astype(np.float32)


def grid(rs: Random, s: Size) -> np.ndarray:
    """Where in an image each pixel comes from."""
    return rs.uniform(-0.95, 0.95, (s.batch, s.image, s.image, 2)).astype(np.float32)


def thetas(rs: Random, s: Size) -> np.ndarray:
    """An affine map for each image."""
    return _normal(rs, s.batch, 2, 3)


def kernel(*window: int) -> Input:
    """The weights of a convolution with as many channels out as in."""
    return lambda rs, s: _normal(rs, s.channels, s.channels, *window) / 4
