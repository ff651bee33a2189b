"""Random matrices, gradient checks and other small things that tests share."""

# ruff: noqa: PT009, NPY002 - for unittest's TestCase; and suites draw from numpy's old generator

from __future__ import annotations

import contextlib
import gc
import io
import itertools
import os
import random
import socket
import tempfile
from collections.abc import Generator, Iterator, Sequence
from typing import Any

import numpy as np

from ... import autograd, linalg
from ..._core.arrays import dtypes as _d
from ..._engine.entry.bind import NAMESPACES
from ..._engine.memory.tensor import Tensor
from ...random import get_rng_state, set_rng_state
from . import _flags

_torch = NAMESPACES[""]

numpy_to_torch_dtype_dict = {
    np.bool_: _d.bool_,
    np.uint8: _d.uint8,
    np.uint16: _d.uint16,
    np.uint32: _d.uint32,
    np.uint64: _d.uint64,
    np.int8: _d.int8,
    np.int16: _d.int16,
    np.int32: _d.int32,
    np.int64: _d.int64,
    np.float16: _d.float16,
    np.float32: _d.float32,
    np.float64: _d.float64,
    np.complex64: _d.complex64,
    np.complex128: _d.complex128,
}
torch_to_numpy_dtype_dict = {v: k for k, v in numpy_to_torch_dtype_dict.items()}
torch_to_numpy_dtype_dict[_d.bfloat16] = np.float32
dtype2prec_DONTUSE = {_d.float32: 1e-5, _d.float64: 1e-5, _d.float16: 1e-2, _d.bfloat16: 1e-1}


def numpy_to_torch_dtype(np_dtype: Any) -> _d.dtype:
    """The dtype that a dtype of numpy is here."""
    return numpy_to_torch_dtype_dict[np.dtype(np_dtype).type]


# --- gradient checks ------------------------------------------------------------------------------


def _usual(kwargs: dict[str, Any]) -> dict[str, Any]:
    usual = {"check_batched_grad": True, "fast_mode": not _flags.TEST_WITH_SLOW_GRADCHECK}
    return kwargs | {k: v for k, v in usual.items() if kwargs.get(k) is None}


def gradcheck(fn: Any, inputs: Any, **kwargs: Any) -> bool:
    """`autograd.gradcheck`, fast and with batched gradients unless said otherwise."""
    return autograd.gradcheck(fn, inputs, **_usual(kwargs))


def gradgradcheck(fn: Any, inputs: Any, grad_outputs: Any = None, **kwargs: Any) -> bool:
    """`autograd.gradgradcheck`, fast and with batched gradients unless said otherwise."""
    return autograd.gradgradcheck(fn, inputs, grad_outputs, **_usual(kwargs))


def _assertGradAndGradgradChecks(test_case: Any, apply_fn: Any, inputs: Any, **kwargs: Any) -> None:
    test_case.assertTrue(gradcheck(apply_fn, inputs, **kwargs))
    test_case.assertTrue(gradgradcheck(apply_fn, inputs, **kwargs))


def outs_and_grads(fn: Any, graph_inps: Any, inps: Any) -> tuple[Any, list[Any]]:
    """Outputs of a function and the gradients of their sum for those of `inps` that are tensors."""
    outs = fn(*graph_inps)
    for out in outs if isinstance(outs, list | tuple) else [outs]:
        if isinstance(out, Tensor) and out.requires_grad:
            out.sum().backward(retain_graph=True)
    leaves = [i for i in inps if isinstance(i, Tensor)]
    grads = [i.grad for i in leaves]
    for i in leaves:
        i.grad = None
    return outs, grads


def compare_equal_outs_and_grads(test: Any, m1: Any, m2: Any, inps: Any) -> None:
    """Fail unless two functions give the same outputs and gradients."""
    (r1, g1), (r2, g2) = (outs_and_grads(m, inps, inps) for m in (m1, m2))
    test.assertEqual(r1, r2)
    test.assertEqual(g1, g2)


# --- matrices -------------------------------------------------------------------------------------


def _randn(*shape: int, **kwargs: Any) -> Tensor:
    return _torch["randn"](*shape, **kwargs)


def random_symmetric_matrix(l: int, *batches: int, **kwargs: Any) -> Tensor:  # noqa: E741
    """Random symmetric matrices of `l` rows."""
    a = _randn(*batches, l, l, **kwargs)
    return (a + a.mT) / 2


def random_hermitian_matrix(l: int, *batches: int, **kwargs: Any) -> Tensor:  # noqa: E741
    """Random Hermitian matrices of `l` rows."""
    a = _randn(*batches, l, l, **kwargs)
    return (a + a.mH) / 2


def random_symmetric_psd_matrix(l: int, *batches: int, **kwargs: Any) -> Tensor:  # noqa: E741
    """Random positive semi-definite matrices."""
    a = _randn(*batches, l, l, **kwargs)
    return a @ a.mT


def random_hermitian_psd_matrix(
    matrix_size: int, *batch_dims: int, dtype: Any = _d.float64, device: Any = "cpu"
) -> Tensor:
    """Random Hermitian positive semi-definite matrices."""
    a = _randn(*batch_dims, matrix_size, matrix_size, dtype=dtype, device=device)
    return a @ a.mH


def random_symmetric_pd_matrix(matrix_size: int, *batch_dims: int, **kwargs: Any) -> Tensor:
    """Random positive definite matrices."""
    a = _randn(*batch_dims, matrix_size, matrix_size, **kwargs)
    return a @ a.mT + 1e-5 * _torch["eye"](matrix_size, **kwargs)


def random_hermitian_pd_matrix(matrix_size: int, *batch_dims: int, dtype: Any, device: Any) -> Tensor:
    """Random Hermitian positive definite matrices."""
    a = _randn(*batch_dims, matrix_size, matrix_size, dtype=dtype, device=device)
    return a @ a.mH + _torch["eye"](matrix_size, dtype=dtype, device=device)


def make_symmetric_matrices(*shape: int, device: Any, dtype: Any) -> Tensor:
    """Random symmetric matrices of a shape."""
    return random_symmetric_matrix(shape[-1], *shape[:-2], dtype=dtype, device=device)


def make_symmetric_pd_matrices(*shape: int, device: Any, dtype: Any) -> Tensor:
    """Random positive definite matrices of a shape."""
    return random_symmetric_pd_matrix(shape[-1], *shape[:-2], dtype=dtype, device=device)


def make_fullrank_matrices_with_distinct_singular_values(
    *shape: int, device: Any, dtype: Any, requires_grad: bool = False
) -> Tensor:
    """Random matrices whose singular values are far from each other and from zero."""
    a = _randn(*shape, device=device, dtype=dtype)
    u, _, vh = linalg.svd(a, full_matrices=False)
    k = min(shape[-2:])
    steps = _torch["arange"](2, k + 2, dtype=dtype.to_real(), device=device)
    s = 1 + (-1.0) ** steps / steps  # 3/2, 2/3, 5/4, ...: no two alike
    made = (u * s.to(dtype)) @ vh
    return made.detach().requires_grad_(requires_grad)


def random_square_matrix_of_rank(
    l: int,  # noqa: E741
    rank: int,
    dtype: Any = _d.float64,
    device: Any = "cpu",
) -> Tensor:
    """A random square matrix with `rank` singular values that are not zero."""
    if rank > l:
        raise AssertionError(f"a matrix of {l} rows has no rank of {rank}")
    u, s, vh = linalg.svd(_randn(l, l, dtype=dtype, device=device))
    keep = (_torch["arange"](l, device=device) < rank).to(s.dtype)
    return (u * ((s + 1) * keep).to(dtype)) @ vh


def random_matrix(rows: int, columns: int, *batch_dims: int, **kwargs: Any) -> Tensor:
    """Random matrices, of full rank or, with `singular=True`, not."""
    singular = kwargs.pop("singular", False)
    kwargs.pop("silent", None)
    dtype, device = kwargs.pop("dtype", None), kwargs.pop("device", None)
    if batch_dims and not rows * columns:
        return _torch["ones"](*batch_dims, rows, columns, dtype=dtype, device=device)
    u, _, vh = linalg.svd(_randn(*batch_dims, rows, columns, dtype=dtype, device=device), full_matrices=False)
    k = min(rows, columns)
    s = _torch["linspace"](1 / (k + 1), 1, k, dtype=u.dtype.to_real(), device=device)
    if singular and k:
        s[0] = 0
    return (u * s.to(u.dtype)) @ vh


# --- tensors --------------------------------------------------------------------------------------


def noncontiguous_like(t: Tensor) -> Tensor:
    """The same values, not contiguous, and a leaf if it requires a gradient."""
    if not t.is_contiguous():
        return t
    wide = _torch["full"]((*t.shape, 2), 13, dtype=t.dtype, device=t.device)
    out = wide[..., 0]
    out.copy_(t.detach())
    return out.requires_grad_(t.requires_grad)


def clone_input_helper(input: Any) -> Any:
    """A copy of a tensor, or of the tensors in a list."""
    if isinstance(input, Tensor):
        return input.clone()
    return [clone_input_helper(i) for i in input] if isinstance(input, Sequence) else input


def mask_not_all_zeros(shape: Any) -> Tensor:
    """A random mask that selects something."""
    if not len(shape):
        raise AssertionError("mask_not_all_zeros(): a shape with dimensions is needed")
    while True:
        mask = _torch["randn"](shape).gt(0)
        if mask.sum() > 0:
            return mask


def iter_indices(tensor: Tensor) -> Iterator[Any]:
    """The index of each element."""
    if tensor.dim() <= 1:
        return iter(range(tensor.size(0) if tensor.dim() else 0))
    return itertools.product(*(range(n) for n in tensor.shape))


def is_iterable(obj: Any) -> bool:
    """Whether one can iterate over something."""
    try:
        iter(obj)
    except TypeError:
        return False
    return True


def is_iterable_of_tensors(iterable: Any, include_empty: bool = False) -> bool:
    """Whether something is a sequence of tensors; a tensor is not."""
    if isinstance(iterable, Tensor) or not is_iterable(iterable):
        return False
    found = [isinstance(t, Tensor) for t in iterable]
    return all(found) if found else include_empty


def to_gpu(obj: Any, type_map: dict[Any, Any] | None = None) -> Any:
    """A copy on the first GPU, of tensors in lists and tuples too."""
    if isinstance(obj, Tensor):
        kind = (type_map or {}).get(obj.dtype, obj.dtype)
        return obj.detach().clone().to(device="cuda", dtype=kind).requires_grad_(obj.requires_grad)
    return type(obj)(to_gpu(o, type_map) for o in obj) if isinstance(obj, list | tuple) else obj


# --- surroundings ---------------------------------------------------------------------------------


@contextlib.contextmanager
def freeze_rng_state() -> Generator[None, None, None]:
    """Put the random numbers of torch, numpy and Python back where they were."""
    states = get_rng_state(), np.random.get_state(), random.getstate()
    try:
        yield
    finally:
        set_rng_state(states[0])
        np.random.set_state(states[1])
        random.setstate(states[2])


@contextlib.contextmanager
def disable_gc() -> Generator[None, None, None]:
    """Collect no garbage inside of the block."""
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()


@contextlib.contextmanager
def set_cwd(path: str) -> Generator[None, None, None]:
    """Work in a folder."""
    before = os.getcwd()
    os.chdir(path)
    try:
        yield
    finally:
        os.chdir(before)


@contextlib.contextmanager
def set_warn_always_context(new_val: bool) -> Generator[None, None, None]:
    """`set_warn_always` inside of the block."""
    before = _torch["is_warn_always_enabled"]()
    _torch["set_warn_always"](new_val)
    try:
        yield
    finally:
        _torch["set_warn_always"](before)


@contextlib.contextmanager
def TemporaryFileName(*args: Any, **kwargs: Any) -> Generator[str, None, None]:
    """The name of a temporary file, which is closed and exists."""
    if kwargs.pop("delete", False):
        raise UserWarning("only TemporaryFileName with delete=False is supported")
    with tempfile.NamedTemporaryFile(*args, delete=False, **kwargs) as file:
        pass
    try:
        yield file.name
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(file.name)


@contextlib.contextmanager
def TemporaryDirectoryName(suffix: str | None = None) -> Generator[str, None, None]:
    """The name of a temporary folder."""
    with tempfile.TemporaryDirectory(suffix=suffix) as name:
        yield name


class BytesIOContext(io.BytesIO):
    """A BytesIO that a `with` block does not close."""

    def __enter__(self) -> BytesIOContext:
        return self

    def __exit__(self, *exc: object) -> None:
        pass


def find_free_port() -> int:
    """A port that nobody listens at."""
    with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as s:
        s.bind(("localhost", 0))
        return s.getsockname()[1]
