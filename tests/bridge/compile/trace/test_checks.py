"""A compiled function raises what the function raises for values out of place, and has written nothing then."""

from typing import Any

import numpy as np
import pytest

import torchgrad_jax as torch
from torchgrad_jax._ops.registry import TABLE

leaves = torch.utils._pytree.tree_leaves
F, linalg, D = torch.nn.functional, torch.linalg, torch.distributions

M = torch.arange(12.0).reshape(4, 3)
TWO, PLACES = torch.ones(2, 3), torch.tensor([0, 1])
INF = torch.full((2, 2), float("inf"))
MASK = torch.tensor([True, True])


def ints(*values, kind=torch.int64):
    return torch.tensor(values, dtype=kind)


ROWS = {
    "_convert_indices_from_coo_to_csr": (lambda i: torch._convert_indices_from_coo_to_csr(i, 3), ints(0, 3),
                                         ints(0, 2)),
    "_ctc_loss": (lambda t: F.ctc_loss(torch.zeros(4, 2, 3), t, (4, 4), (2, 1)), ints(1, 2, 3, 0).reshape(2, 2),
                  ints(1, 2, 2, 9).reshape(2, 2)),
    "_linalg_eigh": (linalg.eigvalsh, INF, torch.eye(2)),
    "_linalg_svd": (linalg.svdvals, INF, torch.eye(2)),
    "binary_cross_entropy": (lambda p: F.binary_cross_entropy(p, torch.ones(2)), torch.tensor([0.5, 1.5]),
                             torch.tensor([0.0, 1.0])),
    "cholesky_inverse": (torch.cholesky_inverse, torch.zeros(2, 2), torch.eye(2)),
    "div_mode": (lambda y: torch.div(PLACES, y, rounding_mode="trunc"), ints(1, 0), ints(1, 2)),
    "embedding": (lambda i: F.embedding(i, M), ints(0, -1), ints(0, 3)),
    "embedding_bag": (lambda i: F.embedding_bag(i, M, ints(0)), ints(0, 4), ints(0, 3)),
    "embedding_renorm": (lambda i: F.embedding(i, M.clone(), max_norm=1.0), ints(0, 7), ints(0, 3)),
    "floor_divide": (lambda y: PLACES // y, ints(1, 0), ints(-1, 2)),
    "fmod": (lambda y: torch.fmod(PLACES, y), ints(1, 0), ints(-1, 2)),
    "gather": (lambda i: M.gather(0, i), ints(4).reshape(1, 1), ints(3).reshape(1, 1)),
    "histc": (torch.histc, torch.tensor([float("nan"), 1.0]), torch.tensor([0.0, 1.0])),
    "histogram_bin_ct": (lambda x: torch.histogram(x, 3).hist, torch.tensor([float("inf"), 1.0]),
                         torch.tensor([0.0, 1.0])),
    "histogram_edges": (lambda x: torch.histogramdd(x[:, None], [3]).hist, torch.tensor([float("inf"), 1.0]),
                        torch.tensor([0.0, 1.0])),
    "index": (lambda i: M[:, i], ints(1, 7), ints(1, -3)),
    "index_add": (lambda i: M.index_add(0, i, TWO), ints(0, 4), ints(0, 3)),
    "index_copy": (lambda i: M.index_copy(0, i, TWO), ints(0, -1), ints(0, 3)),
    "index_fill": (lambda i: M.index_fill(0, i, 1.0), ints(0, 4), ints(0, -1)),
    "index_put": (lambda i: M.index_put((i,), TWO), ints(0, 4), ints(0, -1)),
    "index_reduce": (lambda i: M.index_reduce(0, i, TWO, "amax"), ints(0, 4), ints(0, 3)),
    "index_select": (lambda i: M.index_select(1, i), ints(0, 3), ints(0, 2)),
    "linalg_eig": (linalg.eigvals, INF, torch.eye(2)),
    "linalg_lu_solve": (lambda p: linalg.lu_solve(torch.eye(2), p, torch.ones(2, 1)), ints(1, 3, kind=torch.int32),
                        ints(2, 2, kind=torch.int32)),
    "linalg_matrix_rank": (linalg.matrix_rank, INF, torch.eye(2)),
    "linalg_matrix_sqrth": (linalg.matrix_sqrth, INF, torch.eye(2)),
    "linalg_polar": (lambda a: linalg.polar(a)[1], INF, torch.eye(2)),
    "linalg_pinv": (lambda a: linalg.pinv(a, hermitian=True), INF, torch.eye(2)),
    "lu_unpack": (lambda p: torch.lu_unpack(torch.eye(2), p), ints(1, 3, kind=torch.int32),
                  ints(1, 2, kind=torch.int32)),
    "masked_scatter": (lambda m: torch.zeros(2).masked_scatter(m, torch.ones(1)), MASK, ~MASK),
    "max_unpool2d_rows": (lambda i: F.max_unpool2d(torch.ones(1, 1, 1, 1), i, 2), ints(4).reshape(1, 1, 1, 1),
                          ints(3).reshape(1, 1, 1, 1)),
    "max_unpool3d_rows": (lambda i: F.max_unpool3d(torch.ones(1, 1, 1, 1, 1), i, 2), ints(8).reshape(1, 1, 1, 1, 1),
                          ints(7).reshape(1, 1, 1, 1, 1)),
    "multi_margin_loss": (lambda t: F.multi_margin_loss(M, t), ints(0, 1, 2, 3), ints(0, 1, 2, 2)),
    "multilabel_margin_loss": (lambda t: F.multilabel_margin_loss(M, t), ints(3, -1, 0).expand(4, 3),
                               ints(2, -1, 0).expand(4, 3)),
    "nll_loss": (lambda t: F.nll_loss(M, t), ints(0, 1, -1, 2), ints(0, 1, -100, 2)),
    "nll_loss2d": (lambda t: F.nll_loss(M.reshape(1, 4, 3, 1), t), ints(0, 1, 4).reshape(1, 3, 1),
                   ints(0, 1, 3).reshape(1, 3, 1)),
    "put": (lambda i: M.put(i, torch.ones(2)), ints(0, 12), ints(0, -12)),
    "quantile_places": (lambda q: torch.quantile(M, q), torch.tensor([0.1, 1.1]), torch.tensor([0.1, 1.0])),
    "remainder": (lambda y: PLACES % y, ints(1, 0), ints(-1, 2)),
    "scatter_add": (lambda i: M.scatter_add(0, i, TWO), ints(4).expand(1, 3), ints(3).expand(1, 3)),
    "scatter_reduce": (lambda i: M.scatter_reduce(0, i, TWO, "amax"), ints(4).expand(1, 3), ints(3).expand(1, 3)),
    "scatter_src": (lambda i: M.scatter(0, i, TWO), ints(-1).expand(1, 3), ints(3).expand(1, 3)),
    "scatter_value": (lambda i: M.scatter(0, i, 2.0), ints(4).expand(1, 3), ints(3).expand(1, 3)),
    "searchsorted": (lambda s: torch.searchsorted(torch.tensor([2.0, 1.0]), torch.tensor([1.5]), sorter=s),
                     ints(1, 2), ints(1, 0)),
    "take": (lambda i: M.take(i), ints(0, 12), ints(0, -12)),
}  # fmt: skip
"""Per row of the table that declares a check: a call, an argument that it refuses, and one that it takes."""

NO_VALUES = {"addcdiv", "triangular_solve"}
"""Rows whose check looks at dtypes, or only warns."""


def test_every_row_with_a_check_is_here():
    declared = {name for name, row in TABLE.items() if row.check is not None}
    assert declared == set(ROWS) | NO_VALUES


def refusal(f, *args):
    """Type and first line of what a call raises."""
    try:
        f(*args)
    except Exception as error:
        return type(error), str(error).split("\n")[0]
    raise AssertionError("nothing is raised")


@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize("name", ROWS)
def test_checks_of_rows(name):
    f, bad, good = ROWS[name]
    run = torch.compile(f)
    wanted = refusal(f, bad)
    assert [refusal(run, bad), refusal(run, bad)] == [wanted, wanted]
    for a, b in zip(leaves(f(good)), leaves(run(good)), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-6)
    assert run.counts["traced"] == 1


SINGULAR, NEGATIVE = torch.zeros(2, 2), -torch.eye(2)
COMPOSED = {
    "cholesky": (linalg.cholesky, NEGATIVE),
    "cholesky of a batch": (linalg.cholesky, torch.stack([torch.eye(2), NEGATIVE])),
    "cholesky_ex": (lambda a: linalg.cholesky_ex(a, check_errors=True), NEGATIVE),
    "inv": (linalg.inv, SINGULAR),
    "solve": (lambda a: linalg.solve(a, torch.ones(2)), SINGULAR),
    "lu_factor": (linalg.lu_factor, SINGULAR),
    "ldl_factor": (linalg.ldl_factor, SINGULAR),
    "matrix_power": (lambda a: linalg.matrix_power(a, -1), SINGULAR),
    "one_hot": (lambda i: F.one_hot(i, 3), ints(0, 3)),
    "one_hot, negative": (lambda i: F.one_hot(i, 3), ints(0, -3)),
    "cross_entropy": (lambda t: F.cross_entropy(M, t), ints(0, 1, 2, 3)),
    "index with a number": (lambda i: M[i], torch.tensor(4)),
    "divided by a number": (lambda x: x // 0, ints(1, 2)),
    "bernoulli": (torch.bernoulli, torch.tensor([0.5, 1.5])),
    "bernoulli_": (lambda p: torch.zeros(2).bernoulli_(p), torch.tensor([0.5, -0.5])),
    "multinomial": (lambda p: torch.multinomial(p, 1), torch.tensor([0.5, -0.5])),
    "multinomial of nothing": (lambda p: torch.multinomial(p, 1), torch.zeros(2)),
    "poisson": (torch.poisson, torch.tensor([-1.0, 1.0])),
    "normal": (lambda s: torch.normal(0.0, s), torch.tensor([-1.0, 1.0])),
    "gaussian_nll_loss": (lambda v: F.gaussian_nll_loss(v, v, v), torch.tensor([-1.0, 1.0])),
    "_assert_async": (lambda c: torch._assert_async(c, "no"), torch.tensor(False)),
    "_assert": (lambda c: torch._assert(c, "no"), torch.tensor(False)),
    "get_total_norm": (lambda g: torch.nn.utils.get_total_norm([g], error_if_nonfinite=True), INF),
    "index of an entry": (lambda i: M[0, i], torch.tensor(4)),
    "Normal": (lambda s: D.Normal(0.0, s).log_prob(s), torch.tensor([-1.0, 1.0])),
    "Normal, a number": (lambda s: D.Normal(0.0, s).log_prob(s), torch.tensor(-1.0)),
    "Bernoulli": (lambda p: D.Bernoulli(p).log_prob(p), torch.tensor([0.5, 1.5])),
    "Categorical": (lambda p: D.Categorical(p).log_prob(PLACES), torch.tensor([-0.5, 1.5])),
    "MultivariateNormal": (lambda c: D.MultivariateNormal(torch.zeros(2), c).log_prob(torch.zeros(2)), NEGATIVE),
    "support of Beta": (lambda x: D.Beta(TWO[0], TWO[0]).log_prob(x), torch.tensor([0.5, 0.5, 1.5])),
    "vmap": (torch.vmap(lambda i: M.take(i)), ints(0, 12)),
    "vmap, one of its arrays": (lambda i: torch.vmap(lambda r: r.take(i))(M), ints(0, 3)),
    "vmap of vmap": (torch.vmap(torch.vmap(lambda i: M.take(i))), ints(0, 1, 2, 12).reshape(2, 2)),
    "vmap of floats": (torch.vmap(linalg.cholesky), torch.stack([torch.eye(2), NEGATIVE])),
    "vmap of a loss": (torch.vmap(lambda x: F.binary_cross_entropy(x, x)), torch.tensor([[0.5], [1.5]])),
    "grad": (torch.func.grad(lambda a: linalg.inv(a).sum()), SINGULAR),
    "computed indices": (lambda x: M[x.sort().values.long()], torch.tensor([9.0, 1.0])),
    "of a compiled function": (torch.compile(lambda i: M.take(i)), ints(12)),
}
"""Functions that check values although no row does, or inside of transforms; and what they refuse."""


@pytest.mark.parametrize("name", COMPOSED)
def test_checks_of_functions(name):
    f, bad = COMPOSED[name]
    run = torch.compile(f)
    wanted = refusal(f, bad)
    assert [refusal(run, bad), refusal(run, bad)] == [wanted, wanted]
    assert run.counts["traced"] == (name != "divided by a number")  # known when it is traced


def test_the_error_of_a_distribution_shows_the_values():
    bad = torch.tensor([-1.0, 1.0])
    with pytest.raises(ValueError, match="scale") as eager:
        D.Normal(0.0, bad)
    with pytest.raises(ValueError, match="scale") as compiled:
        torch.compile(lambda s: D.Normal(0.0, s).log_prob(s))(bad)
    assert str(compiled.value) == str(eager.value)


def test_the_error_names_the_line():
    def f(i):
        return M[i]  # here

    with pytest.raises(IndexError) as caught:
        torch.compile(f)(ints(9))
    (note,) = caught.value.__notes__
    line = f.__code__.co_firstlineno + 1
    assert f'test_checks.py", line {line}, in f' in note


@pytest.mark.parametrize("outer", [torch.vmap, lambda f: torch.func.grad(lambda x: f(x).sum())])
def test_a_compiled_function_inside_of_transforms(outer):
    run = torch.compile(lambda a: linalg.inv(a).sum())
    bad = torch.zeros(2, 3, 3) if outer is torch.vmap else torch.zeros(3, 3)
    assert refusal(outer(run), bad)[0] is torch.linalg.LinAlgError


# --- nothing is written ---------------------------------------------------------------------------


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(5, 4)
        self.norm = torch.nn.BatchNorm1d(4)
        self.drop = torch.nn.Dropout(0.5)
        self.last = torch.nn.Linear(4, 3)

    def forward(self, i):
        return self.last(self.drop(self.norm(self.table(i))))


def early(net, i, y):
    return F.cross_entropy(net(i), y)


def late(net, i, y):  # the chances depend on what the program computes
    return F.binary_cross_entropy(net(i).sum(1).sigmoid() + (y.float() - y.clamp(max=2)), torch.ones(4))


def drawn(net, i, y):
    return F.cross_entropy(net(i), torch.randint(2, 3, (4,)) + (y - y.clamp(max=2)))


def training(loss_of):
    torch.manual_seed(3)
    net = Net()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.1)

    def step(i, y):
        optimizer.zero_grad()
        loss = loss_of(net, i, y)
        loss.backward()
        optimizer.step()
        return loss

    return net, optimizer, step


def state_of(net, optimizer):
    """All that a step writes."""
    tensors = [*net.parameters(), *net.buffers()]
    kept = [t for s in optimizer.state.values() for t in s.values() if isinstance(t, torch.Tensor)]
    grads = [p.grad for p in net.parameters()]
    values = [None if t is None else t.detach().numpy().copy() for t in [*tensors, *kept, *grads]]
    return values, [t._version for t in tensors], grads, torch.get_rng_state().numpy()


def unchanged(before, after):
    np.testing.assert_equal(before[0], after[0])
    assert before[1] == after[1]
    assert all(a is b for a, b in zip(before[2], after[2]))
    np.testing.assert_array_equal(before[3], after[3])


PLACE, GOOD, BAD = ints(0, 1, 2, 4), ints(0, 1, 2, 2), ints(0, 1, 2, 3)


@pytest.mark.parametrize("loss_of", [early, late, drawn])
@pytest.mark.parametrize("after", [0, 2])
def test_a_step_that_raises_has_written_nothing(loss_of, after):
    net, optimizer, step = training(loss_of)
    run = torch.compile(step)
    for _ in range(after):
        run(PLACE, GOOD)
    before = state_of(net, optimizer)
    for _ in range(2):
        with pytest.raises((IndexError, RuntimeError), match=r"out of bounds|between 0 and 1"):
            run(PLACE, BAD)
        unchanged(before, state_of(net, optimizer))
    assert len(optimizer.state) == (5 if after else 0)
    for _ in range(2):
        run(PLACE, GOOD)
    # The same steps in eager code.
    other, optimizer, step = training(loss_of)
    for _ in range(after + 2):
        step(PLACE, GOOD)
    for p, q in zip(net.state_dict().values(), other.state_dict().values()):
        np.testing.assert_allclose(p.numpy(), q.numpy(), rtol=1e-4, atol=1e-5)


def grad_of(t):
    assert t.grad is not None
    return t.grad


def test_large_gradients_stay():
    w = torch.zeros(200, 200, requires_grad=True)

    def step(x):
        w.grad = None
        F.binary_cross_entropy((x @ w).mean(1) + 0.5, torch.ones(4)).backward()
        with torch.no_grad():
            w.sub_(grad_of(w))

    run = torch.compile(step)
    for _ in range(3):
        run(torch.ones(4, 200) * 1e-3)
    grad, value, now = grad_of(w), grad_of(w).numpy().copy(), w.detach().numpy().copy()
    with pytest.raises(RuntimeError, match="between 0 and 1"):
        run(torch.ones(4, 200) * 1e3)
    assert w.grad is grad
    np.testing.assert_array_equal(grad.numpy(), value)
    np.testing.assert_array_equal(w.detach().numpy(), now)


def test_an_argument_that_is_written_to_stays():
    x = torch.zeros(3)

    def f(x, i):
        x.add_(1)
        return x[i]

    run = torch.compile(f)
    for _ in range(2):
        assert refusal(run, x, ints(3)) == refusal(lambda i: x[i], ints(3))
        assert (x.tolist(), x._version) == ([0.0, 0.0, 0.0], 0)
    run(x, ints(2))
    assert x.tolist() == [1.0, 1.0, 1.0]


def test_indices_from_outside_are_looked_at_ahead():
    places = ints(0, 1)
    run = torch.compile(lambda x: x[places] + 1)
    run(M)
    run(M)
    (entries,) = run.entries.values()
    assert entries[0].program.body.late == []
    places.fill_(4)
    for _ in range(2):
        assert refusal(run, M) == refusal(lambda x: x[places], M)
    places.fill_(3)
    assert run(M).tolist() == [[10.0, 11.0, 12.0]] * 2


IN_OTHER_FORMS = {
    "as they are": lambda i: M[i],
    "flattened": lambda i: F.nll_loss(M, i.flatten()),
    "as a column": lambda i: M.gather(0, i.view(-1, 1)),
    "transposed": lambda i: M[i.view(2, 2).t()],
    "expanded": lambda i: F.embedding(i.expand(3, -1), M),
    "split": lambda i: M[i.view(2, 2).unbind(1)[1]],
    "a part": lambda i: M[i[1:]],
    "computed": lambda i: M[i * 2 - i],
    "narrow": lambda i: M[i.to(torch.int32)],
    "wrapped": lambda i: M[i.to(torch.uint8).long()],
    "two conditions": lambda i: M[i, i.clamp(max=1)],
    "one ignored": lambda i: F.nll_loss(M, i, ignore_index=2),
}
PLACES_OF_FOUR = [
    (0, 1, 2, 3),
    (3, 2, 1, -1),
    (0, 0, 0, -4),
    (0, 1, 0, 4),
    (4, 0, 1, 0),
    (2, 2, 0, 2),
    (0, 260, 1, 256),
]


@pytest.mark.parametrize("form", IN_OTHER_FORMS)
def test_indices_in_range_pass_and_others_do_not(form):
    f = IN_OTHER_FORMS[form]
    run = torch.compile(f)

    def told(f, i):
        try:
            return [x.tolist() for x in leaves(f(i))]
        except Exception as error:
            return type(error), str(error).split("\n")[0]

    for places in PLACES_OF_FOUR:
        np.testing.assert_equal(told(run, ints(*places)), told(f, ints(*places)))
    assert run.counts["traced"] == 1


def test_no_program_is_made_for_indices_from_outside_and_numpy_runs_the_others():
    run = torch.compile(lambda i, j: F.nll_loss(M, i.flatten()) + F.embedding((j - 1).abs(), M).sum())
    run(ints(0, 1, 2, 2), ints(0, 3))
    ((entry,),) = run.entries.values()
    flat, computed = entry.program.checks._in_bounds, entry.program.checks._ahead
    assert [bounds.high for _, bounds in flat] == [3]
    assert computed.by == "numpy"
    assert entry.program.body.late == []


# --- functions whose result needs a gradient ------------------------------------------------------


@pytest.mark.parametrize("loss_of", [early, late, drawn])
def test_the_forward_part_of_a_recorded_function(loss_of):
    net = Net()
    run = torch.compile(lambda i, y: loss_of(net, i, y))
    run(PLACE, GOOD)
    before = state_of(net, torch.optim.SGD(net.parameters()))
    with pytest.raises((IndexError, RuntimeError), match=r"out of bounds|between 0 and 1"):
        run(PLACE, BAD)
    unchanged(before, state_of(net, torch.optim.SGD(net.parameters())))
    run(PLACE, GOOD).backward()
    assert net.last.weight.grad is not None


@pytest.mark.parametrize("scaled", [False, True])
def test_the_backward_part(scaled):
    w = torch.eye(2, requires_grad=True)

    def f(x):
        y = x @ w
        y.register_hook(lambda g: linalg.inv(g @ g.mT) if scaled else linalg.inv(g))
        return y * 1.0

    for run in (f, torch.compile(f)):
        w.grad = None
        for _ in range(2):
            y = run(torch.eye(2))
            assert refusal(y.backward, torch.ones(2, 2))[0] is torch.linalg.LinAlgError
            assert w.grad is None
        run(torch.eye(2)).backward(torch.eye(2))
        np.testing.assert_allclose(w.grad.numpy(), np.eye(2))


def test_inference():
    net = Net().eval()
    run = torch.compile(net)
    with torch.no_grad():
        for _ in range(3):
            run(PLACE)
            assert refusal(run, PLACE + 1) == refusal(net, PLACE + 1)


# --- without ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{"checks": False}, {"options": {"checks": False}}])
def test_without_checks(settings):
    run = torch.compile(lambda i: M[i], **settings)
    assert run(ints(9)).tolist() == [M[3].tolist()]  # what XLA gives
    assert torch.compile(checks=False)(lambda x: x // 0)(ints(1)).shape == (1,)


def test_unknown_options_are_refused():
    with pytest.raises(RuntimeError, match="Unexpected optimization option chekcs"):
        torch.compile(lambda x: x, options={"chekcs": False})
    wrong: dict[str, Any] = {"chekcs": False}
    with pytest.raises(TypeError, match="chekcs"):
        torch.compile(lambda x: x, **wrong)


FILLS = {
    "masked_fill": lambda x, v: x.masked_fill(x == 0, v),
    "masked_fill_": lambda x, v: x.masked_fill_(x == 0, v),
    "index_fill": lambda x, v: x.index_fill(0, torch.tensor([1]), v),
    "index_fill_": lambda x, v: x.index_fill_(0, torch.tensor([1]), v),
}
TOO_LARGE = {
    "int8": (torch.tensor(300), torch.tensor(-128)),
    "uint8": (torch.tensor(256), torch.tensor(255)),
    "int32": (torch.tensor(1e10), torch.tensor(1e9)),
    "float16": (torch.tensor(1e6), torch.tensor(float("inf"))),
    "float32": (torch.tensor(1e60, dtype=torch.float64), torch.tensor(1e30, dtype=torch.float64)),
    "complex64": (torch.tensor(1e60j, dtype=torch.complex128), torch.tensor(1e30j, dtype=torch.complex128)),
}


@pytest.mark.parametrize("kind", TOO_LARGE)
@pytest.mark.parametrize("fill", FILLS)
def test_a_tensor_read_as_a_number_fits_the_dtype(fill, kind):
    bad, good = TOO_LARGE[kind]
    made, fast = (torch.zeros(3, dtype=getattr(torch, kind)) for _ in range(2))
    compiled = torch.compile(FILLS[fill])
    assert compiled(fast.clone(), good).tolist() == FILLS[fill](made.clone(), good).tolist()
    with pytest.raises(RuntimeError) as eager:
        FILLS[fill](made, bad)
    with pytest.raises(RuntimeError, match=r"cannot be converted to type .* without overflow") as late:
        compiled(fast, bad)
    assert str(late.value) == str(eager.value)
    assert fast.tolist() == [0, 0, 0]
