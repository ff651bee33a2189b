"""einsum: reads equations, and contracts two operands at a time.

The steps depend on the equation and the shapes of the operands alone, and are planned once for these.
"""

from __future__ import annotations

import functools
import math
import string
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import jax.numpy as jnp
import numpy as np

from .._core.jax.caches import remember
from .._engine.entry.arguments import type_name
from .._engine.entry.bind import composite, ops
from .._engine.memory.tensor import Tensor
from .arguments import only_tensors
from .matmul import public_product
from .shape import reshape

Shape: TypeAlias = tuple[int, ...]
_LETTERS = string.ascii_uppercase + string.ascii_lowercase


def _from_sublists(operands: tuple[Any, ...]) -> tuple[str, list[Tensor]]:
    """Equation and tensors of the form ``einsum(op1, [0, 1], op2, [1, 2], [0, 2])``."""

    def letters(sub: Sequence[Any]) -> str:
        out = []
        for s in sub:
            if s is Ellipsis:
                out.append("...")
            elif s >= 0 and s < 52:  # as in torch, Python raises if the two cannot be compared
                out.append(_LETTERS[int(s)])
            else:
                raise ValueError("einsum(): subscript in subscript list is not within the valid range [0, 52)")
        return "".join(out)

    tensors = list(operands[0:-1:2]) if len(operands) % 2 else list(operands[::2])
    equation = ",".join(letters(s) for s in operands[1::2])
    return (f"{equation}->{letters(operands[-1])}" if len(operands) % 2 else equation), tensors


_ELLIPSIS = "."


def _subscripts(text: str, operand: str) -> list[str]:
    """The labels of one term; an ellipsis is the label '.'."""
    out, i = [], 0
    while i < len(text):
        c = text[i]
        if c == " ":
            i += 1
            continue
        if c == ".":
            if text[i : i + 3] != "..." or _ELLIPSIS in out:
                twice = _ELLIPSIS in out
                why = "for which an ellipsis was already found" if twice else "that is not part of any ellipsis"
                shown = " (...)" if operand == "output" and not twice else ""
                raise RuntimeError(f"einsum(): found '.' for {operand} {why}{shown}")
            out.append(_ELLIPSIS)
            i += 3
            continue
        if c not in _LETTERS:
            raise RuntimeError(
                f"einsum(): invalid subscript given at index {i} in the equation string, subscripts must be in [a-zA-Z]"
            )
        out.append(c)
        i += 1
    return out


def _parse(equation: str, count: int) -> tuple[list[list[str]], list[str] | None]:
    left, arrow, right = equation.partition("->")
    terms = [_subscripts(t, f"operand {i}") for i, t in enumerate(left.split(","))]
    if len(terms) > count:
        raise RuntimeError("einsum(): fewer operands were provided than specified in the equation")
    if len(terms) < count:
        raise RuntimeError("einsum(): more operands were provided than specified in the equation")
    return terms, (_subscripts(right, "output") if arrow else None)


def _expand_labels(
    terms: list[list[str]], shapes: Sequence[Shape], output: list[str] | None
) -> tuple[list[list[Any]], list[Any]]:
    """Labels with ellipses spelled out as negative numbers (from the right), and those of the result."""
    full: list[list[Any]] = []
    widest = 0
    for i, (labels, shape) in enumerate(zip(terms, shapes)):
        named = len(labels) - (_ELLIPSIS in labels)
        rest = len(shape) - named
        if rest < 0 or (rest and _ELLIPSIS not in labels):
            open_ended = _ELLIPSIS in labels
            relation = "is more than" if open_ended else "does not match"
            raise RuntimeError(
                f"einsum(): the number of subscripts in the equation ({named}) {relation} the number of "
                f"dimensions ({len(shape)}) for operand {i}{'' if open_ended else ' and no ellipsis was given'}"
            )
        widest = max(widest, rest)
        out: list[Any] = []
        for label in labels:
            out.extend(range(-rest, 0) if label == _ELLIPSIS else (label,))
        full.append(out)
    if output is None:
        counts: dict[str, int] = {}
        for labels in terms:
            for label in labels:
                counts[label] = counts.get(label, 0) + 1
        result: list[Any] = list(range(-widest, 0))
        result += sorted(c for c, n in counts.items() if n == 1 and c != _ELLIPSIS)
        return full, result
    result = []
    for label in output:
        if label == _ELLIPSIS:
            result.extend(range(-widest, 0))
            continue
        if label in result:
            raise RuntimeError(f"einsum(): output subscript {label} appears more than once in the output")
        if not any(label in labels for labels in terms):
            raise RuntimeError(
                f"einsum(): output subscript {label} does not appear in the equation for any input operand"
            )
        result.append(label)
    return full, result


def _check_sizes(full: list[list[Any]], shapes: Sequence[Shape]) -> dict[Any, int]:
    sizes: dict[Any, int] = {}
    for i, (labels, shape) in enumerate(zip(full, shapes)):
        own: dict[Any, int] = {}
        for label, n in zip(labels, shape):
            if own.setdefault(label, n) != n:
                raise RuntimeError(
                    f"einsum(): subscript {label} is repeated for operand {i} but the sizes don't match, "
                    f"{n} != {own[label]}"
                )
        for label, n in own.items():
            if sizes.get(label, 1) != n and n != 1 and sizes.get(label, 1) != 1:
                what = f"subscript {label}" if isinstance(label, str) else "dimension of the ellipsis"
                raise RuntimeError(
                    f"einsum(): {what} has size {n} for operand {i} which does not broadcast with "
                    f"previously seen size {sizes[label]}"
                )
            sizes[label] = n if n != 1 else sizes.get(label, 1)
    return sizes


def _place(label: str | int) -> int:
    """The sort key of a dimension that is summed; dimensions of an ellipsis have negative numbers."""
    return label if isinstance(label, int) else _LETTERS.index(label)


class _Step(NamedTuple):
    """What is computed of the tensor in one place, and maybe of that in another place, to be put in the first one."""

    compute: Callable[..., Tensor]
    place: int
    other: int | None
    arguments: tuple[Any, ...]


class _Planned(NamedTuple):
    """A tensor while its steps are planned: the steps of all tensors so far, its place, and its shape."""

    steps: list[_Step]
    place: int
    shape: Shape

    def then(self, shape: Sequence[int], compute: Callable[..., Tensor], *arguments: Any) -> _Planned:
        self.steps.append(_Step(compute, self.place, None, arguments))
        return self._replace(shape=tuple(shape))

    def with_other(self, other: _Planned, shape: Sequence[int], compute: Callable[..., Tensor]) -> _Planned:
        self.steps.append(_Step(compute, self.place, other.place, ()))
        return self._replace(shape=tuple(shape))

    def permuted(self, order: Sequence[int]) -> _Planned:
        return self.then([self.shape[d] for d in order], ops.permute, tuple(order))


def _run(steps: Sequence[_Step], operands: Sequence[Tensor]) -> Tensor:
    values: list[Any] = list(operands)
    place = 0
    for compute, place, other, arguments in steps:
        if other is None:
            values[place] = compute(values[place], *arguments)
        else:
            values[place] = compute(values[place], values[other])
            values[other] = None
    return values[place]


def _arranged(t: _Planned, labels: list[Any], order: Sequence[Any]) -> _Planned:
    """`t` with its dimensions in `order`, size 1 for absent labels, diagonals for repeated ones."""
    labels = list(labels)
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            rest = [n for d, n in enumerate(t.shape) if d not in (first, second)]
            t = t.then((*rest, t.shape[first]), ops.diagonal, 0, first, second)  # the diagonal is the last dimension
            del labels[second], labels[first]
            t = t.permuted((*range(first), len(labels), *range(first, len(labels))))
            labels.insert(first, label)
    absent = [label for label in order if label not in labels]
    for _ in absent:
        t = t.then((*t.shape, 1), ops.unsqueeze, len(t.shape))
    labels += absent
    return t.permuted([labels.index(label) for label in order])


_bmm = functools.partial(public_product, "bmm")


def _sum_product(a: _Planned, b: _Planned, dims: Sequence[int]) -> _Planned:
    """Multiply two aligned tensors and sum over `dims`, which both have, as a batched matrix product."""
    if not dims:
        return a.with_other(b, np.broadcast_shapes(a.shape, b.shape), ops.mul)
    rest = [d for d in range(len(a.shape)) if d not in dims]
    shared = [d for d in rest if a.shape[d] != 1 and b.shape[d] != 1]
    left = [d for d in rest if a.shape[d] != 1 and b.shape[d] == 1]
    right = [d for d in rest if a.shape[d] == 1]
    if left and right and right[-1] < left[0]:  # so that the result has the wanted order in memory
        a, b, left, right = b, a, right, left
    sa, sb = a.shape, b.shape

    def size(t: Shape, ds: Sequence[int]) -> int:
        return math.prod(t[d] for d in ds)

    order = [*shared, *left, *dims, *right]
    batch, rows, columns = size(sa, shared), size(sa, left), size(sb, right)
    x, y = (batch, rows, size(sa, dims)), (batch, size(sb, dims), columns)
    a = a.permuted(order).then(x, reshape, x)
    b = b.permuted([*shared, *dims, *right, *left]).then(y, reshape, y)
    out = (*[sa[d] for d in (*shared, *left)], *[1] * len(dims), *[sb[d] for d in right])
    product = a.with_other(b, (batch, rows, columns), _bmm).then(out, ops.view, out)
    return product.permuted([order.index(d) for d in range(len(order))])


def _multiplied(tensors: list[_Planned], pairs: list[tuple[int, int]], kept: int) -> None:
    """The product of aligned tensors, pair by pair. A dimension is summed when no later tensor has it."""
    spread = range(kept, len(tensors[0].shape))
    uses = {d: sum(t.shape[d] != 1 for t in tensors) for d in spread}
    while len(tensors) > 1:
        i, j = pairs.pop(0) if pairs else (0, 1)
        b, a = tensors.pop(j), tensors.pop(i)
        both, alone = [], ([], [])
        for d in spread:
            has = a.shape[d] != 1, b.shape[d] != 1
            if all(has):
                uses[d] -= 1
                if uses[d] == 1:
                    both.append(d)
                    uses[d] = 0
            elif uses[d] == 1 and any(has):
                alone[has[1]].append(d)
                uses[d] = 0
        a, b = (_summed(t, ds) if ds else t for t, ds in zip((a, b), alone))
        tensors.append(_sum_product(a, b, both))
    (out,) = tensors
    if spread:
        out.then(out.shape[:kept], ops.view, out.shape[:kept])


def _summed(t: _Planned, dims: Sequence[int]) -> _Planned:
    return t.then([1 if d in dims else n for d, n in enumerate(t.shape)], ops.sum, tuple(dims), True)


def _contraction_path(
    terms: tuple[tuple[Any, ...], ...], out: tuple[Any, ...], sizes: tuple[tuple[int, ...], ...]
) -> list[tuple[int, ...]]:
    """The order in which to contract more than two operands."""
    names: dict[Any, str] = {}
    named = ["".join(names.setdefault(label, _LETTERS[len(names)]) for label in labels) for labels in terms]
    equation = f"{','.join(named)}->{''.join(names[label] for label in out)}"
    arrays = [np.broadcast_to(np.float32(0), shape) for shape in sizes]
    return jnp.einsum_path(equation, *arrays, optimize="auto")[0]


def _keep_broadcast(path: Sequence[tuple[int, ...]], count: int) -> list[tuple[int, int]]:
    """The path as pairs: steps of one or several operands are unrolled."""
    pairs = []
    for step in path:
        step = tuple(sorted(step))
        while len(step) > 2:
            pairs.append((step[0], step[1]))
            step = (*[s - 2 for s in step[2:]], count - 2)
            count -= 1
        if len(step) == 2:
            pairs.append((step[0], step[1]))
            count -= 1
    return pairs


@remember(2048)
def _plan(equation: str, shapes: tuple[Shape, ...]) -> list[_Step]:
    """The steps for operands of these shapes."""
    terms, output = _parse(equation, len(shapes))
    full, result = _expand_labels(terms, shapes, output)
    sizes = _check_sizes(full, shapes)
    order = [*result, *sorted({*sizes} - {*result}, key=_place)]
    kept = len(result)
    steps: list[_Step] = []
    tensors = [
        _arranged(_Planned(steps, i, shape), labels, order) for i, (shape, labels) in enumerate(zip(shapes, full))
    ]
    if len(tensors) == 1:
        if len(order) > kept:
            tensors[0].then((), ops.sum, tuple(range(kept, len(order))))
        return steps
    pairs = [(0, 1)]
    if len(tensors) > 2:
        unique = tuple(tuple(dict.fromkeys(labels)) for labels in full)
        dims = tuple(tuple(sizes[label] for label in labels) for labels in unique)
        pairs = _keep_broadcast(_contraction_path(unique, tuple(result), dims), len(tensors))
    _multiplied(tensors, pairs, kept)
    return steps


def _in_a_row(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Operands that were given as one list."""
    listed = len(args) == 2 and isinstance(args[1], list | tuple)
    return (args[0], *args[1]) if listed else args


def _seen_in_a_row(fn: Any) -> Any:
    fn.seen = _in_a_row
    return fn


@composite(method=False)
@_seen_in_a_row
def einsum(*args: Any) -> Tensor:
    """Sums of products of tensors in Einstein's notation."""
    if len(args) < 2:
        raise ValueError(
            "einsum(): must specify the equation string and at least one operand, or at least one operand and "
            "its subscripts list"
        )
    if isinstance(args[0], Tensor):
        equation, operands = _from_sublists(args)
    else:
        equation, operands = args[0], list(args[1:])
        if not isinstance(equation, str):
            raise TypeError(f"einsum(): argument 'equation' (position 1) must be str, not {type_name(equation)}")
        if len(operands) == 1 and isinstance(operands[0], list | tuple):
            return einsum(equation, *operands[0])
    try:
        shapes = tuple(t._m.shape for t in operands)
    except AttributeError:
        only_tensors(operands, 1)
        raise
    return _run(_plan(equation, shapes), operands)
