"""Rows of functions with arguments of their own: each is a list of calls on tensors that it draws."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import torchgrad_jax as torch

from ._rows import ALL, dtypes, knows
from .core import (
    OpInfo,
    ReductionOpInfo,
    SampleInput,
    ShapeFuncInfo,
    SpectralFuncInfo,
    SpectralFuncType,
    gradcheck_wrapper_hermitian_input,
    gradcheck_wrapper_triangular_input_real_positive_diagonal,
)

s = SampleInput
Calls = Callable[["Draw"], list[SampleInput]]


class Draw:
    """Draws tensors of one dtype on one device; `d.index` and `d.mask` those that select."""

    def __init__(self, device: Any, dtype: Any, requires_grad: bool) -> None:
        self.device, self.dtype, self.requires_grad = device, dtype, requires_grad

    def __call__(self, *shape: int, **kwargs: Any) -> Any:
        return torch.testing.make_tensor(
            shape, device=self.device, dtype=self.dtype, requires_grad=self.requires_grad, **kwargs
        )

    def index(self, *shape: int, high: int) -> Any:
        """Whole numbers from 0 to below `high`."""
        return torch.testing.make_tensor(shape, device=self.device, dtype=torch.int64, low=0, high=high)

    def mask(self, *shape: int) -> Any:
        """Booleans."""
        return torch.testing.make_tensor(shape, device=self.device, dtype=torch.bool)

    def square(self, n: int = 3, *batch: int) -> Any:
        """Matrices that have an inverse and singular values apart."""
        scale = torch.linspace(1, 2, n, device=self.device, dtype=self.dtype)
        x = torch.testing.make_tensor((*batch, n, n), device=self.device, dtype=self.dtype, low=-0.2, high=0.2)
        return (x + torch.diag(scale)).requires_grad_(self.requires_grad)

    def positive(self, n: int = 3, *batch: int) -> Any:
        """Hermitian matrices with positive eigenvalues."""
        x = self.square(n, *batch).detach()
        return (x @ x.mH).requires_grad_(self.requires_grad)


def _samples(calls: Calls) -> Any:
    def samples(op: Any, device: Any, dtype: Any, requires_grad: bool, **kwargs: Any) -> Iterator[SampleInput]:
        del op, kwargs
        yield from calls(Draw(device, dtype, requires_grad))

    return samples


def row(name: str, letters: str, flags: str, calls: Calls, back: str | None = None, **more: Any) -> OpInfo:
    """A row from dtypes and flags, as `_rows` writes them, and the calls."""
    if back is not None:
        more["backward_dtypes"] = dtypes(back)
    if "." not in name and "op" not in more:  # some are methods of Tensor only
        more["op"] = vars(torch).get(name) or getattr(torch.Tensor, name)
    return OpInfo(name, dtypes=dtypes(letters), sample_inputs_func=_samples(calls), **knows(flags), **more)


def _same(letters: str, flags: str, **named: Calls) -> list[OpInfo]:
    return [row(name, letters, flags, calls) for name, calls in named.items()]


def view_rows() -> list[OpInfo]:
    """What returns a view, or would if it could, and copies with the same elements in another place."""
    return [
        *_same(
            ALL,
            "agfw",
            broadcast_to=lambda d: [s(d(3, 1), (3, 4)), s(d(), (2,))],
            chunk=lambda d: [s(d(5, 2), 2), s(d(2, 5), 3, 1)],
            clone=lambda d: [s(d(2, 3)), s(d())],
            contiguous=lambda d: [s(d(2, 3))],
            diag_embed=lambda d: [s(d(2, 3)), s(d(3), offset=1)],
            diagonal=lambda d: [s(d(3, 4)), s(d(2, 3, 3), 1, 0, 2)],
            expand=lambda d: [s(d(3, 1), (3, 4)), s(d(2), (3, 2))],
            flatten=lambda d: [s(d(2, 3, 2)), s(d(2, 3, 2), 1)],
            flip=lambda d: [s(d(2, 3), (0,)), s(d(2, 3), (0, 1))],
            fliplr=lambda d: [s(d(2, 3))],
            flipud=lambda d: [s(d(2, 3))],
            movedim=lambda d: [s(d(2, 3, 4), 0, 2), s(d(2, 3, 4), (0, 1), (1, 0))],
            narrow=lambda d: [s(d(4, 3), 0, 1, 2), s(d(4, 3), 1, -2, 2)],
            permute=lambda d: [s(d(2, 3, 4), (2, 0, 1))],
            ravel=lambda d: [s(d(2, 3))],
            reshape=lambda d: [s(d(2, 6), (3, 4)), s(d(2, 6), (-1,))],
            roll=lambda d: [s(d(2, 3), 1), s(d(2, 3), (1, 2), (0, 1))],
            rot90=lambda d: [s(d(2, 3)), s(d(2, 3), 2, (1, 0))],
            select=lambda d: [s(d(2, 3), 1, 2), s(d(2, 3), 0, -1)],
            split=lambda d: [s(d(5, 2), 2), s(d(2, 5), [2, 3], 1)],
            tensor_split=lambda d: [s(d(5, 2), 3), s(d(5, 2), (1, 3))],
            unbind=lambda d: [s(d(3, 2)), s(d(2, 3), 1)],
            unflatten=lambda d: [s(d(6, 2), 0, (2, 3))],
            view_as=lambda d: [s(d(2, 6), d(3, 4))],
            hsplit=lambda d: [s(d(2, 4), 2)],
            vsplit=lambda d: [s(d(4, 2), 2)],
            dsplit=lambda d: [s(d(2, 2, 4), 2)],
            atleast_1d=lambda d: [s(d()), s(d(2))],
            atleast_2d=lambda d: [s(d(2))],
            atleast_3d=lambda d: [s(d(2))],
            repeat_interleave=lambda d: [s(d(2, 3), 2), s(d(2, 3), 2, dim=1)],
            resolve_conj=lambda d: [s(d(2, 3))],
            masked_fill=lambda d: [s(d(2, 3), d.mask(2, 3), 1), s(d(2, 3), d.mask(3), d())],
            masked_scatter=lambda d: [s(d(2, 3), d.mask(2, 3), d(6))],
            index_fill=lambda d: [s(d(4, 3), 0, d.index(2, high=4), 1)],
            index_put=lambda d: [s(d(4, 3), (torch.tensor([0, 2], device=d.device),), d(2, 3))],
            squeeze=lambda d: [s(d(2, 1, 3)), s(d(2, 1, 3), 1), s(d(1, 2, 1), (0, 2))],
            unsqueeze=lambda d: [s(d(2, 3), 1), s(d(), 0)],
            transpose=lambda d: [s(d(2, 3), 0, 1)],
            t=lambda d: [s(d(2, 3))],
            block_diag=lambda d: [s(d(2, 3), d(1, 2))],
            cartesian_prod=lambda d: [s(d(2), d(3))],
            combinations=lambda d: [s(d(4)), s(d(3), 2, True)],
            diagonal_scatter=lambda d: [s(d(3, 3), d(3))],
            as_strided_scatter=lambda d: [s(d(6), d(2, 2), (2, 2), (3, 1))],
        ),
        row("view", ALL, "agfw", lambda d: [s(d(2, 6), (3, 4))], op=lambda x, *a: x.view(*a)),
        row("unfold", ALL, "agfw", lambda d: [s(d(5, 2), 0, 3, 1)], "FCbh", op=lambda x, *a: x.unfold(*a)),
        row("as_strided", ALL, "agfw", lambda d: [s(d(3, 4), (2, 2), (1, 4)), s(d(6), (2, 2), (2, 1), 1)]),
    ]


def selection_rows() -> list[OpInfo]:
    """What joins tensors, selects elements of them, or says where they are."""
    return [
        *_same(
            ALL,
            "agfwo",
            cat=lambda d: [s([d(2, 3), d(1, 3)]), s([d(2, 1), d(2, 3)], 1)],
            stack=lambda d: [s([d(2), d(2)], 1)],
            column_stack=lambda d: [s([d(2), d(2)])],
            diag=lambda d: [s(d(3)), s(d(3, 3), 1)],
            diff=lambda d: [s(d(4, 3)), s(d(4, 3), n=2, dim=0)],
            dstack=lambda d: [s([d(2), d(2)])],
            gather=lambda d: [s(d(4, 3), 0, d.index(2, 3, high=4)), s(d(), 0, d.index(high=1))],
            hstack=lambda d: [s([d(2), d(3)])],
            index_select=lambda d: [s(d(4, 3), 0, d.index(2, high=4))],
            masked_select=lambda d: [s(d(2, 3), d.mask(2, 3))],
            outer=lambda d: [s(d(2), d(3))],
            take=lambda d: [s(d(2, 3), d.index(4, high=6))],
            vstack=lambda d: [s([d(2), d(2)])],
            take_along_dim=lambda d: [s(d(4, 3), d.index(2, 3, high=4), 0)],
            kron=lambda d: [s(d(2, 2), d(1, 3))],
            tril=lambda d: [s(d(3, 4)), s(d(3, 4), 1)],
            triu=lambda d: [s(d(3, 4)), s(d(2, 3, 3), -1)],
            index_copy=lambda d: [s(d(4, 3), 0, torch.tensor([0, 2], device=d.device), d(2, 3))],
            index_add=lambda d: [s(d(4, 3), 0, d.index(2, high=4), d(2, 3))],
            scatter=lambda d: [s(d(4, 3), 0, torch.tensor([[0, 1, 2]], device=d.device), d(1, 3))],
            scatter_add=lambda d: [s(d(4, 3), 0, d.index(2, 3, high=4), d(2, 3))],
            addr=lambda d: [s(d(2, 3), d(2), d(3))],
            logsumexp=lambda d: [s(d(2, 3), 1), s(d(2, 3), (0, 1), True)],
        ),
        row(
            "where",
            ALL,
            "agfwo",
            lambda d: [s(d(2, 3), d.mask(2, 3), d(3)), s(d(), d.mask(2), d())],
            op=lambda x, mask, y: torch.where(mask, x, y),
        ),
        row("nonzero", ALL, "o", lambda d: [s(d(2, 3)), s(d(3))]),
        row("argwhere", ALL, "", lambda d: [s(d(2, 3))]),
        *(row(n, ALL, "", lambda d: [s(d(2, 3)), s(d())], inplace_variant=None) for n in ("zeros_like", "ones_like")),
    ]


def reduction_rows() -> list[OpInfo]:
    """What reduces dimensions, by the arguments `dim` and `keepdim`."""

    def one(name: str, letters: str, flags: str, **more: Any) -> OpInfo:
        return ReductionOpInfo(name, ref=getattr(np, name, None), dtypes=dtypes(letters), **knows(flags), **more)

    unbiased: dict[str, Any] = {"generate_args_kwargs": lambda x, **k: [((), {"correction": 0})]}
    return [
        one("sum", ALL, "agfw", identity=0, nan_policy="propagate", promotes_int_to_int64=True),
        one("prod", ALL, "agfw", identity=1, supports_multiple_dims=False, promotes_int_to_int64=True),
        one("mean", "FCbh", "agfwo", nan_policy="propagate", promotes_int_to_float=True),
        one("nanmean", "Fbh", "agfwo", nan_policy="omit"),
        one("nansum", "IF?bh", "agfwo", nan_policy="omit"),
        one("amax", "IF?bh", "agfwo", nan_policy="propagate"),
        one("amin", "IF?bh", "agfwo", nan_policy="propagate"),
        one("all", ALL, "o", identity=True, result_dtype=torch.bool),
        one("any", ALL, "o", identity=False, result_dtype=torch.bool),
        one("argmax", "IFbh", "o", supports_multiple_dims=False, result_dtype=torch.int64),
        one("argmin", "IFbh", "o", supports_multiple_dims=False, result_dtype=torch.int64),
        one("std", "FCbh", "agfwo", complex_to_real=True, **unbiased),
        one("var", "FCbh", "agfwo", complex_to_real=True, **unbiased),
        one("linalg.vector_norm", "FCbh", "agfwo", identity=0, complex_to_real=True),
        ReductionOpInfo(
            "count_nonzero",
            ref=np.count_nonzero,
            dtypes=dtypes(ALL),
            identity=0,
            result_dtype=torch.int64,
            **knows(""),
            sample_inputs_func=_samples(lambda d: [s(d(2, 3)), s(d(2, 3), dim=1), s(d(2, 3, 2), dim=(0, 2))]),
        ),
    ]


def order_rows() -> list[OpInfo]:
    """What finds the largest and smallest elements, or sorts them."""
    return [
        *(
            row(
                name,
                "IF?bh",
                "agfwo",
                lambda d: [s(d(2, 3), 1), s(d(2, 3), 0, True)],
                inplace_variant=None,
                variant_test_name="reduction_with_dim",
            )
            for name in ("max", "min")
        ),
        *(
            row(name, "IF?bh", "agfwo", lambda d: [s(d(2, 3)), s(d())], variant_test_name="reduction_no_dim")
            for name in ("max", "min")
        ),
        row("median", "IFbh", "agfw", lambda d: [s(d(5)), s(d(3, 5), 1)]),
        row("kthvalue", "IFbh", "agfwo", lambda d: [s(d(5), 2), s(d(3, 5), 2, 0, True)]),
        row("mode", "IF?bh", "agfwo", lambda d: [s(d(5)), s(d(3, 5), 0)]),
        row("sort", "IF?bh", "agfwo", lambda d: [s(d(5)), s(d(3, 5), 0, True), s(d(3, 5), stable=True)]),
        row("argsort", "IF?bh", "", lambda d: [s(d(3, 5), stable=True)]),
        row("topk", "IFbh", "agfwo", lambda d: [s(d(5), 2), s(d(3, 5), 2, 1, False)]),
        row("aminmax", "IF?bh", "agfwo", lambda d: [s(d(3, 5)), s(d(3, 5), dim=1)]),
        row("quantile", "F", "agfwo", lambda d: [s(d(5), 0.3), s(d(3, 5), 0.5, 1, True)]),
    ]


def statistics_rows() -> list[OpInfo]:
    """Running sums along a dimension, moments, norms, and counts of values."""
    return [
        *_same(
            "IFCbh",
            "agfwo",
            cumsum=lambda d: [s(d(3, 4), 0), s(d(3, 4), 1)],
            cumprod=lambda d: [s(d(3, 4, low=1, high=2), 1)],
        ),
        row("trace", "IFCbh", "agfw", lambda d: [s(d(3, 4))]),
        *_same("IF?bh", "agfwo", cummax=lambda d: [s(d(3, 4), 0)], cummin=lambda d: [s(d(3, 4), 1)]),
        row("logcumsumexp", "FCbh", "agfwo", lambda d: [s(d(3, 4), 1)]),
        row("var_mean", "FCbh", "agfw", lambda d: [s(d(3, 4), 1), s(d(3, 4), dim=0, correction=0)]),
        row("std_mean", "FCbh", "agfw", lambda d: [s(d(3, 4), 1)]),
        row("dist", "FCbh", "agfw", lambda d: [s(d(3), d(3))]),
        row("norm", "FCbh", "agfwo", lambda d: [s(d(3, 4)), s(d(3, 4), 1, 0)]),
        row("unique", "IF?bh", "", lambda d: [s(d(6))]),
        row("bincount", "I", "", lambda d: [s(d(5, low=0, high=4))]),
        row("searchsorted", "IFbh", "o", lambda d: [s(torch.sort(d(5).detach()).values, d(3).detach())]),
        row("histc", "Fbh", "o", lambda d: [s(d(6)), s(d(6), 4, -2, 2)]),
    ]


def product_rows() -> list[OpInfo]:
    """Products of vectors and matrices, and sums with them."""
    return [
        *_same(
            "IFCbh",
            "agfwo",
            dot=lambda d: [s(d(3), d(3))],
            vdot=lambda d: [s(d(3), d(3))],
            mv=lambda d: [s(d(2, 3), d(3))],
            bmm=lambda d: [s(d(2, 2, 3), d(2, 3, 2))],
            cross=lambda d: [s(d(2, 3), d(2, 3), dim=1)],
            matmul=lambda d: [s(d(3), d(3)), s(d(2, 3), d(3)), s(d(2, 2, 3), d(3, 2)), s(d(3), d(2, 3, 2))],
            mm=lambda d: [s(d(2, 3), d(3, 2))],
            inner=lambda d: [s(d(2, 3), d(4, 3))],
            tensordot=lambda d: [s(d(2, 3), d(3, 2), 1), s(d(2, 3), d(2, 3), dims=([0, 1], [0, 1]))],
            addmm=lambda d: [s(d(2, 2), d(2, 3), d(3, 2)), s(d(2), d(2, 3), d(3, 2))],
            addmv=lambda d: [s(d(2), d(2, 3), d(3))],
            baddbmm=lambda d: [s(d(2, 2, 2), d(2, 2, 3), d(2, 3, 2))],
            addbmm=lambda d: [s(d(2, 2), d(2, 2, 3), d(2, 3, 2))],
            addcmul=lambda d: [s(d(2, 3), d(2, 3), d(3), value=2)],
        ),
        row(
            "einsum",
            "IFCbh",
            "agfw",
            lambda d: [s([d(2, 3), d(3, 2)], "ij,jk->ik"), s([d(3)], "i->")],
            op=lambda tensors, equation: torch.einsum(equation, tensors),
        ),
        row("addcdiv", "FCbh", "agfwo", lambda d: [s(d(2, 3), d(2, 3), d(3, low=1, high=2))]),
        row("lerp", "FCbh", "agfwo", lambda d: [s(d(2, 3), d(2, 3), 0.3), s(d(2, 3), d(2, 3), d(3))]),
    ]


def matrix_rows() -> list[OpInfo]:
    """Functions of matrices: inverses, decompositions, solutions of equations."""
    hermitian: dict[str, Any] = {"gradcheck_wrapper": gradcheck_wrapper_hermitian_input}
    return [
        row("renorm", "FCbh", "agfwo", lambda d: [s(d(3, 4), 2, 0, 1)]),
        row("matrix_exp", "FCbh", "agfw", lambda d: [s(d.square())]),
        *(
            row(n, "FC", "agfwo", lambda d: [s(d.square()), s(d.square(2, 2))])
            for n in (
                "linalg.inv",
                "linalg.det",
                "linalg.inv_ex",
                "linalg.slogdet",
                "linalg.svdvals",
                "linalg.pinv",
                "linalg.qr",
                "linalg.lu_factor",
            )
        ),
        row("linalg.solve", "FC", "agfwo", lambda d: [s(d.square(), d(3, 2)), s(d.square(2, 2), d(2, 2))]),
        row(
            "linalg.cholesky", "FC", "agfwo", lambda d: [s(d.positive()), s(d.positive(2, 2), upper=True)], **hermitian
        ),
        row("linalg.eigvalsh", "FC", "agfwo", lambda d: [s(d.positive())], **hermitian),
        row(
            "linalg.eigh",
            "FC",
            "agfwo",
            lambda d: [s(d.positive()).with_metadata(output_process_fn_grad=lambda out: (out[0], abs(out[1])))],
            **hermitian,
        ),
        row(
            "linalg.svd",
            "FC",
            "agfwo",
            lambda d: [
                s(d.square()).with_metadata(output_process_fn_grad=lambda out: (abs(out[0]), out[1], abs(out[2])))
            ],
        ),
        row("linalg.matrix_power", "FC", "agfwo", lambda d: [s(d.square(), 2), s(d.square(), -1)]),
        row("linalg.norm", "FCbh", "agfwo", lambda d: [s(d(3, 4)), s(d(3, 4), ord=1, dim=(0, 1))]),
        row("linalg.multi_dot", "IFCbh", "agfwo", lambda d: [s([d(2, 3), d(3, 2), d(2, 1)])]),
        row("linalg.solve_triangular", "FC", "agfwo", lambda d: [s(d.square(), d(3, 2), upper=True)]),
        row(
            "cholesky_solve",
            "FC",
            "agfwo",
            lambda d: [s(d(3, 2), d.square())],
            gradcheck_wrapper=lambda *a, **k: gradcheck_wrapper_triangular_input_real_positive_diagonal(*a, idx=1, **k),
        ),
    ]


def spectral_rows() -> list[OpInfo]:
    """Fourier transforms."""
    return [
        *(
            SpectralFuncInfo(
                f"fft.{n}{suffix}",
                ref=getattr(np.fft, f"{n}{suffix}", None),
                dtypes=dtypes("IF?" if n in ("rfft", "ihfft") else "IFC?"),
                ndimensional=kind,
                **knows("agfwo"),
            )
            for n in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
            for suffix, kind in (("", SpectralFuncType.OneD), ("2", SpectralFuncType.TwoD), ("n", SpectralFuncType.ND))
        )
    ]


def repetition_rows() -> list[OpInfo]:
    """What repeats a tensor."""
    return [
        ShapeFuncInfo(
            "tile",
            ref=np.tile,
            dtypes=dtypes(ALL),
            sample_inputs_func=_samples(lambda d: [s(d(2, 3), (2, 2)), s(d(3), (2, 1, 2)), s(d(), (2,))]),
            **knows("agfw"),
        ),
        ShapeFuncInfo(
            "repeat",
            ref=np.tile,
            op=lambda x, dims: x.repeat(dims),
            dtypes=dtypes(ALL),
            sample_inputs_func=_samples(lambda d: [s(d(2, 3), (2, 2)), s(d(3), (2, 1, 2))]),
            **knows("agfw"),
        ),
    ]


def layer_rows() -> list[OpInfo]:
    """Activations, normalization, convolutions and pooling."""
    f = "nn.functional."
    return [
        row("softmax", "Fbh", "agfwo", lambda d: [s(d(2, 3), 1), s(d(3), 0)]),
        row("log_softmax", "Fbh", "agfwo", lambda d: [s(d(2, 3), 1), s(d(3), 0)]),
        row(f + "gelu", "Fbh", "agfwo", lambda d: [s(d(2, 3)), s(d(2, 3), approximate="tanh")]),
        row(f + "glu", "Fbh", "agfw", lambda d: [s(d(2, 4)), s(d(4, 2), 0)]),
        row(f + "linear", "IFCbh", "agfwo", lambda d: [s(d(2, 3), d(4, 3)), s(d(2, 3), d(4, 3), d(4))]),
        row(f + "bilinear", "IFbh", "agfw", lambda d: [s(d(2, 3), d(2, 4), d(5, 3, 4), d(5))]),
        row(f + "layer_norm", "Fbh", "agfw", lambda d: [s(d(2, 3), (3,)), s(d(2, 3), (3,), d(3), d(3))]),
        row(f + "group_norm", "Fbh", "agfw", lambda d: [s(d(2, 4, 3), 2), s(d(2, 4, 3), 2, d(4), d(4))]),
        row(
            f + "conv1d",
            "FCbhl",
            "agfw",
            lambda d: [s(d(1, 2, 5), d(3, 2, 3)), s(d(1, 2, 5), d(3, 2, 3), d(3), padding=1)],
        ),
        row(
            f + "conv2d",
            "FCbhl",
            "agfw",
            lambda d: [s(d(1, 2, 4, 4), d(3, 2, 3, 3)), s(d(1, 2, 4, 4), d(2, 1, 2, 2), groups=2)],
        ),
        row(f + "avg_pool1d", "Fbhl", "agfw", lambda d: [s(d(1, 2, 6), 2)]),
        row(f + "avg_pool2d", "Fbhl", "agfwo", lambda d: [s(d(1, 2, 4, 4), 2), s(d(1, 2, 4, 4), 3, 1, 1)]),
        row(f + "max_pool1d", "Fbh", "agfw", lambda d: [s(d(1, 2, 6), 2)]),
        row(f + "max_pool2d", "IFbh", "agfw", lambda d: [s(d(1, 2, 4, 4), 2)]),
    ]


def loss_rows() -> list[OpInfo]:
    """Losses, and what else torch.nn.functional has."""
    f = "nn.functional."
    return [
        row(f + "mse_loss", "Fbh", "agfw", lambda d: [s(d(2, 3), d(2, 3)), s(d(2, 3), d(2, 3), reduction="none")]),
        row(f + "smooth_l1_loss", "Fbh", "agfw", lambda d: [s(d(2, 3), d(2, 3))]),
        row(f + "l1_loss", "FCbh", "agfw", lambda d: [s(d(2, 3), d(2, 3))]),
        row(
            f + "cross_entropy",
            "Fbh",
            "agfw",
            lambda d: [s(d(4, 3), d.index(4, high=3)), s(d(4, 3), d.index(4, high=3), reduction="sum")],
        ),
        row(f + "nll_loss", "Fbh", "agfw", lambda d: [s(d(4, 3), d.index(4, high=3))]),
        row(f + "binary_cross_entropy_with_logits", "Fbh", "agfw", lambda d: [s(d(4), d(4, low=0, high=1))]),
        row(f + "cosine_similarity", "Fbh", "agfw", lambda d: [s(d(2, 3), d(2, 3))]),
        row(f + "normalize", "FCbh", "agfwo", lambda d: [s(d(2, 3)), s(d(2, 3), p=1, dim=0)]),
        row(
            f + "embedding",
            "Fbh",
            "agfw",
            lambda d: [s(d.index(4, high=5), d(5, 2))],
            op=lambda i, w, **k: torch.nn.functional.embedding(i, w, **k),
        ),
        row(
            f + "pad",
            ALL,
            "agfw",
            lambda d: [s(d(2, 3), (1, 1), value=1), s(d(2, 3), (1, 0, 2, 1))],
            variant_test_name="constant",
        ),
        row(f + "pixel_shuffle", ALL, "agfw", lambda d: [s(d(1, 4, 2, 2), 2)]),
        row(
            f + "scaled_dot_product_attention", "Fbh", "agw", lambda d: [s(d(1, 2, 3, 4), d(1, 2, 3, 4), d(1, 2, 3, 4))]
        ),
        row("clamp", "IFbh", "agfwo", lambda d: [s(d(2, 3), -1, 1), s(d(2, 3), d(3), d(3))]),
    ]


def call_rows() -> list[OpInfo]:
    """All rows of this file."""
    groups = (
        view_rows,
        selection_rows,
        reduction_rows,
        order_rows,
        statistics_rows,
        product_rows,
        matrix_rows,
        spectral_rows,
        repetition_rows,
        layer_rows,
        loss_rows,
    )
    return [row for group in groups for row in group()]
