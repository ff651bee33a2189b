"""Functions whose result type depends on how they are called, which no single signature can say.

Everything else follows from the table and from the functions' own annotations.
"""

from __future__ import annotations

_INTS = "_int | Sequence[_int]"


def _extremum(name: str) -> tuple[str, ...]:
    return (
        "(input: Tensor, *, out: Tensor | None = None) -> Tensor",
        "(input: Tensor, dim: _int, keepdim: _bool = False, *, out: tuple[Tensor, ...] | None = None) "
        f"-> _return_types.{name}",
        "(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor",
    )


def _median(name: str) -> tuple[str, ...]:
    return ("(input: Tensor) -> Tensor", f"(input: Tensor, dim: _int, keepdim: _bool = False) -> _return_types.{name}")


_MOMENTS = (
    "(input: Tensor, dim: {ints} | None = None, *, correction: _Number | None = None, "
    "keepdim: _bool = False) -> {result}"
)
_UNBIASED = "(input: Tensor, dim: {ints} | None, unbiased: _bool, keepdim: _bool = False) -> {result}"
_ALL_UNBIASED = "(input: Tensor, unbiased: _bool) -> {result}"


def _moments(result: str) -> tuple[str, ...]:
    return tuple(s.format(ints=_INTS, result=result) for s in (_MOMENTS, _UNBIASED, _ALL_UNBIASED))


def _pool(rest: str) -> tuple[str, ...]:
    pair = "tuple[Tensor, Tensor]"
    plain = f"(input: Tensor, {rest}, return_indices: Literal[False] = False) -> Tensor"
    return plain, f"(input: Tensor, {rest}, *, return_indices: Literal[True]) -> {pair}"


_WINDOW = (
    f"kernel_size: {_INTS}, stride: {_INTS} | None = None, padding: {_INTS} = 0, dilation: {_INTS} = 1, "
    "ceil_mode: _bool = False"
)
_ADAPTIVE = "output_size: _int | Sequence[_int | None]"
_CREATED = (
    "*, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, "
    "device: _device | str | _int | _Sharding | None = None, pin_memory: _bool = False, requires_grad: _bool = False"
)
_RANDINT = _CREATED.replace("*, ", "*, generator: _Generator | None = None, ")

OVERLOADS: dict[str, tuple[str, ...]] = {
    "max": _extremum("max"),
    "min": _extremum("min"),
    "median": _median("median"),
    "nanmedian": _median("nanmedian"),
    "std": _moments("Tensor"),
    "var": _moments("Tensor"),
    "std_mean": _moments("tuple[Tensor, Tensor]"),
    "var_mean": _moments("tuple[Tensor, Tensor]"),
    "where": (
        "(condition: Tensor) -> tuple[Tensor, ...]",
        "(condition: Tensor, input: Tensor | _Number, other: Tensor | _Number) -> Tensor",
    ),
    "nonzero": (
        "(input: Tensor, *, as_tuple: Literal[False] = False) -> Tensor",
        "(input: Tensor, *, as_tuple: Literal[True]) -> tuple[Tensor, ...]",
    ),
    "arange": (
        f"(end: _Number, {_CREATED}) -> Tensor",
        f"(start: _Number, end: _Number, step: _Number = 1, {_CREATED}) -> Tensor",
    ),
    "set_default_device": ("(device: _device | str | _int | None) -> None",),
    "randint": (
        f"(high: _int, size: Sequence[_int], {_RANDINT}) -> Tensor",
        f"(low: _int, high: _int, size: Sequence[_int], {_RANDINT}) -> Tensor",
    ),
    "unique": (
        "(input: Tensor, sorted: _bool = True, return_inverse: _bool = False, return_counts: _bool = False, "
        "dim: _int | None = None) -> Any",
    ),
    "nn.functional.max_pool1d": _pool(_WINDOW),
    "nn.functional.max_pool2d": _pool(_WINDOW),
    "nn.functional.max_pool3d": _pool(_WINDOW),
    "nn.functional.adaptive_max_pool1d": _pool(_ADAPTIVE),
    "nn.functional.adaptive_max_pool2d": _pool(_ADAPTIVE),
    "nn.functional.adaptive_max_pool3d": _pool(_ADAPTIVE),
}
"""By qualified name; the first parameter of a method is dropped from its text."""

_TO = "non_blocking: _bool = False, copy: _bool = False, *, memory_format: _memory_format | None = None) -> Tensor"

METHOD_OVERLOADS: dict[str, tuple[str, ...]] = {
    "where": ("(input: Tensor, condition: Tensor, other: Tensor | _Number) -> Tensor",),
    "size": ("(input: Tensor, dim: None = None) -> _Size", "(input: Tensor, dim: _int) -> _int"),
    "stride": ("(input: Tensor, dim: None = None) -> tuple[_int, ...]", "(input: Tensor, dim: _int) -> _int"),
    "to": (
        f"(input: Tensor, dtype: _dtype, {_TO}",
        f"(input: Tensor, device: _device | str | _int | _Sharding | None = None, dtype: _dtype | None = None, {_TO}",
        f"(input: Tensor, other: Tensor, {_TO}",
    ),
    "cuda": (
        "(input: Tensor, device: _device | str | _int | None = None, non_blocking: _bool = False, *, "
        "memory_format: _memory_format | None = None) -> Tensor",
    ),
    "is_pinned": ("(input: Tensor, device: _device | str | _int | None = None) -> _bool",),
    "type": (
        "(input: Tensor, dtype: None = None) -> str",
        "(input: Tensor, dtype: _dtype | str | _type, non_blocking: _bool = False) -> Tensor",
    ),
    "view": (
        "(input: Tensor, dtype: _dtype) -> Tensor",
        "(input: Tensor, size: Sequence[_int]) -> Tensor",
        "(input: Tensor, *size: _int) -> Tensor",
    ),
    "backward": (
        "(input: Tensor, gradient: Tensor | None = None, retain_graph: _bool | None = None, "
        "create_graph: _bool = False, inputs: Tensor | Sequence[Tensor] | None = None) -> None",
    ),
    "__getitem__": ("(input: Tensor, index: Any, /) -> Tensor",),
}
