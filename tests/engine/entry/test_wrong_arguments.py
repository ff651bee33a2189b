"""Calls with wrong arguments: the class and the text of what torch raises, overloads and all."""

from __future__ import annotations

import functools
import re
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import torchgrad_jax as tg
from tests.differential import live_torch
from tests.engine.helpers import given
from tests.programs import Programs, complaint, first_line, text_of
from torchgrad_jax._engine.entry import parser

program = Programs()
test_same_as_torch = program.test()

POSITIONS = (
    lambda x: x.flatten(True),
    lambda x: x.flatten(0, False),
    lambda x: x.narrow(1, 0, True),
    lambda x: x.rot90(1.5),
    lambda x: x.rot90(True),
    lambda x: x.select(0, 1) is x.select(0, True),
    lambda x: x.transpose(0, 1) is x.transpose(False, 1),
    lambda x: x.diagonal(0, 0, 1) is x.diagonal(0, False, 1),
    lambda x: x.unfold(0, 1, 1) is x.unfold(0, 1, True),
    lambda x: x.chunk(True),
    lambda x: x.diff(True),
    lambda x: x.cov(correction=1.5),
    lambda x: x.quantile(0.5, 1, 1),
    lambda x: x.nanquantile(0.5, 1, None),
    lambda x: x.fill_diagonal_(1.0, 1),
    lambda x: x.as_strided((1,), (1,), 1.5),
    lambda x: x.addmm(x, x, beta=(0,)),
    lambda x: x.addmm(x, x, alpha="a"),
    lambda x: x.dist(x, "a"),
    lambda x: x.dist(x, ()),
    lambda x: x.renorm(float("nan"), 0, 1.0),
    lambda x: x.renorm(2, 0, float("nan")),
    lambda x: x.movedim((0,), 1),
    lambda m, x: m.combinations(x[0], 2, 1),
    lambda m, x: m.vander(x[0], True),
    lambda m, i: m.bincount(i, minlength=1.5),
    lambda m, x: m.cdist(x, x, float("nan")),
    lambda m, x: m.linalg.matrix_power(x, True),
    lambda m, x: m.fft.fft(x, 2, False),
    lambda m, x: m.fft.rfft(x, True),
    lambda x: x.topk("a"),
    lambda x: x.transpose("a", 1),
    lambda x: x.unsqueeze("a"),
    lambda x: x.chunk("a"),
    lambda x, i: x.gather("a", i),
    lambda x: x.index_select(0, "a"),
    lambda x: x.argmax("a"),
    lambda x: x.cumsum("a"),
    lambda x: x.softmax("a"),
    lambda m, x: m.softmax(x, "a"),
    lambda m, x: m.topk(x, "a"),
    lambda m, x: m.topk(x, None),
    lambda m, x: m.topk(x, True),
    lambda m, x: m.argmax(x, 0, None),
    lambda x: x.add_("a"),
    lambda x: x.sub_(None),
    lambda x: x.mul_([1]),
    lambda m, x: m.add(x, "a"),
    lambda m, x: m.add(x, 1, alpha="a"),
    lambda x: x.relu_(1),
    lambda x: x.masked_fill_(x, 0.0),
    lambda x, i: x.index_fill_("a", i, 1),
    lambda m, x: m.linalg.norm(x, "a", "b"),
    lambda m, x: m.linalg.solve(x, "a"),
    lambda m, x: m.fft.fft(x, "a"),
    lambda m, x: m.special.xlogy("a", x),
    lambda m: m.sin("a"),
    lambda m, x: m.sin(x, out="a"),
    lambda m, x: m.sin("a", out=x),
    lambda m, x: m.cat([x, 1]),
    lambda m, x: m.cat(x),
    lambda m, x: m.hstack(x),
    lambda m, x: m.stack([x, None]),
    lambda m: m.Tensor.sin(5),
    lambda m: m.Tensor.topk(),
)
COUNTS = (
    lambda m, x: m.add(x),
    lambda m: m.add(),
    lambda m, x: m.add(x, 1, 2, 3),
    lambda m, x: m.add(x, other=1, foo=2),
    lambda x: x.add(),
    lambda x: x.add_(),
    lambda m: m.sin(),
    lambda m, x: m.sin(x, x),
    lambda m, x: m.sin(x, foo=1),
    lambda x: x.sin(1),
    lambda x: x.sin(foo=1),
    lambda x: x.zero_(1),
    lambda x: x.pow_(),
    lambda x: x.pow_(1, 2),
    lambda x: x.scatter_(),
    lambda x: x.div_(),
    lambda x: x.square_(1),
    lambda x: x.float_power_(1, 2, 3),
    lambda x: x.index_put_(),
    lambda x: x.cpu(None),
    lambda x: x.contiguous(None),
    lambda x: x.contiguous(memory_format=None),
    lambda m, x: m.as_tensor(x, m.float32),
    lambda m: m.nn.functional.one_hot(),
    lambda m: m.topk(),
    lambda m, x: m.topk(x, 1, 2, True, True, 6),
    lambda x: x.topk(1, 2, True, True, 6),
    lambda x: x.topk(1, k=2),
    lambda x: x.softmax(),
    lambda m, x: m.softmax(x),
    lambda m, x: m.lerp(x, x),
    lambda m: m.tensor(),
    lambda m: m.full((2,)),
    lambda m: m.can_cast(m.float32),
    lambda m, x: m.matmul(x),
    lambda m, x: m.addmm(x, x),
    lambda x: x.transpose(0),
    lambda x: x.sum(axis=0, dim=1),
    lambda x: x.sum(dim=0, foo=1),
    lambda m, x: m.sum(x, axis=0, dim=1),
    lambda m, x: m.nn.functional.linear(x),
    lambda m, x: m.nn.functional.scaled_dot_product_attention(x, x),
)
OVERLOADS = (
    lambda m, x: m.where(x > 0, "a", x),
    lambda m, x: m.where("a", x, x),
    lambda m, x: m.where(x > 0, x),
    lambda m, x: m.isin("a", x),
    lambda m, x: m.isin(x, "a", assume_unique=True),
    lambda m, x: m.clamp(x, "a"),
    lambda x: x.clamp_("a"),
    lambda x: x.masked_fill(x > 0, "a"),
    lambda x, i: x.scatter(0, i, "a"),
    lambda x, i: x.scatter_(0, i, "a"),
    lambda x: x.pow("a"),
    lambda x: x.pow_("a"),
    lambda x: x.div_("a"),
    lambda x: x.div(2, rounding_mode=1),
    lambda x: x.std("a"),
    lambda x: x.var(dim="a"),
    lambda x: x.var(dim=0.5),
    lambda x: x.std(dim=[0, "a"]),
    lambda x: x.quantile("a"),
    lambda x: x.quantile(0.5, dim="a"),
    lambda x: x.max(dim=None),
    lambda x: x.min(dim=None),
    lambda x: x.median(dim=None),
    lambda m, x: m.max(x, None),
    lambda x: x.sum("a"),
    lambda x: x.sum("a", "b"),
    lambda x: x.mean("a"),
    lambda x: x.squeeze("a"),
    lambda x: x.sort("a"),
    lambda m, x: m.bernoulli(x, None),
    lambda m, x: m.searchsorted(x, "a"),
    lambda m: m.rand(2, generator=5),
    lambda m: m.randn(2, generator=5),
    lambda m, x: m.normal("a", x),
    lambda m: m.device(5.5),
    lambda m, x: m.bitwise_and(x, "a"),
    lambda m, x: m.full_like(x, "a"),
    lambda x: x.sum(dtype=np.dtype("float64")),
    lambda x: x.sum(dtype=np.array([1, 2])),
    lambda m, x: m.softmax(x, 0, dtype=np.array([1, 2])),
    lambda x: x.to(np.dtype("float64")),
    lambda x: x.to(np.array([1, 2])),
)
SIZES = (
    lambda x: x.view("a"),
    lambda x: x.view(2.5),
    lambda x: x.view(),
    lambda x: x.view(1, "a"),
    lambda x: x.reshape("a"),
    lambda x: x.permute("a"),
    lambda x: x.expand("a"),
    lambda x: x.repeat("a"),
    lambda x: x.flip("a"),
    lambda x: x.flip(1, "a"),
    lambda m, x: m.flip(x, 5),
    lambda m, x: m.flip(x, 0, 1),
    lambda m, x: m.flip(x, [True]),
    lambda m, x: m.permute(x, 0, 1),
    lambda m: m.zeros("a"),
    lambda m: m.zeros(2, "a"),
    lambda m: m.zeros((2, 2.5)),
    lambda m, x: m.roll(x),
    lambda m, x: m.sum(x, [True]),
    lambda m, x: m.broadcast_tensors(x, 1),
    lambda m: m.meshgrid(1),
)
FUNCTIONAL = (
    lambda F: F.relu("a"),
    lambda F: F.relu(),
    lambda F, x: F.linear(x, "a"),
    lambda F, x: F.conv1d(x, "a"),
    lambda F, x: F.conv2d("a", x),
    lambda F, x: F.layer_norm(x, "a"),
)
OTHERS = (
    lambda m: m.dtype("a"),
    lambda m: m.load(5),
    lambda m, x: m.einsum(x, x),
    lambda m: m.einsum("ij", 1),
    lambda m, x: m.equal(x, 1),
    lambda m, x: m.result_type(x, "a"),
    lambda m: m.from_numpy([1]),
    lambda m: m.randint(5),
    lambda m: m.arange(),
    lambda m, x: m.polygamma(x, 1),
)

EMPTY = (
    lambda m, i: m.zeros(1, 0).index_select(0, i),
    lambda m, i: m.zeros(0, 3).index_select(0, i),
    lambda m, i: m.zeros(0, 1).index_select(1, i),
    lambda m, i: m.zeros(2, 0).index_select(0, i).shape,
    lambda m, i: m.zeros(0).index_select(0, i),
    lambda m, i: m.zeros(1, 0).index_add(1, i, m.zeros(1, 2)).shape,
    lambda m, F, i: F.embedding(i, m.zeros(1, 0)),
    lambda m, F, i: F.embedding(i, m.zeros(0, 3)),
    lambda m, F, i: F.embedding(i, m.zeros(0, 3), max_norm=1.0),
    lambda m, F, i: F.embedding(i * 5, m.zeros(2, 3), max_norm=1.0),
    lambda m, i: m.zeros(1, 0).index_reduce(0, i, m.zeros(2, 0), "prod"),
    lambda m, i: m.zeros(0, 3).index_reduce(0, i, m.zeros(2, 3), "prod"),
    lambda m, i: m.zeros(0).index_reduce(0, i, m.zeros(2), "prod"),
)
NUMBERS_AND_NONE = (
    lambda m: m.add(1, 2),
    lambda m: m.add(1.5, True),
    lambda m: m.add(True, False),
    lambda m: m.add(1, 2, alpha=3),
    lambda m: m.sub(2j, 3),
    lambda m: m.sub(True, 2),
    lambda m: m.subtract(1, 2, 3),
    lambda m: m.mul(1.5, 2),
    lambda m: m.multiply(True, False),
    lambda m: m.div(1, 2),
    lambda m: m.div(7, 2, rounding_mode="floor"),
    lambda m: m.true_divide(1, 2),
    lambda m: m.divide(True, False),
    lambda m: m.floor_divide(7, 2),
    lambda m: m.floor_divide(True, False),
    lambda m: m.pow(1, 2),
    lambda m: m.eq(1, 2),
    lambda m: m.Tensor.add(1, 2),
    lambda m, x: m.add(x, x, alpha=None),
    lambda x: x.add(x, alpha=None),
    lambda x: x.clone().sub_(x, alpha=None),
    lambda m, x: m.addcmul(x, x, x, value=None),
    lambda x: x.addcdiv(x, x, value=None),
    lambda x: x.round(decimals=None),
    lambda m, x: m.special.round(x, decimals=None),
    lambda m, x: m.prod(x, None),
    lambda x: x.prod(None, True),
    lambda x: x.var(unbiased=None),
    lambda x: x.std(0, None),
    lambda x: x.std(unbiased=False, keepdim=True),
    lambda m, x: m.var_mean(x, unbiased=None),
    lambda x: x.std(None, False, True),
    lambda x: x.renorm(2, 0, None),
    lambda m, x: m.renorm(x, None, 0, 1),
    lambda m, x: m.clamp(x, 0, x),
    lambda x: x.clamp(x, 1),
    lambda x: x.clone().clamp_(0, x),
    lambda x, i: x.index_put(i, x[0]),
    lambda m, x, i: m.index_put(x, i, x[0]),
    lambda x, i: x.clone().index_put_(i, x[0]),
    lambda x: x.clamp(min=x, max=None),
    lambda m, x: m.unique(x, sorted=None),
    lambda x: x.unique(return_inverse=1),
    lambda x: x.unique(dim=1.5),
    lambda x: x.unique(dim=0, return_counts=None),
    lambda m, x: m.unique_consecutive(x, return_counts=1),
    lambda m, x: m.unique_consecutive(x, dim="a"),
    lambda m, x: m.tensordot(x, x, None),
    lambda m, x: m.tensordot(x, x, 1.5),
    lambda m, x: m.tensordot(x, x, [1]),
    lambda m, x: m.tensordot(x, x, (1, 1)),
    lambda m, x: m.tensordot(x, x, (None, 1)),
    lambda m, x: m.tensordot(x, x, m.tensor([1, 1, 1])),
    lambda m, x: m.einsum(None, x),
    lambda m, x: m.einsum(("ij->ji",), x),
    lambda x: x.reshape(1, *x.shape).t_(),
)


def _told(m: Any, calls: Iterable[Callable[..., Any]]) -> dict[str, list[str]]:
    """What each call raises, under the text of the call."""
    values = {"m": m, "F": m.nn.functional, "x": m.ones(2, 3), "i": m.tensor([0, 1])}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {text_of(call): first_line(given(call, **values)) for call in calls}


for _name, _calls in {
    "positions": POSITIONS,
    "counts": COUNTS,
    "overloads": OVERLOADS,
    "sizes": SIZES,
    "functional": FUNCTIONAL,
    "numbers_and_none": NUMBERS_AND_NONE,
    "empty": EMPTY,
    "others": OTHERS,
}.items():
    _told_of = functools.partial(_told, calls=_calls)
    _told_of.__name__ = _name
    program(_told_of)


@program
def names_that_no_call_writes_out(m):
    x = m.ones(2, 3)
    named = {"dim": "a"}
    calls = [lambda: x.argmax(**named), lambda: m.add(*(x, "a")), lambda: x.softmax(**named)]
    return [complaint(call)[0] for call in calls]


@program
def older_overloads(m):
    x = m.ones(2, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [
            complaint(lambda: x.add("a", x)),
            complaint(lambda: m.add(x, 2, "a")),
            complaint(lambda: m.addmm(2, x, "a", x)),
            complaint(lambda: m.add(x, x, 2)),
            complaint(lambda: m.add(2, x, x)),
            complaint(lambda: x.add(x, 2)),
            complaint(lambda: m.addcmul(x, x, 2, x)),
            complaint(lambda: x.addmm(2, 3, x)),
            complaint(lambda: m.addmm(2, 3, x, x)),
            complaint(lambda: m.addmm(2, x, 3, x, m.ones(3))),
            m.add(x, 2, x),
            m.add(2, 3, x),
            m.add(2, 3, 4),
            x.add(2, x),
            x.addcmul(2, x, x),
            x.addmm(2, 3, x, x),
            m.addmm(2, x, x, x),
        ]


@program
def every_older_overload(m):
    """In functions, as methods and in place."""
    x, row, batch = m.ones(2, 2), m.ones(2), m.ones(3, 2, 2)
    calls = {
        "addmm": lambda: m.addmm(2, x, 3, x, x),
        "addmm without alpha": lambda: m.addmm(2, x, x, x),
        "addmv": lambda: m.addmv(2, row, 3, x, row),
        "addr": lambda: m.addr(2, x, 3, row, row),
        "addbmm": lambda: m.addbmm(2, x, 3, batch, batch),
        "baddbmm": lambda: m.baddbmm(2, batch, 3, batch, batch),
        "addcdiv": lambda: m.addcdiv(x, 2, x, x),
        "sub": lambda: m.sub(x, 2, x),
        "a method in place": lambda: m.ones(2, 2).addmm_(2, 3, x, x),
        "add_ of a method": lambda: m.ones(2, 2).add_(2, x),
        "a number that is no older overload": lambda: m.subtract(x, 2, 3),
        "out beside it": lambda: m.add(x, 2, x, out=m.zeros(2, 2)),
    }
    found = {}
    for label, call in calls.items():
        with warnings.catch_warnings(record=True):
            warnings.simplefilter("always")
            found[label] = call()
    return found


OWN_WORDS = (
    lambda x: x.add(1, 2, 3),
    lambda F, x: F.batch_norm(x, None, None, training=True, momentum=1j),
    lambda F, x, i: F.cross_entropy(x, i, label_smoothing="a"),
    lambda x: x.topk(k="a"),
    lambda m, x: m.topk(x, k="a"),
    lambda m, x: m.topk(x, 1, sorted=1),
    lambda x: x.add_(other="a"),
    lambda m, x: m.cat([x], dim="a"),
    lambda m, x: m.clamp(x, min="a", max=2),
    lambda x: x.sum(dim="a"),
    lambda x: x.sort(dim="a"),
    lambda x: x.flip(dims=5),
    lambda x: x.prod(dim=None),
    lambda x: x.prod(axis=None),
    lambda F, x: F.softmax(x, "a"),
    lambda F, x: F.log_softmax(x, "a"),
    lambda F, x: F.softmin(x, "a"),
    lambda F: F.softmax("a", 1),
    lambda F, x: F.cross_entropy(x, "a"),
    lambda F, x, i: F.cross_entropy(x, i, weight="a"),
    lambda F, x, i: F.nll_loss(x, i, "a"),
    lambda F, x: F.mse_loss(x, "a"),
    lambda F, x: F.mse_loss(x, None),
    lambda F, x: F.l1_loss("a", x),
    lambda F, x: F.smooth_l1_loss(x, "a"),
    lambda F, x: F.huber_loss(x, "a"),
    lambda F, x: F.binary_cross_entropy(x, "a"),
    lambda F, x: F.binary_cross_entropy_with_logits(x, "a"),
    lambda F, x: F.margin_ranking_loss(x, x, "a"),
    lambda F, i: F.embedding(i, "a"),
    lambda F, x: F.embedding("a", x),
    lambda F, x: F.batch_norm(x, "a", "a"),
    lambda F: F.normalize("a"),
    lambda F: F.glu("a"),
    lambda F: F.tanh("a"),
    lambda F: F.tanhshrink("a"),
    lambda F: F.logsigmoid("a"),
    lambda F, x: F.leaky_relu(x, "a"),
    lambda F, x: F.elu(x, "a"),
    lambda F, x: F.grid_sample(x, "a"),
    lambda F: F.interpolate("a", 2),
    lambda F, x: F.pad(x, (1, 1), "constant", "a"),
    lambda m, x: m.nn.CrossEntropyLoss()(x, "a"),
    lambda m: m.nn.Softmax(1)("a"),
    lambda m: m.nn.Embedding(3, 2)("a"),
    lambda m, x: m.nn.MSELoss()(x, "a"),
)
"""Not promised in torch's words: whether an argument came by name, and which inner function complained."""


def test_the_error_is_about_an_argument_of_the_function():
    for call, (kind, text) in _told(tg, OWN_WORDS).items():
        about = r"\w+\(\)(: argument '\w+'.* must be .*, not \w+| received an invalid combination of arguments - got)"
        assert kind == "TypeError", call
        assert re.match(about, text), (call, text)


def test_the_table_says_what_torch_says():
    torch = live_torch()
    written = Path(parser.__file__).with_name("signatures.txt").read_text().splitlines(True)
    if torch is None or torch.__version__.partition("+")[0] not in written[0]:
        pytest.skip("needs the torch that the table was made with")
    from compat_suite.signatures import lines

    assert lines() == written[1:]


def test_every_line_of_the_table_is_understood():
    for where in parser.names():
        assert parser.signatures(where) is not None


def test_what_is_not_in_the_table_is_not_judged():
    assert parser.torch_complaint("torch.nothing", "nothing", (), {}) is None
