"""Jacobians and Hessians: a batch of products, one per row or column."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from .._bridge.basis import basis
from .._bridge.vmap import vmap
from .._core.arrays import tree
from .._engine.entry.bind import ops
from .._engine.memory.tensor import Tensor
from .._engine.modes.belonging import as_batch
from .._functions.shape import movedim, unflatten
from .._functions.splitting import split
from ._levels import Function, check_argnums, only_real, pick
from ._transforms import pullback, pushforward


def jacrev(
    func: Function,
    argnums: int | tuple[int, ...] = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable[..., Any]:
    """The Jacobian of `func`, row by row in reverse mode, all rows at once.

    Args:
        func: returns tensors, in containers if need be; with `has_aux`, a pair of that and anything else.
        argnums: which arguments to differentiate with respect to: a number, or a tuple of them.
        has_aux: whether `func` returns such a pair; then the result is a pair too.
        chunk_size: rows to compute at a time; None computes all of them at once.

    Returns:
        A function of the same arguments. Its result is structured like the output of `func`, with the
        structure of the arguments inside; shapes are those of the output followed by those of the input.

    Example:
        >>> import torchgrad_jax as torch
        >>> torch.func.jacrev(torch.sin)(torch.zeros(2))
        tensor([[1., 0.],
                [0., 1.]])
    """
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        only_real("jacrev", "inputs", tree.flatten(args)[0])
        out, pull, aux = pullback(func, args, argnums, has_aux, kwargs)
        outs, out_spec = tree.flatten(out)
        only_real("jacrev", "outputs", outs)
        inputs, in_spec = tree.flatten(pick(args, argnums))

        def row(*cotangents: Any) -> Any:
            return tuple(tree.flatten(pull(tree.unflatten(cotangents, out_spec)))[0])

        rows_in = basis(outs)
        if sum(t._m.numel for t in outs) == 1:
            rows = [ops.unsqueeze(t, 0) for t in row(*[ops.select(t, 0, 0) for t in rows_in])]
        else:
            rows = vmap(row, chunk_size=chunk_size)(*rows_in)
        sizes = [t._m.numel for t in outs]
        blocks: list[Any] = [[] for _ in outs]
        for x, column in zip(inputs, rows):
            for block, t, part in zip(blocks, outs, split(column, sizes)):
                rows_of = ops.view(part, (*t._m.shape, *x._m.shape))
                block.append(as_batch(rows_of, [*outs, x]))
        found = tree.unflatten([tree.unflatten(b, in_spec) for b in blocks], out_spec)
        return (found, aux) if has_aux else found

    return wrapper


def jacfwd(func: Function, argnums: Any = 0, has_aux: bool = False, *, randomness: str = "error") -> Callable[..., Any]:
    """The Jacobian of `func`, column by column in forward mode, all columns at once.

    Args:
        func: returns tensors, in containers if need be; with `has_aux`, a pair of that and anything else.
        argnums: which arguments to differentiate with respect to: a number, or a tuple of them.
        has_aux: whether `func` returns such a pair; then the result is a pair too.
        randomness: what random operations inside do; see `vmap`.

    Example:
        >>> import torchgrad_jax as torch
        >>> torch.func.jacfwd(torch.sin)(torch.zeros(2))
        tensor([[1., 0.],
                [0., 1.]])
    """

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        only_real("jacfwd", "inputs", tree.flatten(args)[0])
        check_argnums(args, argnums)
        inputs, in_spec = tree.flatten(pick(args, argnums))
        specs: list[Any] = []

        def column(*tangents: Any) -> Any:
            found = pushforward(func, args, tree.unflatten(tangents, in_spec), argnums, False, has_aux, kwargs)
            flat, spec = tree.flatten(found[1])
            only_real("jacfwd", "outputs", flat)
            specs[:] = [spec]
            return (tuple(flat), found[2]) if has_aux else tuple(flat)

        if not all(isinstance(t, Tensor) for t in inputs):
            column(*inputs)  # says what is wrong with them
        if has_aux:
            slopes, aux = _with_aux(column, inputs, randomness)
        else:
            slopes, aux = vmap(column, randomness=randomness)(*basis(inputs)), None
        sizes = [x._m.numel for x in inputs]
        outs = []
        for columns in slopes:
            parts = split(movedim(columns, 0, -1), sizes, -1)
            outs.append(
                tree.unflatten(
                    [
                        unflatten(p, -1, x._m.shape) if x._m.shape else ops.squeeze_dim(p, -1)
                        for p, x in zip(parts, inputs)
                    ],
                    in_spec,
                )
            )
        result = tree.unflatten(outs, specs[0])
        return (result, aux) if has_aux else result

    return wrapper


def _with_aux(column: Any, inputs: Sequence[Any], randomness: str) -> Any:
    """The batch of columns; what comes along with them is the same for each, so one is enough."""

    def both(*tangents: Any) -> Any:
        slopes, aux = column(*tangents)
        kinds.append(tree.flatten(aux))
        return slopes, tuple(t for t in kinds[-1][0] if isinstance(t, Tensor))

    kinds: list[Any] = []
    slopes, tensors = vmap(both, randomness=randomness)(*basis(inputs))
    leaves, spec = kinds[-1]
    it = iter(tensors)
    aux = [ops.select(next(it), 0, 0) if isinstance(t, Tensor) else t for t in leaves]
    return slopes, tree.unflatten(aux, spec)


def hessian(func: Function, argnums: Any = 0) -> Callable[..., Any]:
    """Second derivatives: forward mode over reverse mode.

    Example:
        >>> import torchgrad_jax as torch
        >>> torch.func.hessian(lambda x: (x**3).sum())(torch.ones(2))
        tensor([[6., 0.],
                [0., 6.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)
