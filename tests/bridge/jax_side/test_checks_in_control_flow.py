"""What eager code checks is checked in loops and branches, too, whose functions JAX traces as a whole."""

import pytest

import torchgrad_jax as torch
from tests.programs import complaint
from torchgrad_jax import interop
from torchgrad_jax._higher_order_ops import map as torch_map, scan as torch_scan, while_loop

TABLE = torch.arange(12.0).reshape(4, 3)
SINGULAR = torch.stack([torch.eye(2), torch.zeros(2, 2), torch.eye(2)])

CHECKED = {
    "index": (lambda i: TABLE[i].sum(), torch.tensor([0, 3, 9]), torch.tensor([0, 3, -4])),
    "gather": (lambda i: TABLE.gather(0, i.expand(1, 3)).sum(), torch.tensor([0, 4, 1]), torch.tensor([0, 3, 1])),
    "division": (lambda i: (torch.tensor(12) // i).float(), torch.tensor([3, 0]), torch.tensor([3, 1])),
    "inverse": (lambda a: torch.linalg.inv(a).sum(), SINGULAR, SINGULAR + 2 * torch.eye(2)),
    "assertion": (
        lambda x: (torch._assert_async(x > 0, "not positive"), x * 1)[1],
        torch.tensor([1.0, -1.0]),
        torch.tensor([1.0, 2.0]),
    ),
    "parameters of a distribution": (
        lambda s: torch.distributions.Normal(torch.zeros(()), s).log_prob(s),
        torch.tensor([1.0, -1.0]),
        torch.tensor([1.0, 2.0]),
    ),
    "values of a distribution": (
        lambda x: torch.distributions.Exponential(torch.ones(())).log_prob(x),
        torch.tensor([1.0, -1.0]),
        torch.tensor([1.0, 2.0]),
    ),
    "batch": (
        lambda i: torch.vmap(lambda j: TABLE[j].sum())(torch.stack([i, i * 0])).sum(),
        torch.tensor([0, 5]),
        torch.tensor([0, 3]),
    ),
}
NOTHING = torch.zeros(())


def _nested(f, xs):
    def outer(total, k):
        return torch_scan(lambda c, x: (c + f(x), c * 1), total, xs)[0], total * 1

    return torch_scan(outer, NOTHING, torch.arange(2))[0]


def _in_the_condition(f, xs):
    n = len(xs)

    def goes_on(k, total):
        return f(xs[k]) * 0 + k < n - 1

    def step(k, total):
        return k + 1, total + 1.0

    return while_loop(goes_on, step, (torch.tensor(0), NOTHING))[1]


LOOPS = {
    "scan": lambda f, xs: torch_scan(lambda c, x: (c + f(x), c * 1), NOTHING, xs)[0],
    "interop.scan": lambda f, xs: interop.scan(lambda c, x: (c + f(x), None), NOTHING, xs)[0],
    "map": lambda f, xs: torch_map(f, xs).sum(),
    "fori": lambda f, xs: interop.fori_loop(0, len(xs), lambda k, c: c + f(xs[k]), NOTHING),
    "while": lambda f, xs: while_loop(
        lambda k, _: k < len(xs), lambda k, c: (k + 1, c + f(xs[k])), (torch.tensor(0), NOTHING)
    )[1],
    "condition": _in_the_condition,
    "cond": lambda f, xs: sum(torch.cond(x.sum() > -9, f, lambda x: x.sum() * 1.0, (x,)) for x in xs.unbind(0)),
    "switch": lambda f, xs: sum(interop.switch(torch.tensor(1), [lambda x: x.sum() * 1.0, f], x) for x in xs.unbind(0)),
    "checkpoint": lambda f, xs: sum(interop.checkpoint(f)(x) for x in xs.unbind(0)),
    "from_jax": lambda f, xs: sum(torch.from_jax(lambda a: f(torch.as_tensor(a)))(x) for x in xs.unbind(0)),
    "nested": _nested,
}


def _complaint(f, *args):
    kind, text = complaint(lambda: f(*args))
    return kind, text.splitlines()[0]


PAIRS = [(loop, name) for loop in LOOPS for name in CHECKED if loop == "scan" or name in ("index", "inverse")]


@pytest.mark.parametrize(("loop", "name"), PAIRS)
def test_loops_and_branches_check_values(loop, name):
    loop, (f, bad, good) = LOOPS[loop], CHECKED[name]
    wanted = _complaint(lambda: [f(x) for x in bad.unbind(0)])
    run = torch.compile(lambda xs: loop(f, xs))
    value = loop(f, good)
    for _ in range(2):
        torch.testing.assert_close(run(good), value)
        assert _complaint(run, bad) == wanted
    assert _complaint(loop, f, bad) == wanted
    assert run.counts["traced"] == 1
    torch.testing.assert_close(torch.compile(lambda xs: loop(f, xs), checks=False)(good), value)


@pytest.mark.parametrize("name", ["scan", "map", "fori", "while"])
def test_of_several_examples(name):
    def f(i):
        return TABLE[i].sum()

    def of(xs):
        return torch.vmap(lambda row: LOOPS[name](f, row))(xs)

    good, bad = torch.tensor([[0, 1], [2, 3]]), torch.tensor([[0, 1], [2, 7]])
    wanted = _complaint(f, torch.tensor(7))
    assert of(good).tolist() == [15.0, 51.0]
    assert _complaint(of, bad) == wanted
    run = torch.compile(of)
    assert run(good).tolist() == [15.0, 51.0]
    assert _complaint(run, bad) == wanted


def test_distributions_of_several_examples_in_a_loop():
    def f(rows):
        return torch.vmap(lambda x: torch.distributions.Exponential(x).log_prob(x))(rows).sum()

    good, bad = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[1.0, 2.0], [3.0, -4.0]])
    torch.testing.assert_close(torch_map(f, good), torch.stack([f(row) for row in good]))
    with pytest.raises(ValueError, match=r"Expected parameter rate .* found invalid values"):
        torch_map(f, bad)


@pytest.mark.parametrize("name", ["scan", "map", "fori", "cond", "checkpoint", "nested"])
def test_gradients_and_state(name):
    found = []
    for compiled in (False, True):
        w = torch.nn.Parameter(TABLE / 10)
        opt = torch.optim.Adam([w], lr=0.1)

        def step(i, w=w, opt=opt):
            opt.zero_grad()
            LOOPS[name](lambda i: (w[i] ** 2).sum(), i).backward()
            opt.step()

        step = torch.compile(step) if compiled else step
        for _ in range(3):
            step(torch.tensor([0, 3, 2]))
        before = w.tolist(), w.grad.tolist(), opt.state[w]["exp_avg"].tolist()
        if compiled:
            assert _complaint(step, torch.tensor([0, 4])) == _complaint(lambda: TABLE[4])
            assert before == (w.tolist(), w.grad.tolist(), opt.state[w]["exp_avg"].tolist())
        step(torch.tensor([0, 3, 2]))
        found.append(w.detach().clone())
    torch.testing.assert_close(*found)


def test_the_branch_that_is_not_taken_checks_nothing():
    run = torch.compile(lambda i: torch.cond(i < 4, lambda i: TABLE[i], lambda i: TABLE[0], (i,)))
    assert run(torch.tensor(9)).tolist() == [0, 1, 2]
    assert run(torch.tensor(3)).tolist() == [9, 10, 11]
    assert _complaint(run, torch.tensor(-5)) == _complaint(lambda: TABLE[-5])


def test_layers_that_are_scanned():
    layers = [Picks(torch.ones(2, 2)) for _ in range(3)]
    assert torch.scan_layers(layers)(torch.tensor([0, 3])).tolist() == [0, 3]
    with pytest.raises(IndexError, match="index 5 is out of bounds"):
        torch.scan_layers(layers)(torch.tensor([0, 5]))


class Picks(torch.nn.Module):
    """Takes the elements of a weight that it is given the places of."""

    def __init__(self, weight):
        super().__init__()
        self.weight = torch.nn.Parameter(weight.detach().clone())

    def forward(self, places):
        return places + self.weight.view(-1)[places].long() * 0
