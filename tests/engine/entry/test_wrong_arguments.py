"""Calls with wrong arguments: the class and the text of what torch raises, overloads and all."""

from __future__ import annotations

import functools
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import torchgrad_jax as tg
from tests.differential import live_torch
from tests.programs import Programs, complaint, first_line
from torchgrad_jax._engine.entry import parser

program = Programs()
test_same_as_torch = pytest.mark.long("numbers_and_none")(program.test())

POSITIONS = """
x.flatten(True)
x.flatten(0, False)
x.narrow(1, 0, True)
x.rot90(1.5)
x.rot90(True)
x.select(0, 1) is x.select(0, True)
x.transpose(0, 1) is x.transpose(False, 1)
x.diagonal(0, 0, 1) is x.diagonal(0, False, 1)
x.unfold(0, 1, 1) is x.unfold(0, 1, True)
x.chunk(True)
x.diff(True)
x.cov(correction=1.5)
x.quantile(0.5, 1, 1)
x.nanquantile(0.5, 1, None)
x.fill_diagonal_(1.0, 1)
x.as_strided((1,), (1,), 1.5)
x.addmm(x, x, beta=(0,))
x.addmm(x, x, alpha='a')
x.dist(x, 'a')
x.dist(x, ())
x.renorm(float('nan'), 0, 1.0)
x.renorm(2, 0, float('nan'))
x.movedim((0,), 1)
torch.combinations(x[0], 2, 1)
torch.vander(x[0], True)
torch.bincount(i, minlength=1.5)
torch.cdist(x, x, float('nan'))
torch.linalg.matrix_power(x, True)
torch.fft.fft(x, 2, False)
torch.fft.rfft(x, True)
x.topk('a')
x.transpose('a', 1)
x.unsqueeze('a')
x.chunk('a')
x.gather('a', i)
x.index_select(0, 'a')
x.argmax('a')
x.cumsum('a')
x.softmax('a')
torch.softmax(x, 'a')
torch.topk(x, 'a')
torch.topk(x, None)
torch.topk(x, True)
torch.argmax(x, 0, None)
x.add_('a')
x.sub_(None)
x.mul_([1])
torch.add(x, 'a')
torch.add(x, 1, alpha='a')
x.relu_(1)
x.masked_fill_(x, 0.0)
x.index_fill_('a', i, 1)
torch.linalg.norm(x, 'a', 'b')
torch.linalg.solve(x, 'a')
torch.fft.fft(x, 'a')
torch.special.xlogy('a', x)
torch.sin('a')
torch.sin(x, out='a')
torch.sin('a', out=x)
torch.cat([x, 1])
torch.cat(x)
torch.hstack(x)
torch.stack([x, None])
torch.Tensor.sin(5)
torch.Tensor.topk()
"""
COUNTS = """
torch.add(x)
torch.add()
torch.add(x, 1, 2, 3)
torch.add(x, other=1, foo=2)
x.add()
x.add_()
torch.sin()
torch.sin(x, x)
torch.sin(x, foo=1)
x.sin(1)
x.sin(foo=1)
x.zero_(1)
x.pow_()
x.pow_(1, 2)
x.scatter_()
x.div_()
x.square_(1)
x.float_power_(1, 2, 3)
x.index_put_()
x.cpu(None)
x.contiguous(None)
x.contiguous(memory_format=None)
torch.as_tensor(x, torch.float32)
torch.nn.functional.one_hot()
torch.topk()
torch.topk(x, 1, 2, True, True, 6)
x.topk(1, 2, True, True, 6)
x.topk(1, k=2)
x.softmax()
torch.softmax(x)
torch.lerp(x, x)
torch.tensor()
torch.full((2,))
torch.can_cast(torch.float32)
torch.matmul(x)
torch.addmm(x, x)
x.transpose(0)
x.sum(axis=0, dim=1)
x.sum(dim=0, foo=1)
torch.sum(x, axis=0, dim=1)
torch.nn.functional.linear(x)
torch.nn.functional.scaled_dot_product_attention(x, x)
"""
OVERLOADS = """
torch.where(x > 0, 'a', x)
torch.where('a', x, x)
torch.where(x > 0, x)
torch.isin('a', x)
torch.isin(x, 'a', assume_unique=True)
torch.clamp(x, 'a')
x.clamp_('a')
x.masked_fill(x > 0, 'a')
x.scatter(0, i, 'a')
x.scatter_(0, i, 'a')
x.pow('a')
x.pow_('a')
x.div_('a')
x.div(2, rounding_mode=1)
x.std('a')
x.var(dim='a')
x.var(dim=0.5)
x.std(dim=[0, 'a'])
x.quantile('a')
x.quantile(0.5, dim='a')
x.max(dim=None)
x.min(dim=None)
x.median(dim=None)
torch.max(x, None)
x.sum('a')
x.sum('a', 'b')
x.mean('a')
x.squeeze('a')
x.sort('a')
torch.bernoulli(x, None)
torch.searchsorted(x, 'a')
torch.rand(2, generator=5)
torch.randn(2, generator=5)
torch.normal('a', x)
torch.device(5.5)
torch.bitwise_and(x, 'a')
torch.full_like(x, 'a')
x.sum(dtype=np.dtype('float64'))
x.sum(dtype=np.array([1, 2]))
torch.softmax(x, 0, dtype=np.array([1, 2]))
x.to(np.dtype('float64'))
x.to(np.array([1, 2]))
"""
SIZES = """
x.view('a')
x.view(2.5)
x.view()
x.view(1, 'a')
x.reshape('a')
x.permute('a')
x.expand('a')
x.repeat('a')
x.flip('a')
x.flip(1, 'a')
torch.flip(x, 5)
torch.flip(x, 0, 1)
torch.flip(x, [True])
torch.permute(x, 0, 1)
torch.zeros('a')
torch.zeros(2, 'a')
torch.zeros((2, 2.5))
torch.roll(x)
torch.sum(x, [True])
torch.broadcast_tensors(x, 1)
torch.meshgrid(1)
"""
FUNCTIONAL = """
F.relu('a')
F.relu()
F.linear(x, 'a')
F.conv1d(x, 'a')
F.conv2d('a', x)
F.layer_norm(x, 'a')
"""
OTHERS = """
torch.dtype('a')
torch.load(5)
torch.einsum(x, x)
torch.einsum('ij', 1)
torch.equal(x, 1)
torch.result_type(x, 'a')
torch.from_numpy([1])
torch.randint(5)
torch.arange()
torch.polygamma(x, 1)
"""

EMPTY = """
torch.zeros(1, 0).index_select(0, i)
torch.zeros(0, 3).index_select(0, i)
torch.zeros(0, 1).index_select(1, i)
torch.zeros(2, 0).index_select(0, i).shape
torch.zeros(0).index_select(0, i)
torch.zeros(1, 0).index_add(1, i, torch.zeros(1, 2)).shape
F.embedding(i, torch.zeros(1, 0))
F.embedding(i, torch.zeros(0, 3))
F.embedding(i, torch.zeros(0, 3), max_norm=1.0)
F.embedding(i * 5, torch.zeros(2, 3), max_norm=1.0)
torch.zeros(1, 0).index_reduce(0, i, torch.zeros(2, 0), 'prod')
torch.zeros(0, 3).index_reduce(0, i, torch.zeros(2, 3), 'prod')
torch.zeros(0).index_reduce(0, i, torch.zeros(2), 'prod')
"""
NUMBERS_AND_NONE = """
torch.add(1, 2)
torch.add(1.5, True)
torch.add(True, False)
torch.add(1, 2, alpha=3)
torch.sub(2j, 3)
torch.sub(True, 2)
torch.subtract(1, 2, 3)
torch.mul(1.5, 2)
torch.multiply(True, False)
torch.div(1, 2)
torch.div(7, 2, rounding_mode='floor')
torch.true_divide(1, 2)
torch.divide(True, False)
torch.floor_divide(7, 2)
torch.floor_divide(True, False)
torch.pow(1, 2)
torch.eq(1, 2)
torch.Tensor.add(1, 2)
torch.add(x, x, alpha=None)
x.add(x, alpha=None)
x.clone().sub_(x, alpha=None)
torch.addcmul(x, x, x, value=None)
x.addcdiv(x, x, value=None)
x.round(decimals=None)
torch.special.round(x, decimals=None)
torch.prod(x, None)
x.prod(None, True)
x.var(unbiased=None)
x.std(0, None)
x.std(unbiased=False, keepdim=True)
torch.var_mean(x, unbiased=None)
x.std(None, False, True)
x.renorm(2, 0, None)
torch.renorm(x, None, 0, 1)
torch.clamp(x, 0, x)
x.clamp(x, 1)
x.clone().clamp_(0, x)
x.index_put(i, x[0])
torch.index_put(x, i, x[0])
x.clone().index_put_(i, x[0])
x.clamp(min=x, max=None)
torch.unique(x, sorted=None)
x.unique(return_inverse=1)
x.unique(dim=1.5)
x.unique(dim=0, return_counts=None)
torch.unique_consecutive(x, return_counts=1)
torch.unique_consecutive(x, dim='a')
torch.tensordot(x, x, None)
torch.tensordot(x, x, 1.5)
torch.tensordot(x, x, [1])
torch.tensordot(x, x, (1, 1))
torch.tensordot(x, x, (None, 1))
torch.tensordot(x, x, torch.tensor([1, 1, 1]))
torch.einsum(None, x)
torch.einsum(('ij->ji',), x)
x.reshape(1, *x.shape).t_()
"""


def _told(m: Any, calls: str) -> dict[str, list[str]]:
    x, i = m.ones(2, 3), m.tensor([0, 1])
    names = {"torch": m, "F": m.nn.functional, "np": np, "x": x, "i": i}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {c: first_line(lambda c=c: eval(c, names)) for c in calls.strip().splitlines()}


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


OWN_WORDS = """
x.add(1, 2, 3)
F.batch_norm(x, None, None, training=True, momentum=1j)
F.cross_entropy(x, i, label_smoothing='a')
x.topk(k='a')
torch.topk(x, k='a')
torch.topk(x, 1, sorted=1)
x.add_(other='a')
torch.cat([x], dim='a')
torch.clamp(x, min='a', max=2)
x.sum(dim='a')
x.sort(dim='a')
x.flip(dims=5)
x.prod(dim=None)
x.prod(axis=None)
F.softmax(x, 'a')
F.log_softmax(x, 'a')
F.softmin(x, 'a')
F.softmax('a', 1)
F.cross_entropy(x, 'a')
F.cross_entropy(x, i, weight='a')
F.nll_loss(x, i, 'a')
F.mse_loss(x, 'a')
F.mse_loss(x, None)
F.l1_loss('a', x)
F.smooth_l1_loss(x, 'a')
F.huber_loss(x, 'a')
F.binary_cross_entropy(x, 'a')
F.binary_cross_entropy_with_logits(x, 'a')
F.margin_ranking_loss(x, x, 'a')
F.embedding(i, 'a')
F.embedding('a', x)
F.batch_norm(x, 'a', 'a')
F.normalize('a')
F.glu('a')
F.tanh('a')
F.tanhshrink('a')
F.logsigmoid('a')
F.leaky_relu(x, 'a')
F.elu(x, 'a')
F.grid_sample(x, 'a')
F.interpolate('a', 2)
F.pad(x, (1, 1), 'constant', 'a')
torch.nn.CrossEntropyLoss()(x, 'a')
torch.nn.Softmax(1)('a')
torch.nn.Embedding(3, 2)('a')
torch.nn.MSELoss()(x, 'a')
"""
"""Not promised in torch's words: whether an argument came by name, and which inner function complained."""


def test_the_error_is_about_an_argument_of_the_function():
    for call, (kind, text) in _told(tg, OWN_WORDS).items():
        about = r"\w+\(\)(: argument '\w+'.* must be .*, not \w+| received an invalid combination of arguments - got)"
        assert kind == "TypeError", call
        assert re.match(about, text), (call, text)


@pytest.mark.long
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
