"""The operators that are measured: those that published packages use most, and those that were slow at some time.

A call is written once and runs with torch and with torchgrad_jax, which it is given as `t`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .inputs import (
    Input,
    channel,
    complex_matrix,
    distinct,
    few,
    grid,
    image,
    kernel,
    labels,
    lines,
    many,
    mask,
    matrix,
    near_one,
    oblong,
    orders,
    places,
    points,
    positive,
    row_of_square,
    scalar,
    scattered,
    sequence,
    share,
    solid,
    square,
    squares,
    thetas,
    vector,
    volume,
)  # fmt: skip

Call = Callable[..., Any]


@dataclass(frozen=True)
class Row:
    """One operator."""

    name: str
    inputs: tuple[Input, ...]
    call: Call
    """Takes the module and one tensor for each input."""
    leaves: int | None = None
    """How many of the inputs require a gradient, from the first on; None for all that hold floating-point numbers."""
    unset: bool = False
    """Whether the values may be anything, so that only shapes and dtypes have to be equal."""


def named(names: str, *inputs: Input, **facts: Any) -> list[Row]:
    """Functions of torch that take nothing but tensors."""
    return [Row(name, inputs, _function(name), **facts) for name in names.split()]


def _function(name: str) -> Call:
    def call(t: Any, *tensors: Any) -> Any:
        return getattr(t, name)(*tensors)

    return call


def functional(names: str, *inputs: Input, **facts: Any) -> list[Row]:
    """Functions of torch.nn.functional that take nothing but tensors."""

    def function(name: str) -> Call:
        return lambda t, *tensors: getattr(t.nn.functional, name)(*tensors)

    return [Row(f"F.{name}", inputs, function(name), **facts) for name in names.split()]


POINTWISE = [
    *named("abs neg sign exp sin cos tanh sigmoid relu square erf floor ceil round expm1 atan nan_to_num", matrix),
    *named("log log2 log10 log1p sqrt rsqrt reciprocal lgamma", positive),
    *named("acos erfinv logit", share),
    *named("add sub mul div maximum minimum atan2 logaddexp", matrix, positive),
    *named("fmod remainder", matrix, positive, leaves=1),
    *named("isnan isfinite isinf logical_not", matrix, leaves=0),
    *named("eq lt ge logical_and isclose", matrix, matrix, leaves=0),
    *functional("silu gelu softplus logsigmoid elu leaky_relu hardtanh mish", matrix),
    Row("add, a row to each", (matrix, vector), lambda t, x, y: x + y),
    Row("mul, by a number", (matrix,), lambda t, x: x * 0.5),
    Row("add, alpha=2", (matrix, matrix), lambda t, x, y: t.add(x, y, alpha=2)),
    Row("pow, 2", (matrix,), lambda t, x: x**2),
    Row("pow, tensor", (positive, positive), lambda t, x, y: t.pow(x, y)),
    Row("floor_divide", (matrix, positive), lambda t, x, y: x // y, leaves=0),
    Row("clamp", (matrix,), lambda t, x: t.clamp(x, -0.5, 0.5)),
    Row("clamp_min", (matrix,), lambda t, x: t.clamp_min(x, 0.1)),
    Row("where", (mask, matrix, matrix), lambda t, c, x, y: t.where(c, x, y)),
    Row("where, number", (mask, matrix), lambda t, c, x: t.where(c, x, 0.0)),
    Row("masked_fill", (matrix, mask), lambda t, x, c: x.masked_fill(c, -1e9)),
    Row("lerp", (matrix, matrix), lambda t, x, y: t.lerp(x, y, 0.3)),
    Row("addcmul", (matrix, matrix, matrix), lambda t, x, y, z: t.addcmul(x, y, z, value=0.5)),
    Row("complex mul", (complex_matrix, complex_matrix), lambda t, x, y: x * y, leaves=0),
    Row("complex abs", (complex_matrix,), lambda t, x: x.abs(), leaves=0),
    Row("polar", (positive, matrix), lambda t, x, y: t.polar(x, y), leaves=0),
    Row("to, float64", (matrix,), lambda t, x: x.to(t.float64)),
    Row("to, float16", (matrix,), lambda t, x: x.half()),
    Row("clone", (matrix,), lambda t, x: x.clone()),
]

REDUCTIONS = [
    *named("sum mean std", matrix),
    *named("max min prod norm", near_one),
    Row("sum, dim", (matrix,), lambda t, x: x.sum(-1)),
    Row("mean, dim, keepdim", (matrix,), lambda t, x: x.mean(-1, keepdim=True)),
    Row("max, dim", (matrix,), lambda t, x: t.max(x, 1)),
    Row("min, dim", (matrix,), lambda t, x: t.min(x, 1)),
    Row("amax", (matrix,), lambda t, x: t.amax(x, 1)),
    Row("var, dim", (matrix,), lambda t, x: t.var(x, 1)),
    Row("logsumexp", (matrix,), lambda t, x: t.logsumexp(x, 1)),
    Row("median, dim", (distinct,), lambda t, x: t.median(x, 1)),
    Row("quantile", (matrix,), lambda t, x: t.quantile(x, 0.3, dim=1)),
    Row("linalg.vector_norm", (matrix,), lambda t, x: t.linalg.vector_norm(x, dim=1)),
    Row("norm, dim", (matrix,), lambda t, x: t.norm(x, dim=1)),
    Row("argmax", (matrix,), lambda t, x: t.argmax(x, 1), leaves=0),
    Row("argmin", (matrix,), lambda t, x: t.argmin(x, 1), leaves=0),
    Row("all", (mask,), lambda t, c: c.all()),
    Row("any, dim", (mask,), lambda t, c: c.any(1)),
    Row("count_nonzero", (mask,), lambda t, c: t.count_nonzero(c)),
    Row("equal", (matrix,), lambda t, x: t.equal(x, x.clone()), leaves=0),
    Row("allclose", (matrix,), lambda t, x: t.allclose(x, x.clone()), leaves=0),
    Row("item", (scalar,), lambda t, x: x.item(), leaves=0),
    Row("cumsum", (matrix,), lambda t, x: t.cumsum(x, 1)),
    Row("cumprod", (near_one,), lambda t, x: t.cumprod(x, 1)),
    Row("diff", (matrix,), lambda t, x: t.diff(x)),
]

ORDER = [
    Row("sort", (distinct,), lambda t, x: t.sort(x, 1)),
    Row("argsort", (distinct,), lambda t, x: t.argsort(x, 1), leaves=0),
    Row("topk", (distinct,), lambda t, x: t.topk(x, 2)),
    Row("kthvalue", (distinct,), lambda t, x: t.kthvalue(x, 2)),
    Row("unique", (places,), lambda t, i: t.unique(i)),
    Row("bincount", (scattered,), lambda t, i: t.bincount(i)),
    Row("searchsorted", (vector, matrix), lambda t, v, x: t.searchsorted(v.sort()[0], x), leaves=0),
    Row("isin", (places, few), lambda t, i, j: t.isin(i, j)),
    Row("histc", (matrix,), lambda t, x: t.histc(x, 10, -2, 2), leaves=0),
]

VIEWS = [
    Row("view", (matrix,), lambda t, x: x.view(-1)),
    Row("reshape, copying", (matrix,), lambda t, x: x.t().reshape(-1)),
    Row("flatten", (image,), lambda t, x: t.flatten(x, 1)),
    Row("transpose", (matrix,), lambda t, x: x.transpose(0, 1)),
    Row("permute", (image,), lambda t, x: x.permute(0, 2, 3, 1)),
    Row("contiguous, of permute", (image,), lambda t, x: x.permute(0, 2, 3, 1).contiguous()),
    Row("unsqueeze", (matrix,), lambda t, x: x.unsqueeze(1)),
    Row("squeeze", (matrix,), lambda t, x: x[None].squeeze(0)),
    Row("expand", (vector,), lambda t, x: x.expand(3, -1)),
    Row("x[0]", (matrix,), lambda t, x: x[0]),
    Row("x[:, 1:3]", (matrix,), lambda t, x: x[:, 1:3]),
    Row("x[..., None]", (matrix,), lambda t, x: x[..., None]),
    Row("unbind", (points,), lambda t, x: x.unbind(1)),
    Row("split", (matrix,), lambda t, x: x.split(2, 1)[:2]),
    Row("chunk", (matrix,), lambda t, x: x.chunk(2, 1)),
    Row("diagonal", (square,), lambda t, x: x.diagonal()),
    Row("diag", (row_of_square,), lambda t, x: t.diag(x)),
    Row("view_as_complex", (matrix,), lambda t, x: t.view_as_complex(x.view(-1, 2)), leaves=0),
    Row("view_as_real", (complex_matrix,), lambda t, x: t.view_as_real(x), leaves=0),
]

JOINED = [
    Row("cat", (matrix, matrix), lambda t, x, y: t.cat((x, y), 1)),
    Row("stack", (matrix, matrix), lambda t, x, y: t.stack((x, y))),
    Row("repeat", (matrix,), lambda t, x: x.repeat(2, 1)),
    Row("repeat_interleave", (matrix,), lambda t, x: x.repeat_interleave(2, 0)),
    Row("flip", (matrix,), lambda t, x: t.flip(x, (1,))),
    Row("roll", (matrix,), lambda t, x: t.roll(x, 1, 1)),
    Row("tril", (matrix,), lambda t, x: t.tril(x)),
    Row("triu", (matrix,), lambda t, x: t.triu(x, 1)),
    Row("meshgrid", (vector, vector), lambda t, x, y: t.meshgrid(x, y, indexing="ij")),
    Row("diag_embed", (vector,), lambda t, x: t.diag_embed(x)),
    Row("F.pad", (image,), lambda t, x: t.nn.functional.pad(x, (1, 1, 1, 1))),
    Row("F.pad, reflect", (image,), lambda t, x: t.nn.functional.pad(x, (1, 1, 1, 1), mode="reflect")),
    Row("F.one_hot", (labels, vector), lambda t, i, x: t.nn.functional.one_hot(i, len(x)), leaves=0),
]

INDEXED = [
    Row("x[i]", (matrix, lines), lambda t, x, i: x[i]),
    Row("x[i, j]", (matrix, lines, labels), lambda t, x, i, j: x[i, j]),
    Row("x[mask]", (matrix, mask), lambda t, x, c: x[c]),
    Row("masked_select", (matrix, mask), lambda t, x, c: t.masked_select(x, c)),
    Row("gather", (matrix, places), lambda t, x, i: t.gather(x, 1, i)),
    Row("take_along_dim", (matrix, places), lambda t, x, i: t.take_along_dim(x, i, 1)),
    Row("index_select", (matrix, lines), lambda t, x, i: t.index_select(x, 0, i)),
    Row("scatter", (matrix, orders, matrix), lambda t, x, i, y: t.scatter(x, 1, i, y)),
    Row("scatter_add", (matrix, places, matrix), lambda t, x, i, y: t.scatter_add(x, 1, i, y)),
    Row("index_add", (matrix, lines, matrix), lambda t, x, i, y: t.index_add(x, 0, i, y)),
    Row("nonzero", (mask,), lambda t, c: c.nonzero()),
    Row("F.embedding", (matrix, lines), lambda t, w, i: t.nn.functional.embedding(i, w)),
]

WRITES = [
    Row("x[0] = y", (matrix, vector), lambda t, x, y: _written(x, 0, y)),
    Row("x[i] = y", (matrix, lines, matrix), lambda t, x, i, y: _written(x, i, y)),
    Row("x[mask] = 0", (matrix, mask), lambda t, x, c: _written(x, c, 0.0)),
    Row("add_", (matrix, matrix), lambda t, x, y: x.clone().add_(y)),
    Row("mul_, by a number", (matrix,), lambda t, x: x.clone().mul_(0.5)),
    Row("relu_", (matrix,), lambda t, x: x.clone().relu_()),
    Row("masked_fill_", (matrix, mask), lambda t, x, c: x.clone().masked_fill_(c, 0.0)),
    Row("copy_", (matrix, matrix), lambda t, x, y: t.empty_like(x).copy_(y)),
    Row("x[0].add_(y)", (matrix, vector), lambda t, x, y: _row_changed(x, y)),
    Row("zero_, nothing recorded", (matrix,), lambda t, x: x.zero_(), leaves=0),
    Row("add_, nothing recorded", (matrix, matrix), lambda t, x, y: x.add_(y, alpha=0.0), leaves=0),
]


def _written(x: Any, place: Any, value: Any) -> Any:
    out = x.clone()
    out[place] = value
    return out


def _row_changed(x: Any, y: Any) -> Any:
    out = x.clone()
    out[0].add_(y)
    return out


PRODUCTS = [
    *named("matmul mm", square, square),
    *named("bmm", squares, squares),
    *named("dot outer", row_of_square, row_of_square),
    *named("mv", square, row_of_square),
    *named("addmm", square, square, square),
    *named("baddbmm", squares, squares, squares),
    *functional("linear", square, square, row_of_square),
    Row("einsum, ij,kj->ik", (square, square), lambda t, x, y: t.einsum("ij,kj->ik", x, y)),
    Row("einsum, bij,bjk->bik", (squares, squares), lambda t, x, y: t.einsum("bij,bjk->bik", x, y)),
    Row("cdist", (points, points), lambda t, x, y: t.cdist(x, y)),
    Row("cross", (points, points), lambda t, x, y: t.linalg.cross(x, y)),
    Row("linalg.inv", (solid,), lambda t, x: t.linalg.inv(x)),
    Row("linalg.solve", (solid, oblong), lambda t, x, y: t.linalg.solve(x, y.t())),
    Row("linalg.slogdet", (solid,), lambda t, x: t.linalg.slogdet(x)[1]),
    Row("linalg.cholesky", (solid,), lambda t, x: t.linalg.cholesky(x)),
    Row("linalg.solve_triangular", (solid, oblong), lambda t, x, y: t.linalg.solve_triangular(x, y.t(), upper=True)),
    Row("linalg.qr", (oblong,), lambda t, x: t.linalg.qr(x)),
    Row("linalg.eigh, values", (solid,), lambda t, x: t.linalg.eigh(x)[0]),
    Row("linalg.svd, values", (oblong,), lambda t, x: t.linalg.svd(x, full_matrices=False)[1]),
    Row("fft.fft", (matrix,), lambda t, x: t.fft.fft(x), leaves=0),
    Row("fft.rfft", (matrix,), lambda t, x: t.fft.irfft(t.fft.rfft(x), n=x.shape[-1])),
]

LAYERS = [
    Row("F.softmax", (matrix,), lambda t, x: t.nn.functional.softmax(x, -1)),
    Row("F.log_softmax", (matrix,), lambda t, x: t.nn.functional.log_softmax(x, -1)),
    Row("F.normalize", (matrix,), lambda t, x: t.nn.functional.normalize(x, dim=-1)),
    Row("F.layer_norm", (matrix, vector, vector), lambda t, x, w, b: t.nn.functional.layer_norm(x, w.shape, w, b)),
    Row("F.rms_norm", (matrix, vector), lambda t, x, w: t.nn.functional.rms_norm(x, w.shape, w)),
    Row("F.group_norm", (image, channel, channel), lambda t, x, w, b: t.nn.functional.group_norm(x, 2, w, b)),
    Row("F.batch_norm", (image, channel, channel),
        lambda t, x, w, b: t.nn.functional.batch_norm(x, None, None, w, b, training=True)),
    Row("F.dropout", (matrix,), lambda t, x: t.nn.functional.dropout(x, 0.5)),
    Row("F.scaled_dot_product_attention", (image, image, image),
        lambda t, q, k, v: t.nn.functional.scaled_dot_product_attention(q, k, v)),
    Row("F.cosine_similarity", (matrix, matrix), lambda t, x, y: t.nn.functional.cosine_similarity(x, y)),
    Row("F.pairwise_distance", (matrix, matrix), lambda t, x, y: t.nn.functional.pairwise_distance(x, y)),
    *functional("mse_loss l1_loss smooth_l1_loss", matrix, matrix, leaves=1),
    *functional("binary_cross_entropy_with_logits", matrix, share, leaves=1),
    *functional("binary_cross_entropy", share, share, leaves=1),
    *functional("cross_entropy nll_loss", matrix, labels),
    Row("F.kl_div", (matrix, share), lambda t, x, y: t.nn.functional.kl_div(x, y, reduction="batchmean"), leaves=1),
]  # fmt: skip

IMAGES = [
    *functional("conv1d", sequence, kernel(3), channel),
    *functional("conv2d", image, kernel(3, 3), channel),
    *functional("conv3d", volume, kernel(3, 3, 3), channel),
    *functional("conv_transpose2d", image, kernel(3, 3), channel),
    Row("F.conv2d, 1x1", (image, kernel(1, 1)), lambda t, x, w: t.nn.functional.conv2d(x, w)),
    Row("F.max_pool2d", (image,), lambda t, x: t.nn.functional.max_pool2d(x, 2)),
    Row("F.avg_pool2d", (image,), lambda t, x: t.nn.functional.avg_pool2d(x, 2)),
    Row("F.adaptive_avg_pool2d", (image,), lambda t, x: t.nn.functional.adaptive_avg_pool2d(x, 1)),
    Row("F.interpolate, nearest", (image,), lambda t, x: t.nn.functional.interpolate(x, scale_factor=2)),
    Row("F.interpolate, bilinear", (image,),
        lambda t, x: t.nn.functional.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)),
    Row("F.grid_sample", (image, grid), lambda t, x, g: t.nn.functional.grid_sample(x, g, align_corners=False)),
    Row("F.affine_grid", (thetas, image),
        lambda t, a, x: t.nn.functional.affine_grid(a, x.shape, align_corners=False), leaves=1),
    Row("F.unfold", (image,), lambda t, x: t.nn.functional.unfold(x, 3)),
]  # fmt: skip

MADE = [
    *named("zeros_like ones_like rand_like randn_like", matrix, leaves=0),
    *named("empty_like", matrix, leaves=0, unset=True),
    *named("bernoulli", share, leaves=0),
    Row("zeros", (matrix,), lambda t, x: t.zeros(x.shape), leaves=0),
    Row("full", (matrix,), lambda t, x: t.full(x.shape, 0.5), leaves=0),
    Row("eye", (square,), lambda t, x: t.eye(len(x)), leaves=0),
    Row("arange", (many,), lambda t, x: t.arange(len(x)), leaves=0),
    Row("linspace", (many,), lambda t, x: t.linspace(0, 1, len(x)), leaves=0),
    Row("tensor, of a list", (vector,), lambda t, x: t.tensor([0.5, 1.0, 1.5, 2.0]), leaves=0),
    Row("rand", (matrix,), lambda t, x: t.rand(x.shape), leaves=0),
    Row("randn", (matrix,), lambda t, x: t.randn(x.shape), leaves=0),
    Row("randint", (matrix,), lambda t, x: t.randint(0, 10, x.shape), leaves=0),
    Row("randperm", (many,), lambda t, x: t.randperm(len(x)), leaves=0),
    Row("multinomial", (share,), lambda t, x: t.multinomial(x, 2), leaves=0),
    Row("normal_", (matrix,), lambda t, x: x.normal_(), leaves=0),
]

ROWS = [*POINTWISE, *REDUCTIONS, *ORDER, *VIEWS, *JOINED, *INDEXED, *WRITES, *PRODUCTS, *LAYERS, *IMAGES, *MADE]
