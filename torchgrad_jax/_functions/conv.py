"""Convolutions under their public names: strings for padding, unbatched inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .._engine.entry.arguments import as_int, as_ints
from .._engine.entry.bind import NAMESPACES, composite, ops
from .._engine.memory.tensor import Tensor
from .arguments import unmatched
from .complex_views import resolve_conj, view_as_real

_Ints = int | Sequence[int]


def _shared(fn: Callable[..., Any]) -> Callable[..., Any]:
    """One function in torch and in nn.functional."""
    public = composite(fn, method=False)
    NAMESPACES.setdefault("nn.functional", {})[fn.__name__] = public
    return public


def _sizes(name: str, k: int, input: Any, weight: Any, **given: Any) -> list[tuple[int, ...]]:
    """Sizes with an entry for each axis, also if a single int was given; refuses other types."""
    if not isinstance(input, Tensor) or not isinstance(weight, Tensor):
        raise unmatched(name)
    out = []
    for value in given.values():
        ints = (value,) * k if value.__class__ is int else as_ints(value)
        if ints is None:
            single = as_int(value)
            if single is None:
                raise unmatched(name)
            ints = (single,) * k
        out.append(ints)
    return out


def _batched(name: str, input: Tensor, k: int) -> tuple[Tensor, bool]:
    ndim = input._m.ndim
    if ndim not in (k + 1, k + 2):
        raise RuntimeError(
            f"Expected {k + 1}D (unbatched) or {k + 2}D (batched) input to {name}, but got input of size: "
            f"{list(input._m.shape)}"
        )
    return (input, True) if ndim == k + 2 else (ops.unsqueeze(input, 0), False)


def _same(x: Tensor, weight: Tensor, stride: Sequence[int], dilation: Sequence[int]) -> tuple[Tensor, tuple[int, ...]]:
    """The padding that keeps the size; the odd element that is left over goes to the right."""
    if any(s != 1 for s in stride):
        raise RuntimeError("padding='same' is not supported for strided convolutions")
    total = [d * (n - 1) for d, n in zip(dilation, weight._m.shape[2:])]
    if any(t % 2 for t in total):
        x = ops.constant_pad_nd(x, tuple(p for t in reversed(total) for p in (0, t % 2)), 0)
    return x, tuple(t // 2 for t in total)


def _parts(t: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    if t is None:
        return None, None
    pairs = view_as_real(resolve_conj(t))
    return ops.select(pairs, -1, 0), ops.select(pairs, -1, 1)


def _convolve(x: Tensor, weight: Tensor, bias: Tensor | None, *how: Any) -> Tensor:
    """The convolution; of complex numbers, torch's three convolutions of real ones."""
    kinds = [t._m.dtype.is_complex for t in (x, weight, bias) if t is not None]
    if not all(kinds):
        return ops.convolution(x, weight, bias, *how)
    (xr, xi), (wr, wi), (br, bi) = map(_parts, (x, weight, bias))
    first, second = ops.convolution(xr, wr, br, *how), ops.convolution(xi, wi, None, *how)
    total = None if bias is None else ops.add(br, bi)
    third = ops.convolution(ops.add(xr, xi), ops.add(wr, wi), total, *how)
    rest = ops.sub(ops.sub(third, first), second)
    return ops.add(ops.sub(first, second), ops.mul_number(rest, 1j))


def _conv(
    name: str,
    k: int,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: _Ints,
    padding: _Ints | str,
    dilation: _Ints,
    groups: int,
) -> Tensor:
    word = padding if isinstance(padding, str) else None
    s, p, d = _sizes(name, k, input, weight, stride=stride, padding=0 if word else padding, dilation=dilation)
    x, batched = _batched(name, input, k)
    if word == "same":
        x, p = _same(x, weight, s, d * k if len(d) == 1 else d)
    elif word not in (None, "valid"):
        raise RuntimeError(f"Invalid padding string: '{word}'")
    y = _convolve(x, weight, bias, s, p, d, False, (0,) * k, groups)
    return y if batched else ops.squeeze_dim(y, 0)


def _conv_transpose(
    name: str,
    k: int,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: _Ints,
    padding: _Ints,
    output_padding: _Ints,
    groups: int,
    dilation: _Ints,
) -> Tensor:
    if isinstance(padding, str):
        raise TypeError(f"{name}(): argument 'padding' must be tuple of ints, not str")
    s, p, o, d = _sizes(
        name, k, input, weight, stride=stride, padding=padding, output_padding=output_padding, dilation=dilation
    )
    x, batched = _batched(name, input, k)
    y = _convolve(x, weight, bias, s, p, d, True, o, groups)
    return y if batched else ops.squeeze_dim(y, 0)


def _named(fn: Callable[..., Any], name: str, doc: str) -> Callable[..., Any]:
    fn.__name__ = fn.__qualname__ = name
    fn.__doc__ = doc
    return _shared(fn)


def _of_dimensions(k: int, doc: str) -> Callable[..., Any]:
    name = f"conv{k}d"

    def conv(
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: _Ints = 1,
        padding: _Ints | str = 0,
        dilation: _Ints = 1,
        groups: int = 1,
    ) -> Tensor:
        return _conv(name, k, input, weight, bias, stride, padding, dilation, groups)

    return _named(conv, name, doc)


def _transposed_of_dimensions(k: int) -> Callable[..., Any]:
    name = f"conv_transpose{k}d"

    def conv(
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: _Ints = 1,
        padding: _Ints = 0,
        output_padding: _Ints = 0,
        groups: int = 1,
        dilation: _Ints = 1,
    ) -> Tensor:
        return _conv_transpose(name, k, input, weight, bias, stride, padding, output_padding, groups, dilation)

    doc = f"The gradient of `conv{k}d` with respect to its input, as a layer of its own."
    return _named(conv, name, doc)


conv1d = _of_dimensions(1, "Cross-correlation of (batch, channels, length) with (out, channels / groups, kernel).")
conv2d = _of_dimensions(2, "Cross-correlation over two spatial dimensions.")
conv3d = _of_dimensions(3, "Cross-correlation over three spatial dimensions.")
conv_transpose1d, conv_transpose2d, conv_transpose3d = map(_transposed_of_dimensions, (1, 2, 3))

NAMESPACES.setdefault("nn.functional", {})["conv_tbc"] = NAMESPACES[""]["conv_tbc"]
