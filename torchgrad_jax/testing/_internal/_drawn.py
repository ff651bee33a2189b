"""Matrices with a rank or a condition that tests ask for, and checks of functions that make tensors."""

# ruff: noqa: PT009 - the checks are of unittest's TestCase
from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..._core.arrays.dtypes import float16, float64
from ..._engine.entry.bind import NAMESPACES
from ..._engine.memory.tensor import Tensor
from ._helpers import random_matrix


def _functions(module: str = "") -> dict[str, Callable[..., Any]]:
    return NAMESPACES[module]


def random_lowrank_matrix(rank: int, rows: int, columns: int, *batch_dims: int, **kwargs: Any) -> Tensor:
    """Random matrices of a rank: the product of a tall one and a wide one."""
    tall = random_matrix(rows, rank, *batch_dims, **kwargs)
    return tall @ random_matrix(rank, columns, *batch_dims, **kwargs)


def random_well_conditioned_matrix(
    *shape: int, dtype: Any, device: Any, mean: float = 1.0, sigma: float = 0.001
) -> Tensor:
    """Random matrices with singular values close to `mean`, so that solving with them loses nothing."""
    torch, linalg = _functions(), _functions("linalg")
    x = torch["randn"](shape, dtype=dtype, device=device)
    u, _, vh = linalg["svd"](x, full_matrices=False)
    real = torch["empty"](0, dtype=dtype).real.dtype if dtype.is_complex else dtype
    s = torch["randn"](*shape[:-2], min(shape[-2:]), dtype=real, device=device) * sigma + mean
    s = torch["sort"](s, descending=True).values.to(dtype)
    return (u * s.unsqueeze(-2)) @ vh


def random_matrix_with_scaled_reduction_dim(rows: int, columns: int, *batch_dims: int, **kwargs: Any) -> Tensor:
    """Random matrices whose products stay of the size of one: scaled by the root of the dimension summed over."""
    dim = kwargs.get("reduction_dim", -1)
    if dim not in (-1, -2):
        raise AssertionError(f"reduction_dim must be -1 or -2, got {dim}")
    x = _functions()["randn"](
        *batch_dims, rows, columns, dtype=kwargs.get("dtype", float64), device=kwargs.get("device")
    )
    return x / (columns if dim == -1 else rows) ** 0.5


def do_test_dtypes(self: Any, dtypes: Iterable[Any], layout: Any, device: Any) -> None:
    """Check that `torch.zeros` makes tensors of these dtypes, but for float16, on this device and with this layout."""
    for kind in dtypes:
        if kind != float16:
            out = _functions()["zeros"]((2, 3, 4), dtype=kind, layout=layout, device=device)
            self.assertIs(kind, out.dtype)
            self.assertIs(layout, out.layout)
            self.assertEqual(device, out.device)


def do_test_empty_full(self: Any, dtypes: Iterable[Any], layout: Any, device: Any) -> None:
    """Check `empty` and `full` and what is like them: shape, dtype, layout, device, requires_grad and values."""
    torch = _functions()
    for kind in dtypes:
        for shape in ((3, 2), (2, 0), ()):
            for out in (
                torch["empty"](shape, dtype=kind, device=device, layout=layout),
                torch["full"](shape, 1, dtype=kind, device=device, layout=layout),
                torch["empty"](0, device=device).new_empty(shape, dtype=kind, device=device),
                torch["full_like"](torch["empty"](shape, device=device), 1, dtype=kind),
            ):
                self.assertEqual(tuple(out.shape), shape)
                self.assertIs(out.dtype, kind)
                self.assertIs(out.layout, layout)
                self.assertEqual(str(out.device).partition(":")[0], str(device).partition(":")[0])
                self.assertFalse(out.requires_grad)
            full = torch["full"](shape, 1, dtype=kind, device=device, requires_grad=kind.is_floating_point)
            self.assertEqual(full.detach(), torch["zeros"](shape, dtype=kind, device=device) + full.new_ones(()))
            self.assertEqual(full.requires_grad, kind.is_floating_point)


__all__ = [
    "do_test_dtypes",
    "do_test_empty_full",
    "random_lowrank_matrix",
    "random_matrix_with_scaled_reduction_dim",
    "random_well_conditioned_matrix",
]
