"""Two ways to write the same: equal values, gradients and second gradients, eager, compiled and under `vmap`.

`einsum("ij,jk->ik", x, y)` is `x @ y`. Each row says it in two ways; nobody has to know the result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import torchgrad_jax as torch
from torchgrad_jax.nn import functional as F

Fn = Callable[..., Any]
_DTYPES = {"float64": 1e-9, "float32": 2e-4}


@dataclass(frozen=True)
class Identity:
    """Two functions of tensors of these shapes that are the same function."""

    label: str
    one: Fn
    other: Fn
    shapes: tuple[tuple[int, ...], ...]
    positive: bool = False
    """Whether the numbers have to be positive."""
    batch: bool = True
    """Whether both may be mapped by `vmap`."""


ROWS: list[Identity] = []


def same(label: str, one: Fn, other: Fn, *shapes: tuple[int, ...], **options: Any) -> None:
    """Add a row."""
    ROWS.append(Identity(label, one, other, shapes, **options))


def _spd(x: Any) -> Any:
    return x @ x.mT + 3 * torch.eye(x.shape[-1], dtype=x.dtype)


def _far_from_singular(x: Any) -> Any:
    return x + 5 * torch.eye(x.shape[-1], dtype=x.dtype)


# Products
same(
    "einsum of two matrices is their product",
    lambda x, y: torch.einsum("ij,jk->ik", x, y),
    torch.matmul,
    (2, 3),
    (3, 4),
)
same("einsum over a batch is bmm", lambda x, y: torch.einsum("bij,bjk->bik", x, y), torch.bmm, (2, 2, 3), (2, 3, 4))
same("einsum of one index is a dot product", lambda x, y: torch.einsum("i,i", x, y), torch.dot, (4,), (4,))
same("einsum of a diagonal is a trace", lambda x: torch.einsum("ii->", x), torch.trace, (3, 3))
same("einsum without a sum is an outer product", lambda x, y: torch.einsum("i,j->ij", x, y), torch.outer, (3,), (4,))
same(
    "einsum of three matrices is multi_dot",
    lambda x, y, z: torch.einsum("ij,jk,kl->il", x, y, z),
    lambda *a: torch.linalg.multi_dot(a),
    (2, 3),
    (3, 4),
    (4, 2),
)
same("tensordot over one dimension is a product", lambda x, y: torch.tensordot(x, y, 1), torch.matmul, (2, 3), (3, 4))
same("a matrix times a vector is a sum of columns", torch.mv, lambda x, v: (x * v).sum(1), (3, 4), (4,))
same(
    "addmm is a sum and a product",
    lambda a, x, y: torch.addmm(a, x, y, beta=2, alpha=3),
    lambda a, x, y: 2 * a + 3 * (x @ y),
    (2, 4),
    (2, 3),
    (3, 4),
)
same("baddbmm is a sum and a product", torch.baddbmm, lambda a, x, y: a + x @ y, (2, 2, 4), (2, 2, 3), (2, 3, 4))
same("linear is a product with the transposed weight", F.linear, lambda x, w, b: x @ w.T + b, (2, 3), (4, 3), (4,))
same(
    "bilinear is an einsum",
    F.bilinear,
    lambda x, y, w: torch.einsum("bi,kij,bj->bk", x, w, y),
    (2, 3),
    (2, 4),
    (5, 3, 4),
)
same(
    "kron is a product of all pairs",
    torch.kron,
    lambda x, y: (x[:, None, :, None] * y[None, :, None, :]).reshape(4, 6),
    (2, 3),
    (2, 2),
)
same(
    "addcmul is a sum and a product",
    lambda a, x, y: torch.addcmul(a, x, y, value=2),
    lambda a, x, y: a + 2 * x * y,
    (3,),
    (3,),
    (3,),
)
same(
    "addcdiv is a sum and a quotient",
    lambda a, x, y: torch.addcdiv(a, x, y, value=2),
    lambda a, x, y: a + 2 * x / y,
    (3,),
    (3,),
    (3,),
    positive=True,
)
same("lerp is a weighted sum", torch.lerp, lambda x, y, w: x + w * (y - x), (3,), (3,), (3,))
same("vecdot is a sum of products", torch.linalg.vecdot, lambda x, y: (x * y).sum(-1), (2, 3), (2, 3))
same(
    "cross is a determinant",
    torch.linalg.cross,
    lambda x, y: torch.stack([x[1] * y[2] - x[2] * y[1], x[2] * y[0] - x[0] * y[2], x[0] * y[1] - x[1] * y[0]]),
    (3,),
    (3,),
)
# Linear algebra
same(
    "solve is a product with the inverse",
    lambda a, b: torch.linalg.solve(_far_from_singular(a), b),
    lambda a, b: torch.linalg.inv(_far_from_singular(a)) @ b,
    (3, 3),
    (3, 2),
)
same(
    "the inverse solves for the identity",
    lambda a: torch.linalg.inv(_far_from_singular(a)),
    lambda a: torch.linalg.solve(_far_from_singular(a), torch.eye(3, dtype=a.dtype)),
    (3, 3),
)
same(
    "det of a product is a product",
    lambda a, b: torch.linalg.det(a @ b),
    lambda a, b: torch.linalg.det(a) * torch.linalg.det(b),
    (3, 3),
    (3, 3),
)
same(
    "slogdet is the logarithm of det",
    lambda a: torch.linalg.slogdet(_spd(a))[1],
    lambda a: torch.linalg.det(_spd(a)).log(),
    (3, 3),
)
same(
    "logdet by Cholesky",
    lambda a: torch.logdet(_spd(a)),
    lambda a: 2 * torch.linalg.cholesky(_spd(a)).diagonal().log().sum(),
    (3, 3),
)
same("a Cholesky factor times itself", lambda a: (lambda c: c @ c.mT)(torch.linalg.cholesky(_spd(a))), _spd, (3, 3))
same("Q times R", lambda a: (lambda q, r: q @ r)(*torch.linalg.qr(a)), lambda a: a * 1, (3, 3))
same(
    "an SVD put together",
    lambda a: (lambda u, s, v: (u * s) @ v)(*torch.linalg.svd(a, full_matrices=False)),
    lambda a: a * 1,
    (4, 3),
)
same("eigh put together", lambda a: (lambda w, v: (v * w) @ v.mT)(*torch.linalg.eigh(_spd(a))), _spd, (3, 3))
same(
    "eigenvalues add up to the trace", lambda a: torch.linalg.eigvalsh(_spd(a)).sum(), lambda a: _spd(a).trace(), (3, 3)
)
same(
    "singular values and the Frobenius norm",
    lambda a: torch.linalg.svdvals(a).square().sum(),
    lambda a: a.square().sum(),
    (4, 3),
)
same("lu put together", lambda a: (lambda p, low, up: p @ low @ up)(*torch.linalg.lu(a)), lambda a: a * 1, (3, 3))
same(
    "cholesky_solve solves",
    lambda a, b: torch.cholesky_solve(b, torch.linalg.cholesky(_spd(a))),
    lambda a, b: torch.linalg.solve(_spd(a), b),
    (3, 3),
    (3, 2),
)
same(
    "solve_triangular solves",
    lambda a, b: torch.linalg.solve_triangular(_far_from_singular(a).tril(), b, upper=False),
    lambda a, b: torch.linalg.solve(_far_from_singular(a).tril(), b),
    (3, 3),
    (3, 2),
)
same(
    "lstsq solves the normal equations",
    lambda a, b: torch.linalg.lstsq(a, b).solution,
    lambda a, b: torch.linalg.solve(a.mT @ a, a.mT @ b),
    (5, 2),
    (5, 1),
)
same("pinv of a tall matrix", torch.linalg.pinv, lambda a: torch.linalg.solve(a.mT @ a, a.mT), (5, 2))
same("matrix_exp of a diagonal", lambda d: torch.linalg.matrix_exp(torch.diag(d)), lambda d: torch.diag(d.exp()), (3,))
same("matrix_power is a product", lambda a: torch.linalg.matrix_power(a, 3), lambda a: a @ a @ a, (3, 3))
# Norms and sums
same("the 2-norm", torch.linalg.vector_norm, lambda x: x.square().sum().sqrt(), (2, 3))
same("the 3-norm", lambda x: torch.linalg.vector_norm(x, 3, 1), lambda x: x.abs().pow(3).sum(1).pow(1 / 3), (2, 3))
same("normalize divides by the norm", F.normalize, lambda x: x / x.norm(dim=1, keepdim=True), (2, 3))
same(
    "cosine_similarity of normalized rows",
    F.cosine_similarity,
    lambda x, y: (F.normalize(x) * F.normalize(y)).sum(1),
    (2, 3),
    (2, 3),
)
same("cdist is the norm of differences", torch.cdist, lambda x, y: (x[:, None] - y[None]).norm(dim=-1), (3, 2), (4, 2))
same(
    "pdist is the upper half of cdist",
    F.pdist,
    lambda x: torch.stack([(x[i] - x[j]).norm() for i in range(4) for j in range(i + 1, 4)]),
    (4, 2),
    batch=False,
)
same(
    "var is the mean of squares",
    lambda x: x.var(1, correction=0),
    lambda x: (x - x.mean(1, keepdim=True)).square().mean(1),
    (2, 4),
)
same("std is the root of var", lambda x: x.std(1), lambda x: x.var(1).sqrt(), (2, 4))
same(
    "var_mean is both",
    lambda x: torch.stack(torch.var_mean(x, 1)),
    lambda x: torch.stack([x.var(1), x.mean(1)]),
    (2, 4),
)
same("logsumexp is a logarithm of a sum", lambda x: torch.logsumexp(x, 1), lambda x: x.exp().sum(1).log(), (2, 4))
same("logaddexp is logsumexp of two", torch.logaddexp, lambda x, y: torch.stack([x, y]).logsumexp(0), (4,), (4,))
same(
    "cumsum is a product with a triangle",
    lambda x: x.cumsum(1),
    lambda x: x @ torch.ones(4, 4, dtype=x.dtype).triu(),
    (2, 4),
)
same("cumprod is exp of cumsum of log", lambda x: x.cumprod(0), lambda x: x.log().cumsum(0).exp(), (4,), positive=True)
same("logcumsumexp is log of cumsum of exp", lambda x: x.logcumsumexp(0), lambda x: x.exp().cumsum(0).log(), (4,))
same("prod is exp of a sum of logarithms", lambda x: x.prod(1), lambda x: x.log().sum(1).exp(), (2, 4), positive=True)
same("diff is a difference of two parts", torch.diff, lambda x: x[:, 1:] - x[:, :-1], (2, 4))
same("trapezoid is a mean of neighbours", torch.trapezoid, lambda x: (x[:, 1:] + x[:, :-1]).sum(1) / 2, (2, 4))
same("a moved dimension is a permutation", lambda x: x.movedim(0, 2), lambda x: x.permute(1, 2, 0), (2, 3, 4))
same("roll is two parts put together", lambda x: x.roll(1, 0), lambda x: torch.cat([x[-1:], x[:-1]]), (4, 2))
same("flip is an index that counts down", lambda x: x.flip(0), lambda x: x[torch.arange(3, -1, -1)], (4, 2))
same("tile repeats", lambda x: x.tile(2, 3), lambda x: torch.cat([torch.cat([x] * 3, 1)] * 2), (2, 2))
same(
    "repeat_interleave expands",
    lambda x: x.repeat_interleave(2, 0),
    lambda x: x[:, None].expand(3, 2, 2).reshape(6, 2),
    (3, 2),
)
same("the maximum is the last after sorting", lambda x: x.max(1).values, lambda x: x.sort(1).values[:, -1], (2, 4))
same(
    "topk are the last after sorting",
    lambda x: x.topk(2, 1).values,
    lambda x: x.sort(1, descending=True).values[:, :2],
    (2, 4),
)
same(
    "the median is in the middle after sorting", lambda x: x.median(1).values, lambda x: x.sort(1).values[:, 1], (2, 4)
)
same("kthvalue is one after sorting", lambda x: x.kthvalue(3, 1).values, lambda x: x.sort(1).values[:, 2], (2, 4))
same("a quantile between two", lambda x: x.quantile(0.5, 1), lambda x: x.sort(1).values[:, 1:3].mean(1), (2, 4))
# Indices
_at = torch.tensor([2, 0, 2])
same("index_select is an index", lambda x: x.index_select(0, _at), lambda x: x[_at], (3, 2))
same(
    "gather is one element of each row",
    lambda x: x.gather(1, _at[:, None])[:, 0],
    lambda x: x[torch.arange(3), _at],
    (3, 4),
)
same(
    "take_along_dim is gather",
    lambda x: torch.take_along_dim(x, _at[:, None], 1),
    lambda x: x.gather(1, _at[:, None]),
    (3, 4),
)
same(
    "index_add adds products with a one-hot matrix",
    lambda x, y: x.index_add(0, _at, y),
    lambda x, y: x + F.one_hot(_at, 3).to(x.dtype).T @ y,
    (3, 2),
    (3, 2),
)
same(
    "scatter_add is index_add",
    lambda x, y: x.scatter_add(0, _at[:, None].expand(3, 2), y),
    lambda x, y: x.index_add(0, _at, y),
    (3, 2),
    (3, 2),
)
same(
    "embedding is a product with a one-hot matrix",
    lambda w: F.embedding(_at, w),
    lambda w: F.one_hot(_at, 3).to(w.dtype) @ w,
    (3, 2),
)
same(
    "embedding_bag adds embeddings",
    lambda w: F.embedding_bag(_at[None], w, mode="sum"),
    lambda w: F.embedding(_at, w).sum(0, keepdim=True),
    (3, 2),
)
same(
    "masked_fill is where",
    lambda x: x.masked_fill(_at[:, None] == 2, 7.0),
    lambda x: torch.where(_at[:, None] == 2, 7.0, x),
    (3, 2),
)
same("tril is a product with a mask", torch.tril, lambda x: x * torch.ones(3, 3, dtype=x.dtype).tril(), (3, 3))
same("diag_embed puts on a diagonal", torch.diag_embed, lambda x: x[..., None] * torch.eye(3, dtype=x.dtype), (2, 3))
same(
    "unfold is all windows", lambda x: x.unfold(0, 3, 2), lambda x: torch.stack([x[k : k + 3] for k in (0, 2, 4)]), (7,)
)
same(
    "select_scatter writes one row",
    lambda x, y: torch.select_scatter(x, y, 0, 1),
    lambda x, y: torch.cat([x[:1], y[None], x[2:]]),
    (3, 2),
    (2,),
)
# Activations and losses
same("softmax is exp over its sum", lambda x: x.softmax(1), lambda x: x.exp() / x.exp().sum(1, keepdim=True), (2, 4))
same("log_softmax is log of softmax", lambda x: F.log_softmax(x, 1), lambda x: x.softmax(1).log(), (2, 4))
same("softmin is softmax of the negative", lambda x: F.softmin(x, 1), lambda x: (-x).softmax(1), (2, 4))
same("sigmoid by tanh", torch.sigmoid, lambda x: (1 + (x / 2).tanh()) / 2, (4,))
same("logsigmoid by softplus", F.logsigmoid, lambda x: -F.softplus(-x), (4,))
same("silu is x times sigmoid", F.silu, lambda x: x * x.sigmoid(), (4,))
same("mish is x times tanh of softplus", F.mish, lambda x: x * F.softplus(x).tanh(), (4,))
same("gelu by erf", F.gelu, lambda x: x * (1 + torch.erf(x / 2**0.5)) / 2, (4,))
same(
    "gelu by tanh",
    lambda x: F.gelu(x, approximate="tanh"),
    lambda x: x * (1 + ((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3)).tanh()) / 2,
    (4,),
)
same("elu with two branches", F.elu, lambda x: torch.where(x > 0, x, x.exp() - 1), (4,))
same("glu is a product of halves", F.glu, lambda x: x[:, :2] * x[:, 2:].sigmoid(), (3, 4))
same("prelu with one slope", F.prelu, lambda x, w: torch.where(x > 0, x, w * x), (3, 4), (1,))
same("softsign divides by its size", F.softsign, lambda x: x / (1 + x.abs()), (4,))
same(
    "cross_entropy is nll of log_softmax",
    lambda x: F.cross_entropy(x, _at),
    lambda x: F.nll_loss(x.log_softmax(1), _at),
    (3, 4),
)
same(
    "cross_entropy of probabilities",
    lambda x, y: F.cross_entropy(x, y.softmax(1)),
    lambda x, y: -(y.softmax(1) * x.log_softmax(1)).sum(1).mean(),
    (3, 4),
    (3, 4),
)
same(
    "cross_entropy with smoothed labels",
    lambda x: F.cross_entropy(x, _at, label_smoothing=0.2),
    lambda x: F.cross_entropy(x, 0.8 * F.one_hot(_at, 4).to(x.dtype) + 0.05),
    (3, 4),
)
same(
    "binary_cross_entropy with logits",
    lambda x, y: F.binary_cross_entropy_with_logits(x, y.sigmoid()),
    lambda x, y: F.binary_cross_entropy(x.sigmoid(), y.sigmoid()),
    (4,),
    (4,),
)
same("mse_loss is a mean of squares", F.mse_loss, lambda x, y: (x - y).square().mean(), (4,), (4,))
same("huber_loss of 1 is smooth_l1_loss", F.huber_loss, F.smooth_l1_loss, (4,), (4,))
same(
    "kl_div is a sum of differences of logarithms",
    lambda x, y: F.kl_div(x.log_softmax(0), y.log_softmax(0), log_target=True, reduction="sum"),
    lambda x, y: (y.softmax(0) * (y.log_softmax(0) - x.log_softmax(0))).sum(),
    (4,),
    (4,),
)
same(
    "gaussian_nll_loss by hand",
    lambda x, y, v: F.gaussian_nll_loss(x, y, v),
    lambda x, y, v: (v.log() + (x - y) ** 2 / v).mean() / 2,
    (4,),
    (4,),
    (4,),
    positive=True,
)
# Norms of layers, attention
same(
    "layer_norm by mean and variance",
    lambda x, w, b: F.layer_norm(x, (4,), w, b),
    lambda x, w, b: (x - x.mean(1, keepdim=True)) / (x.var(1, keepdim=True, correction=0) + 1e-5).sqrt() * w + b,
    (3, 4),
    (4,),
    (4,),
)
same(
    "rms_norm by the mean of squares",
    lambda x, w: F.rms_norm(x, (4,), w, 1e-5),
    lambda x, w: x / (x.square().mean(1, keepdim=True) + 1e-5).sqrt() * w,
    (3, 4),
    (4,),
)
same(
    "group_norm of one group is layer_norm", lambda x: F.group_norm(x, 1), lambda x: F.layer_norm(x, (4, 5)), (2, 4, 5)
)
same(
    "instance_norm is group_norm of all channels", F.instance_norm, lambda x: F.group_norm(x, 3), (2, 3, 5), batch=False
)
same(
    "batch_norm in training by mean and variance",
    lambda x: F.batch_norm(x, None, None, training=True),
    lambda x: (x - x.mean(0)) / (x.var(0, correction=0) + 1e-5).sqrt(),
    (5, 3),
    batch=False,
)
same(
    "batch_norm in evaluation is linear",
    lambda x, w, b: F.batch_norm(x, torch.full((3,), 0.5, dtype=x.dtype), torch.full((3,), 2.0, dtype=x.dtype), w, b),
    lambda x, w, b: (x - 0.5) / 2.00001**0.5 * w + b,
    (5, 3),
    (3,),
    (3,),
    batch=False,
)
same(
    "attention by softmax",
    F.scaled_dot_product_attention,
    lambda q, k, v: (q @ k.mT / 2).softmax(-1) @ v,
    (2, 3, 4),
    (2, 5, 4),
    (2, 5, 4),
)
same(
    "causal attention by a mask",
    lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
    lambda q, k, v: (q @ k.mT / 2).masked_fill(torch.ones(3, 3).triu(1) == 1, -torch.inf).softmax(-1) @ v,
    (2, 3, 4),
    (2, 3, 4),
    (2, 3, 4),
)
# Convolutions, pools, images
same(
    "conv1d is a product with windows",
    F.conv1d,
    lambda x, w: torch.einsum("nclk,ock->nol", x.unfold(2, 3, 1), w),
    (2, 3, 7),
    (4, 3, 3),
)
same(
    "conv2d is a product with unfolded columns",
    lambda x, w: F.conv2d(x, w, stride=2, padding=1),
    lambda x, w: (w.reshape(4, -1) @ F.unfold(x, 3, padding=1, stride=2)).reshape(2, 4, 3, 3),
    (2, 3, 5, 5),
    (4, 3, 3, 3),
)
same(
    "conv2d of 1 by 1 is linear in the channels",
    F.conv2d,
    lambda x, w: torch.einsum("nchw,oc->nohw", x, w[:, :, 0, 0]),
    (2, 3, 4, 4),
    (5, 3, 1, 1),
)
same(
    "conv3d of depth 1 is conv2d",
    lambda x, w: F.conv3d(x[:, :, None], w[:, :, None])[:, :, 0],
    F.conv2d,
    (2, 3, 5, 5),
    (4, 3, 3, 3),
)
same(
    "a convolution in groups is two",
    lambda x, w: F.conv1d(x, w, groups=2),
    lambda x, w: torch.cat([F.conv1d(x[:, :2], w[:2]), F.conv1d(x[:, 2:], w[2:])], 1),
    (2, 4, 7),
    (4, 2, 3),
)
same(
    "a dilated convolution has zeros between",
    lambda x, w: F.conv1d(x, w, dilation=2),
    lambda x, w: F.conv1d(x, torch.stack([w, 0 * w], -1).flatten(2)[..., :5]),
    (2, 3, 9),
    (4, 3, 3),
)
same(
    "conv_transpose is the gradient of conv",
    lambda g, w: F.conv_transpose1d(g, w, stride=2),
    lambda g, w: torch.func.vjp(lambda x: F.conv1d(x, w, stride=2), torch.zeros(2, 4, 9, dtype=g.dtype))[1](g)[0],
    (2, 3, 4),
    (3, 4, 3),
)
same(
    "conv_transpose spreads the input apart",
    lambda x, w: F.conv_transpose1d(x, w),
    lambda x, w: F.conv1d(F.pad(x, (2, 2)), w.transpose(0, 1).flip(-1)),
    (2, 3, 5),
    (3, 4, 3),
)
same(
    "fold adds what unfold takes",
    lambda x: F.fold(F.unfold(x, 2, stride=2), (4, 4), 2, stride=2),
    lambda x: x * 1,
    (2, 3, 4, 4),
)
same("avg_pool is a mean of windows", lambda x: F.avg_pool1d(x, 3, 2), lambda x: x.unfold(2, 3, 2).mean(-1), (2, 3, 7))
same(
    "avg_pool2d is a convolution with equal weights",
    lambda x: F.avg_pool2d(x, 2),
    lambda x: F.conv2d(x, torch.full((1, 1, 2, 2), 0.25, dtype=x.dtype), stride=2),
    (2, 1, 4, 4),
)
same(
    "max_pool is a maximum of windows", lambda x: F.max_pool1d(x, 3, 2), lambda x: x.unfold(2, 3, 2).amax(-1), (2, 3, 7)
)
same(
    "max_pool2d by two of one dimension",
    lambda x: F.max_pool2d(x, 2),
    lambda x: x.unfold(2, 2, 2).amax(-1).unfold(3, 2, 2).amax(-1),
    (2, 3, 4, 4),
)
same(
    "adaptive_avg_pool to 1 is a mean",
    lambda x: F.adaptive_avg_pool2d(x, 1)[..., 0, 0],
    lambda x: x.mean((2, 3)),
    (2, 3, 4, 5),
)
same(
    "adaptive pools of a divisor are pools",
    lambda x: F.adaptive_max_pool1d(x, 3),
    lambda x: F.max_pool1d(x, 2),
    (2, 3, 6),
)
same(
    "lp_pool by powers",
    lambda x: F.lp_pool1d(x, 3, 2),
    lambda x: (F.avg_pool1d(x**3, 2) * 2).pow(1 / 3),
    (2, 3, 6),
    positive=True,
)
same(
    "interpolation to the nearest repeats",
    lambda x: F.interpolate(x, scale_factor=2),
    lambda x: x.repeat_interleave(2, 2),
    (2, 3, 4),
)
same(
    "interpolation by grid_sample",
    lambda x: F.interpolate(x, (7, 7), mode="bilinear", align_corners=True),
    lambda x: F.grid_sample(
        x,
        F.affine_grid(
            torch.eye(2, 3, dtype=x.dtype).expand(x.shape[0], 2, 3), (x.shape[0], 3, 7, 7), align_corners=True
        ),
        align_corners=True,
    ),
    (2, 3, 4, 4),
)
same("pixel_shuffle undone", lambda x: F.pixel_unshuffle(F.pixel_shuffle(x, 2), 2), lambda x: x * 1, (2, 4, 3, 3))
same(
    "circular padding is three parts",
    lambda x: F.pad(x, (1, 2), mode="circular"),
    lambda x: torch.cat([x[..., -1:], x, x[..., :2]], -1),
    (2, 3, 5),
)
same(
    "reflected padding is three parts",
    lambda x: F.pad(x, (1, 2), mode="reflect"),
    lambda x: torch.cat([x[..., 1:2], x, x[..., -3:-1].flip(-1)], -1),
    (2, 3, 5),
)
same(
    "replicated padding expands the ends",
    lambda x: F.pad(x, (1, 2), mode="replicate"),
    lambda x: torch.cat([x[..., :1], x, x[..., -1:].expand(*x.shape[:-1], 2)], -1),
    (2, 3, 5),
)
# Transforms and functions of numbers
same("an FFT undone", lambda x: torch.fft.ifft(torch.fft.fft(x)).real, lambda x: x * 1, (2, 5))
same(
    "a product of spectra is a circular convolution",
    lambda x, y: torch.fft.irfft(torch.fft.rfft(x) * torch.fft.rfft(y), 4),
    lambda x, y: torch.stack([(x * y.flip(0).roll(k + 1)).sum() for k in range(4)]),
    (4,),
    (4,),
)
same(
    "rfft is half of fft",
    lambda x: torch.view_as_real(torch.fft.rfft(x)),
    lambda x: torch.view_as_real(torch.fft.fft(x))[:, :3],
    (2, 5),
)
same("Parseval", lambda x: torch.fft.fft(x, norm="ortho").abs().square().sum(), lambda x: x.square().sum(), (6,))
same("expm1 is exp less 1", torch.expm1, lambda x: x.exp() - 1, (4,))
same("log1p is log of 1 more", torch.log1p, lambda x: (1 + x).log(), (4,), positive=True)
same("hypot is a norm of two", torch.hypot, lambda x, y: torch.stack([x, y]).norm(dim=0), (4,), (4,))
same("atan2 of positive numbers is atan", torch.atan2, lambda y, x: (y / x).atan(), (4,), (4,), positive=True)
same("xlogy is a product", torch.xlogy, lambda x, y: x * y.log(), (4,), (4,), positive=True)
same("logit undoes sigmoid", lambda x: x.sigmoid().logit(), lambda x: x * 1, (4,))
same("erfinv undoes erf", lambda x: torch.erfinv(torch.erf(x / 2)), lambda x: x / 2, (4,))
same(
    "lgamma of the next number", lambda x: torch.lgamma(x + 1), lambda x: torch.lgamma(x) + x.log(), (4,), positive=True
)
same(
    "digamma is the gradient of lgamma",
    torch.digamma,
    lambda x: torch.func.grad(lambda v: torch.lgamma(v).sum())(x),
    (4,),
    positive=True,
)
same("sinc divides sine", torch.sinc, lambda x: (torch.pi * x).sin() / (torch.pi * x), (4,), positive=True)
same("pow by exp and log", torch.pow, lambda x, y: (y * x.log()).exp(), (4,), (4,), positive=True)
same(
    "clamp by minimum and maximum",
    lambda x: x.clamp(-1, 1),
    lambda x: x.maximum(torch.tensor(-1.0, dtype=x.dtype)).minimum(torch.tensor(1.0, dtype=x.dtype)),
    (5,),
)
same(
    "a product of complex numbers by their parts",
    lambda x, y: torch.view_as_real(torch.view_as_complex(x) * torch.view_as_complex(y)),
    lambda x, y: torch.stack(
        [x[..., 0] * y[..., 0] - x[..., 1] * y[..., 1], x[..., 0] * y[..., 1] + x[..., 1] * y[..., 0]], -1
    ),
    (3, 2),
    (3, 2),
)
same(
    "polar is cos and sin",
    lambda r, a: torch.view_as_real(torch.polar(r, a)),
    lambda r, a: torch.stack([r * a.cos(), r * a.sin()], -1),
    (4,),
    (4,),
    positive=True,
)
# Several results and several tensors at once
same("split and cat", lambda x: torch.cat([p * 2 for p in x.split(2)]), lambda x: x * 2, (5, 2))
same("unbind and stack", lambda x: torch.stack([p * 2 for p in x.unbind(1)], 1), lambda x: x * 2, (3, 4))
same(
    "_foreach_mul is a loop",
    lambda x, y: torch.cat(torch._foreach_mul([x, y], 3.0)),
    lambda x, y: torch.cat([x * 3, y * 3]),
    (3,),
    (4,),
)
same(
    "_foreach_addcmul is a loop",
    lambda x, y: torch._foreach_addcmul([x], [y], [y], 2.0)[0],
    lambda x, y: x + 2 * y * y,
    (3,),
    (3,),
)
same(
    "vmap is a loop",
    lambda x, y: torch.vmap(torch.dot)(x, y),
    lambda x, y: torch.stack([torch.dot(a, b) for a, b in zip(x, y)]),
    (3, 4),
    (3, 4),
)
same("a scaled write is a product", lambda x: x.clone().mul_(2).add_(1), lambda x: 2 * x + 1, (4,))
same(
    "a write to a part is cat",
    lambda x, y: (lambda z: (z[1:3].copy_(y), z)[1])(x.clone()),
    lambda x, y: torch.cat([x[:1], y, x[3:]]),
    (4, 2),
    (2, 2),
)


def _numbers(row: Identity, dtype: str) -> list[Any]:
    drawn = np.random.RandomState(3)
    arrays = [drawn.uniform(0.3, 1.7, s) if row.positive else drawn.uniform(-1.7, 1.7, s) for s in row.shapes]
    return [torch.tensor(a.astype(dtype)) for a in arrays]


def _derived(fn: Fn, given: list[Any], weights: list[np.ndarray]) -> list[np.ndarray]:
    """The value, the gradients, and the gradients of a sum of these with weights."""
    leaves = [x.clone().requires_grad_() for x in given]
    out = fn(*leaves)
    cotangent = torch.tensor(
        np.random.RandomState(4).uniform(0.5, 1.5, tuple(out.shape)).astype(out.detach().numpy().dtype)
    )
    first = torch.autograd.grad(out, leaves, cotangent, create_graph=True)
    total = sum((g * torch.tensor(w)).sum() for g, w in zip(first, weights))
    second = (
        torch.autograd.grad(total, leaves, allow_unused=True, materialize_grads=True) if total.requires_grad else ()
    )
    zeros = [np.zeros(x.shape) for x in given]
    return [out.detach().numpy(), *[g.detach().numpy() for g in first], *([g.numpy() for g in second] or zeros)]


def _expect_equal(mine: list[np.ndarray], theirs: list[np.ndarray], tolerance: float) -> None:
    assert len(mine) == len(theirs)
    for n, (x, y) in enumerate(zip(mine, theirs)):
        scale = max(1.0, float(np.abs(y).max(initial=0.0)))
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance * scale, err_msg=f"value {n}")


@pytest.mark.parametrize("dtype", _DTYPES)
@pytest.mark.parametrize("row", [pytest.param(row, id=row.label) for row in ROWS])
def test_both_ways_give_the_same(row: Identity, dtype: str) -> None:
    given = _numbers(row, dtype)
    weights = [np.random.RandomState(5).uniform(0.5, 1.5, s).astype(dtype) for s in row.shapes]
    one, other = (_derived(fn, given, weights) for fn in (row.one, row.other))
    # What is computed by differences of large numbers loses digits with each derivative.
    _expect_equal(one, other, _DTYPES[dtype] * (1 if dtype == "float64" else 5))


@pytest.mark.parametrize("row", [pytest.param(row, id=row.label) for row in ROWS])
def test_compiled_and_mapped(row: Identity) -> None:
    given = _numbers(row, "float64")
    want = row.other(*given).numpy()
    _expect_equal([torch.compile(row.one)(*given).numpy()], [want], 1e-9)
    if row.batch:
        both = [torch.stack([x, x]) for x in given]
        _expect_equal([r.numpy() for r in torch.vmap(row.one)(*both)], [want, want], 1e-9)


def test_each_row_can_fail() -> None:
    wrong = Identity("sum is no mean", lambda x: x.sum(), lambda x: x.mean(), ((3,),))
    with pytest.raises(AssertionError):
        test_both_ways_give_the_same(wrong, "float64")
