"""Calls that are refused because of values raise PyTorch's error in eager code, and the same in a compiled function.

Neither has written anything then, not even to the tensor that the call writes to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import torchgrad_jax as torch
from tests.programs import Programs, complaint

program = Programs()
test_same_as_torch = program.test()
Call = tuple[Callable[..., Any], list[Any]]


def written(name: str, *args: Any, **options: Any) -> Callable[..., Any]:
    """A method that writes to its tensor, called after an addition to it."""
    return lambda x, *tensors: getattr(x.add_(1), name)(*args, *tensors, **options)


def places(m: Any) -> dict[str, Call]:
    """Indices that are none."""
    x, two, nn = m.arange(12.0).reshape(4, 3), m.ones(2, 3), m.nn.functional
    calls: dict[str, Call] = {}
    for dtype in (m.int64, m.int32):
        kind = str(dtype).rsplit(".", maxsplit=1)[-1]
        at, row = m.tensor([0, 9], dtype=dtype), m.tensor([[0, 9, 1]], dtype=dtype)
        negative = m.tensor([0, -5], dtype=dtype)
        named: dict[str, Call] = {
            "x[i]": (lambda x, i: x[i], [x, at]),
            "x[i], negative": (lambda x, i: x[i], [x, negative]),
            "x[:, i]": (lambda x, i: x[:, i], [x, at]),
            "x[i, i]": (lambda x, i: x[i, i], [x, at]),
            "x[i] = 1": (lambda x, i: x.add_(1).__setitem__(i, 1.0), [x, at]),
            "index_put_": (lambda x, i, v: x.index_put_((i,), v, accumulate=True), [x, at, two]),
            "index_select": (lambda x, i: x.index_select(0, i), [x, at]),
            "index_select of columns": (lambda x, i: x.index_select(1, i), [x, at]),
            "index_fill_": (lambda x, i: x.index_fill_(0, i, 2.0), [x, at.long()]),
            "index_copy_": (written("index_copy_", 0), [x, at.long(), two]),
            "index_add_": (written("index_add_", 0), [x, at, two]),
            "index_add_ of elements": (written("index_add_", 0), [x[:, 0].clone(), at, two[:, 0]]),
            "gather": (lambda x, i: x.gather(1, i), [x, row.long()]),
            "take": (lambda x, i: x.take(i), [x, 2 * row.long()]),
            "take_along_dim": (lambda x, i: x.take_along_dim(i), [x, 2 * row.long()]),
            "put_": (lambda x, i: x.put_(i, x[0] * 2), [x, 2 * row[0].long()]),
            "embedding": (nn.embedding, [at, x]),
            "embedding, renormed": (lambda i, w: nn.embedding(i, w, max_norm=1.0), [at, x]),
            "embedding_bag": (nn.embedding_bag, [at[None], x]),
            "embedding_bag, largest": (lambda i, w: nn.embedding_bag(i, w, mode="max"), [at[None], x]),
            "embedding_bag of doubles": (nn.embedding_bag, [at[None], x.double()]),
            "embedding_bag, padded": (lambda i, w: nn.embedding_bag(i, w, padding_idx=1), [at[None], x]),
            "embedding_bag, offsets": (nn.embedding_bag, [at * 0, x, at]),
            "embedding_bag, first offset": (nn.embedding_bag, [at * 0, x, at * 0 + 1]),
            "one_hot": (lambda i: nn.one_hot(i, 3), [at.long()]),
            "one_hot, negative": (lambda i: nn.one_hot(i, 3), [negative.long()]),
            "max_unpool1d": (lambda x, i: nn.max_unpool1d(x, i, 2), [two[None], at.long().expand(3, 2).mT[None]]),
            "max_unpool2d": (lambda x, i: nn.max_unpool2d(x, i, 2), [two[None], row.long().expand(2, 3)[None] * 9]),
            "max_unpool3d of other integers": (
                lambda x, i: nn.max_unpool3d(x, i, 2),
                [two[None, None], row.expand(2, 3)[None, None] * 11],
            ),
        }
        calls |= {f"{name}, {kind}": call for name, call in named.items()}
    i = m.tensor([[0, 9, 1]])
    for reduce in ("sum", "prod", "mean", "amax", "amin"):
        calls[f"scatter_reduce_, {reduce}"] = (lambda x, i, v, r=reduce: x.scatter_reduce_(0, i, v, r), [x, i, two])
        if reduce != "sum":
            calls[f"index_reduce_, {reduce}"] = (
                lambda x, i, v, r=reduce: x.index_reduce_(0, i, v, r),
                [x, i[0, :2], two],
            )
    return calls | {
        "scatter_": (written("scatter_", 0), [x, i, two]),
        "scatter_ of a number": (lambda x, i: x.scatter_(0, i, 2.0), [x, i]),
        "scatter_, multiplied": (lambda x, i: x.scatter_(0, i, 2.0, reduce="multiply"), [x, i]),
        "scatter_add_": (written("scatter_add_", 0), [x, i, two]),
        "searchsorted": (lambda x, i: m.searchsorted(x, x, sorter=i), [x[0], i[0]]),
        "masked_scatter_": (lambda x, v: x.masked_scatter_(x > 3, v), [x, two]),
    }


def targets(m: Any) -> dict[str, Call]:
    """Classes that there are not."""
    x, nn, t = m.arange(12.0).reshape(4, 3), m.nn.functional, m.tensor([0, 1, 2, 3])
    weight = m.ones(3)
    return {
        "nll_loss": (nn.nll_loss, [x, t]),
        "nll_loss, negative": (nn.nll_loss, [x, t - 1]),
        "nll_loss of an image": (lambda x, t: nn.nll_loss(x[None, :, None], t[None, None]), [x, t[1:] + 1]),
        "cross_entropy": (nn.cross_entropy, [x, t]),
        "cross_entropy, smooth": (lambda x, t: nn.cross_entropy(x, t, label_smoothing=0.1), [x, t]),
        "cross_entropy, weighted": (lambda x, t: nn.cross_entropy(x, t, weight, reduction="none"), [x, t]),
        "cross_entropy, another ignored": (lambda x, t: nn.cross_entropy(x, t, ignore_index=0), [x, t]),
        "multi_margin_loss": (nn.multi_margin_loss, [x, t]),
        "multilabel_margin_loss": (nn.multilabel_margin_loss, [x[:1], t[None, 1:]]),
        "a loss after a step": (lambda w, x, t: nn.cross_entropy(x * w.mul_(2), t), [weight, x, t]),
    }


def divisions(m: Any) -> dict[str, Call]:
    """Integers divided by zero."""
    calls: dict[str, Call] = {}
    for dtype in (m.int64, m.uint8, m.int16):
        x, y = m.tensor([1, 2], dtype=dtype), m.tensor([1, 0], dtype=dtype)
        named = {
            "remainder": m.remainder,
            "fmod": m.fmod,
            "floor_divide": m.floor_divide,
            "x % y": lambda x, y: x % y,
            "5 // y": lambda x, y: 5 // y,
            "5 % y": lambda x, y: 5 % y,
            "div": lambda x, y: m.div(x, y, rounding_mode="trunc"),
            "div_": lambda x, y: x.add_(1).div_(y, rounding_mode="floor"),
            "remainder_": lambda x, y: x.add_(1).remainder_(y),
            "by a computed zero": lambda x, y: x // (y - y.max()),
        }
        calls |= {f"{name}, {dtype}".replace("torch.", ""): (f, [x, y]) for name, f in named.items()}
    return calls


def factorizations(m: Any) -> dict[str, Call]:
    """Matrices without factors or inverse."""
    eye, linalg = m.eye(3), m.linalg
    zero, negative = (m.stack([eye, 0 * eye]), m.stack([eye, eye - 2 * m.diag(m.tensor([0, 0, 1.0]))]))
    infinite = m.full((3, 3), float("inf"))
    right = m.ones(3, 2)
    singular = {
        "inv": linalg.inv,
        "solve": lambda a: linalg.solve(a, right),
        "lu_factor": linalg.lu_factor,
        "matrix_power": lambda a: linalg.matrix_power(a, -2),
        "inv_ex": lambda a: linalg.inv_ex(a, check_errors=True),
        "lu_factor_ex": lambda a: linalg.lu_factor_ex(a, check_errors=True),
        "solve_ex": lambda a: linalg.solve_ex(a, right, check_errors=True),
        "cholesky_inverse": m.cholesky_inverse,
    }
    definite = {
        "linalg.cholesky": linalg.cholesky,
        "cholesky": m.cholesky,
        "upper": lambda a: linalg.cholesky(a, upper=True),
        "cholesky_ex": lambda a: linalg.cholesky_ex(a, check_errors=True),
        "after a write": lambda a: linalg.cholesky(a.mul_(2)),
    }
    calls: dict[str, Call] = {}
    for dtype in (m.float32, m.float64, m.complex64):
        kind = str(dtype).rsplit(".", maxsplit=1)[-1]
        for which in (0, 1):  # one matrix, or the second of a batch
            part = (lambda a: a[1]) if which == 0 else (lambda a: a)
            more = f"{kind}, {'batch' if which else 'one'}"
            right = right.to(dtype)
            calls |= {
                f"{n}, {more}": (f, [part(zero).to(dtype)]) for n, f in singular.items() if not (which and n == "solve")
            }
            calls |= {f"{n}, {more}": (f, [part(negative).to(dtype)]) for n, f in definite.items()}
        calls |= {f"{n}, {kind}, infinite": (f, [infinite.to(dtype)]) for n, f in definite.items()}
    nan = m.full((3, 3), float("nan"))
    return calls | {
        "svdvals of NaN": (linalg.svdvals, [nan]),
        "eigh of NaN": (linalg.eigh, [nan]),
        "eig of NaN": (linalg.eig, [nan]),
        "cholesky of NaN": (linalg.cholesky, [nan]),
    }


def chances(m: Any) -> dict[str, Call]:
    """Probabilities, weights, deviations and rates out of range."""
    nn, D, half = m.nn.functional, m.distributions, m.full((2,), 0.5)
    unit = {
        "bernoulli": m.bernoulli,
        "bernoulli_": lambda p: m.zeros(2).bernoulli_(p),
        "binary_cross_entropy": lambda p: nn.binary_cross_entropy(p, half),
        "binary_cross_entropy, targets": lambda p: nn.binary_cross_entropy(half, p),
        "quantile": lambda p: m.quantile(m.arange(3.0), p),
        "nanquantile": lambda p: m.nanquantile(m.arange(3.0), p),
        "Bernoulli": lambda p: D.Bernoulli(p).mean,
        "Geometric": lambda p: D.Geometric(p).mean,
        "Binomial": lambda p: D.Binomial(3, p).mean,
        "ContinuousBernoulli": lambda p: D.ContinuousBernoulli(p, validate_args=True).mean,
        "support": lambda p: D.Uniform(half * 0, half).log_prob(p),
        "support of an event": lambda p: D.Independent(D.Beta(half, half), 1).log_prob(p),
    }
    positive = {
        "multinomial": lambda p: m.multinomial(p, 1),
        "multinomial, repeated": lambda p: m.multinomial(p, 3, replacement=True),
        "multinomial, rows": lambda p: m.multinomial(p.expand(2, 2), 1),
        "poisson": m.poisson,
        "normal": lambda p: m.normal(0.0, p),
        "normal, means": lambda p: m.normal(p, p),
        "gaussian_nll_loss": lambda p: nn.gaussian_nll_loss(half, half, p),
        "Categorical": lambda p: D.Categorical(p).probs,
        "Normal": lambda p: D.Normal(half, p).mean,
        "Gamma": lambda p: D.Gamma(half, p).mean,
        "Dirichlet": lambda p: D.Dirichlet(p).mean,
        "Uniform": lambda p: D.Uniform(half, p).mean,
        "Poisson": lambda p: D.Poisson(p).mean,
    }
    calls: dict[str, Call] = {}
    for dtype in (m.float32, m.float64):
        bad = m.tensor([0.5, 1.5], dtype=dtype), m.tensor([0.5, -0.5], dtype=dtype)
        for p, table in zip(bad, (unit, positive)):
            half = half.to(dtype)
            kind = str(dtype).rsplit(".", maxsplit=1)[-1]
            calls |= {f"{name}, {kind}": (f, [p]) for name, f in table.items()}
            calls |= {f"Geometric of no chance, {kind}": (lambda p: D.Geometric(p - p).mean, [p])}
    inf, more = m.tensor([1.0, float("inf")]), m.tensor([3.0, 4.0])
    return calls | {
        "weights of nothing": (lambda p: m.multinomial(p, 1), [m.zeros(2)]),
        "infinite weights": (lambda p: m.multinomial(p, 1), [inf]),
        "infinite weights, repeated": (lambda p: m.multinomial(p, 3, replacement=True), [inf]),
        "divergence": (lambda n: D.kl_divergence(D.Binomial(4 - n, half), D.Binomial(3, half)), [more]),
        "histc": (m.histc, [inf]),
        "histogram": (lambda x: m.histogram(x, 3).hist, [inf]),
    }


SUBJECTS = (places, targets, divisions, factorizations, chances)


def first_line(run: Callable[..., Any], args: list[Any]) -> list[str]:
    kind, text = complaint(lambda: run(*args))
    return [kind, text.split("\n")[0]]


def untouched(table: Callable[[Any], dict[str, Call]], name: str, args: list[Any]) -> bool:
    """Whether arguments are as they were made, to the version."""
    made = table(torch)[name][1]
    return all(torch.equal(a.nan_to_num(7), b.nan_to_num(7)) and a._version == b._version for a, b in zip(args, made))


def of_all(table: Callable[[Any], dict[str, Call]]) -> Callable[[Any], Any]:
    """A program that makes all calls of a subject in eager code."""

    def calls(m: Any) -> dict[str, list[str]]:
        return {name: first_line(f, args) for name, (f, args) in table(m).items()}

    calls.__name__ = f"refused_{table.__name__}"
    return calls


for subject in SUBJECTS:
    program(of_all(subject))

NAMES = [(table, name) for table in SUBJECTS for name in table(torch)]


@pytest.mark.filterwarnings("ignore:index_reduce", "ignore:.*cholesky")
@pytest.mark.parametrize(("table", "name"), NAMES, ids=[f"{t.__name__}-{n}" for t, n in NAMES])
def test_a_compiled_call_is_refused_alike(table: Callable[[Any], dict[str, Call]], name: str):
    f, args = table(torch)[name]
    wanted = first_line(f, args)
    assert wanted[0] != "nothing"
    run, args = torch.compile(f), table(torch)[name][1]
    for _ in range(2):
        assert first_line(run, args) == wanted
        assert untouched(table, name, args)
