"""What a case is: frozen data that says which calls to make, on tensors made from a seed.

A row of `cases/<family>.py` reads like the calls that it stands for::

    case("torch.add", s(t(2, 3), t(3)), s(t(2, 3), 2, alpha=3), errors=(e(t(2), t(3)),))

The same numbers reach every library: they come from a hash of the sample's text, through integer
arithmetic of our own, so that no version of any package changes them.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np

BASE = "float64"
"""The dtype of tensors whose spec names none, unless a job asks for another."""
FLOATS = ("float32", "bfloat16")
HALVES = ("float16", "bfloat16")
COMPLEX = ("complex128",)
INTS = ("int64",)
BOOL = ("bool",)


@dataclass(frozen=True)
class T:
    """A tensor argument."""

    shape: tuple[int, ...]
    dtype: str | None = None
    low: float = -2.0
    high: float = 2.0
    special: tuple[Any, ...] = ()
    """Values of the first elements: kinks, ties, infinities."""
    layout: str = "contiguous"
    grad: bool = True
    """Whether it is differentiated where its dtype allows."""
    make: str = "uniform"
    """Name of an entry of `MAKERS`."""

    def __str__(self) -> str:
        marks = {"contiguous": "", "transposed": "ᵀ", "sliced": "::2", "expanded": "→", "offset": "+"}
        extra = f"={list(self.special)}" if self.special else ""
        bounds = "" if (self.low, self.high) == (-2.0, 2.0) else f"{self.low:g}..{self.high:g}"
        made = "" if self.make == "uniform" else self.make
        frozen = "" if self.grad or self.dtype else "const"
        text = ",".join(x for x in (self.dtype or "", made, bounds, frozen) if x)
        return f"{text}{list(self.shape)}{marks[self.layout]}{extra}".replace(" ", "")


@dataclass(frozen=True)
class D:
    """A dtype argument."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Attr:
    """An argument that is an attribute of the library, such as ``preserve_format``."""

    path: str

    def __str__(self) -> str:
        return self.path


@dataclass(frozen=True)
class Sample:
    """One call."""

    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...] = ()
    grads: bool = True
    """Whether derivatives are compared."""
    smooth: bool = True
    """Whether finite differences make sense here."""
    second: bool | None = None
    """Whether the second derivative is compared; None: for the first samples of a case."""
    dtypes: bool = False
    """Whether the call is repeated for all dtypes of the case; the first sample always is."""
    incoming: tuple[float, ...] = ()
    """Values of the gradient that comes in, again and again; derivatives are compared in all dtypes of the case."""

    def __str__(self) -> str:
        return ", ".join([*map(show, self.args), *(f"{k}={show(v)}" for k, v in self.kwargs)])


@dataclass(frozen=True)
class ErrorSample:
    """A call that raises; with `text`, in torch's words."""

    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...] = ()
    text: bool = False

    def __str__(self) -> str:
        return ", ".join([*map(show, self.args), *(f"{k}={show(v)}" for k, v in self.kwargs)])


@dataclass(frozen=True)
class Case:
    """An operator, by a path such as ``torch.add`` or ``Tensor.add_``, and its calls."""

    op: str
    samples: tuple[Sample, ...]
    core: str
    """Its name in the core list."""
    dtypes: tuple[str, ...] = ()
    errors: tuple[ErrorSample, ...] = ()
    derivatives: int = 2
    """The order up to which derivatives are compared."""
    jvp: bool = True
    tolerance: float = 1.0
    """A factor on the default tolerances."""
    cause: str = ""
    """Why the tolerance is wider than the default, or strides are not compared."""
    values: bool = True
    """False where values are undefined (uninitialised memory)."""
    process: Callable[[Any], Any] | None = None
    """Applied to results before values and derivatives are compared, for results that are not
    unique; takes the library's own tensors."""
    prepare: Callable[[Any], Any] | None = None
    """Applied to the first argument, inside of the graph: what makes a matrix symmetric stays so
    when its elements move."""
    jax: str | None = None
    """Path of a JAX function that computes the same."""
    strides: bool = True
    """False where torch's strides are an accident of its algorithm; `cause` says which."""
    family: str = ""
    inplace: bool = False
    """Whether ``Tensor.<name>_`` runs on the first samples as well."""


def show(value: Any) -> str:
    """A compact text of an argument."""
    if isinstance(value, list | tuple):
        inner = ", ".join(map(show, value))
        return f"[{inner}]" if isinstance(value, list) else f"({inner})"
    if isinstance(value, slice):
        return ":".join("" if v is None else str(v) for v in (value.start, value.stop, value.step))
    return str(value) if isinstance(value, T | D | Attr) else repr(value)


# --- how rows are written -------------------------------------------------------------------------


def t(*shape: int, **options: Any) -> T:
    """A tensor of this shape: uniform numbers, or whole numbers for integer dtypes."""
    return T(shape, **options)


def i(*shape: int, high: int, low: int = 0, **options: Any) -> T:
    """A tensor of indices in ``[low, high)``."""
    return T(shape, dtype="int64", low=low, high=high - 1, **options)


def b(*shape: int, **options: Any) -> T:
    """A tensor of bools."""
    return T(shape, dtype="bool", **options)


def s(
    *args: Any,
    grads: bool = True,
    smooth: bool = True,
    second: bool | None = None,
    dtypes: bool = False,
    incoming: tuple[float, ...] = (),
    **kwargs: Any,
) -> Sample:
    """A call. Calls on special values are not smooth."""
    special = incoming or any(x.special for x in tensors((args, kwargs)))
    return Sample(args, tuple(kwargs.items()), grads, smooth and not special, second, dtypes, incoming)


def e(*args: Any, text: bool = False, **kwargs: Any) -> ErrorSample:
    """A call that raises."""
    return ErrorSample(args, tuple(kwargs.items()), text)


def et(*args: Any, **kwargs: Any) -> ErrorSample:
    """A call that raises in torch's words."""
    return ErrorSample(args, tuple(kwargs.items()), True)


def case(op: str, *samples: Sample, **options: Any) -> Case:
    """A row; the name in the core list follows from the path unless it is given."""
    core = options.pop("core", op.removeprefix("torch.").removeprefix("Tensor."))
    if (options.get("tolerance", 1.0) != 1.0 or not options.get("strides", True)) and not options.get("cause"):
        raise ValueError(f"{op}: what is judged less strictly than the default states its cause")
    return Case(op, samples, core, **options)


def tensors(value: Any) -> Iterator[T]:
    """Every tensor spec inside nested containers."""
    if isinstance(value, T):
        yield value
    elif isinstance(value, list | tuple):
        for v in value:
            yield from tensors(v)
    elif isinstance(value, dict):
        yield from tensors(list(value.values()))


# --- numbers --------------------------------------------------------------------------------------


def uniform(seed: int, count: int) -> np.ndarray:
    """Numbers in [0, 1): splitmix64, written out so that they never change."""
    with np.errstate(over="ignore"):
        z = (np.arange(1, count + 1, dtype=np.uint64) + np.uint64(seed)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(11)).astype(np.float64) * 2.0**-53


def seed_of(text: str) -> int:
    """A seed for a text."""
    return zlib.crc32(text.encode()) << 20


def _numbers(spec: T, shape: tuple[int, ...], dtype: str, seed: int) -> np.ndarray:
    count = int(np.prod(shape))
    u = uniform(seed, count).reshape(shape)
    if dtype == "bool":
        return u < 0.5
    if np.dtype(dtype_of(dtype)).kind in "iu":
        low = max(spec.low, 0) if dtype == "uint8" else spec.low
        return np.floor(low + u * (spec.high - low + 1)).clip(low, spec.high)
    x = spec.low + u * (spec.high - spec.low)
    if dtype.startswith("complex"):
        x = x + 1j * (spec.low + uniform(seed + count + 7, count).reshape(shape) * (spec.high - spec.low))
    return x


def _distinct(spec: T, shape: tuple[int, ...], dtype: str, seed: int) -> np.ndarray:
    """A shuffled grid: no two values close enough to tie in any dtype."""
    count = int(np.prod(shape))
    grid = np.argsort(uniform(seed, count), kind="stable").astype(np.float64)
    if np.dtype(dtype_of(dtype)).kind not in "iu":
        grid = spec.low + (spec.high - spec.low) * (grid + 0.5) / max(count, 1)
    return grid.reshape(shape)


def _spd(spec: T, shape: tuple[int, ...], dtype: str, seed: int) -> np.ndarray:
    """Hermitian positive definite, well conditioned."""
    a = _numbers(spec, shape, dtype, seed)
    return a @ np.conj(np.swapaxes(a, -1, -2)) / shape[-1] + 1.5 * np.eye(shape[-1])


def _regular(spec: T, shape: tuple[int, ...], dtype: str, seed: int) -> np.ndarray:
    """Far from singular."""
    return _numbers(spec, shape, dtype, seed) * 0.5 + 2.0 * np.eye(*shape[-2:])


def _hermitian(spec: T, shape: tuple[int, ...], dtype: str, seed: int) -> np.ndarray:
    a = _numbers(spec, shape, dtype, seed)
    return (a + np.conj(np.swapaxes(a, -1, -2))) / 2 + np.diag(np.arange(shape[-1]) * 1.5)


def _singular(spec: T, shape: tuple[int, ...], dtype: str, seed: int) -> np.ndarray:
    a = _numbers(spec, shape, dtype, seed)
    a[..., -1, :] = 0
    return a


def _probabilities(spec: T, shape: tuple[int, ...], dtype: str, seed: int) -> np.ndarray:
    a = uniform(seed, int(np.prod(shape))).reshape(shape) + 0.2
    return a / a.sum(-1, keepdims=True)


POINTS = (0.0, 1.0, -0.5, 3.0, -2.0, -6.0, float("inf"), -float("inf"), float("nan"))
PAIRED = (0.0, 1.0, -1.0, -2.0, 0.5, float("inf"), -float("inf"), float("nan"))
TRIPLES = (0.0, 1.0, float("inf"), float("nan"))
INCOMING = (1.0, 0.0, float("inf"), -float("inf"), float("nan"))
FEWER_INCOMING = (-1.0, 0.0, float("inf"))
ROWS = ((0.0,) * 3, (float("nan"), 1.0, 2.0), (float("nan"),) * 3, (1.0, float("inf"), 2.0), (3.0, -1.0, 0.0))

# Rows of a tensor and of what is scattered into it: all pairs of them.
BASES = ((1.0, 5.0, 3.0), (0.0, 0.0, 1.0), (2.0, 2.0, float("inf")), (float("nan"), 1.0, float("nan")))
SOURCES = (
    (1.0, 2.0, 3.0, 0.0, 5.0, 5.0), (1.0,) * 6, (-1.0, float("nan"), 2.0, float("inf"), 0.0, 3.0),
    (0.0, 2.0, float("inf"), 4.0, 2.0, -float("inf")),
)  # fmt: skip
PLACES = (0, 0, 1, 1, 1, 0)
_PARTS = (0.0, -0.0, 1.0, -2.0, float("inf"), -float("inf"), float("nan"))
CUTS = [complex(a, b) for a in _PARTS for b in _PARTS if a == a or b == b]
"""The sign of a zero says on which side of a branch cut a number is."""


def _column(k: int, points: tuple[float, ...], incoming: tuple[float, ...], count: int) -> Callable[..., np.ndarray]:
    """The `k`-th numbers of all groups of so many points, each group once for each gradient that comes in.

    A shorter tensor has the first groups alone.
    """
    groups = list(itertools.product(*[points] * count))
    column = np.repeat([group[k] for group in groups], len(incoming))
    return lambda spec, shape, dtype, seed: column[: int(np.prod(shape))].reshape(shape)


MAKERS: dict[str, Callable[..., np.ndarray]] = {
    "uniform": _numbers,
    "distinct": _distinct,
    "spd": _spd,
    "regular": _regular,
    "hermitian": _hermitian,
    "singular": _singular,
    "probabilities": _probabilities,
    "points": _column(0, POINTS, INCOMING, 1),
    "left": _column(0, PAIRED, FEWER_INCOMING, 2),
    "right": _column(1, PAIRED, FEWER_INCOMING, 2),
    "first": _column(0, TRIPLES, FEWER_INCOMING, 3),
    "second": _column(1, TRIPLES, FEWER_INCOMING, 3),
    "third": _column(2, TRIPLES, FEWER_INCOMING, 3),
    "bases": lambda spec, shape, dtype, seed: np.resize(BASES, shape),
    "sources": lambda spec, shape, dtype, seed: np.repeat(SOURCES, len(BASES), axis=0),
    "places": lambda spec, shape, dtype, seed: np.resize(PLACES, shape),
    "cuts": lambda spec, shape, dtype, seed: np.array(CUTS),
    "finite": lambda spec, shape, dtype, seed: np.array([z for z in CUTS if np.isfinite(z)]),
    "rows": lambda spec, shape, dtype, seed: np.resize(ROWS, shape),
}


def dtype_of(name: str) -> Any:
    """numpy's dtype of a name."""
    return ml_dtypes.bfloat16 if name == "bfloat16" else np.dtype(name)


def _unfilled_shape(spec: T) -> tuple[int, ...]:
    """The shape of the tensor of which the spec's layout is a view."""
    shape = spec.shape
    match spec.layout:
        case "contiguous":
            return shape
        case "transposed":
            return (*shape[:-2], shape[-1], shape[-2])
        case "sliced":
            return (*shape[:-1], 2 * shape[-1])
        case "expanded":
            return (1, *shape[1:])
        case "offset":
            return (shape[0] + 1, *shape[1:])
    raise ValueError(f"layout {spec.layout!r}")


VIEWS = {"transposed": ".mT", "sliced": "[..., ::2]", "offset": "[1:]"}
"""How each layout is made of a contiguous tensor, as source."""


def numbers(spec: T, dtype: str, seed: int) -> np.ndarray:
    """The values of the contiguous tensor behind a spec."""
    dtype = spec.dtype or dtype
    shape = _unfilled_shape(spec)
    array = np.array(MAKERS[spec.make](spec, shape, dtype, seed))
    if spec.special:
        if spec.layout != "contiguous":
            raise ValueError("special values go with contiguous tensors")
        flat = array.astype(np.result_type(array, np.asarray(spec.special))).reshape(-1)
        flat[: len(spec.special)] = spec.special[: flat.size]
        array = flat.reshape(shape)
    if np.dtype(dtype_of(dtype)).kind != "c" and np.iscomplexobj(array):
        array = array.real
    with np.errstate(invalid="ignore", over="ignore"):
        return array.astype(dtype_of(dtype))


def inplace_form(row: Case) -> Case | None:
    """The case of ``Tensor.<name>_``, on the first samples of a case."""
    if not row.inplace:
        return None
    name = row.op.rpartition(".")[2]
    picked = tuple(x for x in row.samples if isinstance(x.args[0], T))[:2]
    return replace(
        row,
        op=f"Tensor.{name}_",
        samples=picked,
        dtypes=(),
        errors=(),
        inplace=False,
        jax=None,
        derivatives=min(row.derivatives, 1),
        jvp=False,
    )
