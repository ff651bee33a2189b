"""L-BFGS against torch: the path, the state and the number of evaluations."""

import importlib

import pytest

import torchgrad_jax as tg
from tests.engine.helpers import program

OPTIONS = {
    "default": {"max_iter": 9},
    "slow": {"lr": 0.1, "max_iter": 4},
    "short-memory": {"history_size": 2, "max_iter": 5},
    "few-evaluations": {"max_eval": 3},
    "wolfe": {"line_search_fn": "strong_wolfe", "max_iter": 6},
    "wolfe-far": {"line_search_fn": "strong_wolfe", "lr": 5.0, "max_iter": 3, "history_size": 1},
    "wolfe-near": {"line_search_fn": "strong_wolfe", "lr": 0.01, "max_iter": 3, "max_eval": 9},
    "loose": {"tolerance_grad": 0.5, "max_iter": 6},
    "loose-change": {"tolerance_change": 0.05},
}


def rosenbrock(m, a, b):
    return ((1 - a) ** 2).sum() + 10 * ((b - a[:2] ** 2) ** 2).sum() + (a[2] - 0.5).cos()


def quadratic(m, a, b):
    return (a * a * m.tensor([1.0, 2.0, 3.0])).sum() + (b * b).sum() + (a.sum() - b.sum()) ** 2


def minimise(m, loss, options, rounds):
    a = m.tensor([0.5, -1.5, 2.0], dtype=m.float64, requires_grad=True)
    b = m.tensor([1.0, 0.25], dtype=m.float64, requires_grad=True)
    o = m.optim.LBFGS([a, b], **options)
    seen = []

    def closure():
        o.zero_grad()
        value = loss(m, a, b)
        value.backward()
        seen.append(value.item())
        return value

    out = [o.step(closure).item() for _ in range(rounds)]
    state = o.state[a]
    kept = {k: state[k] for k in ("func_evals", "n_iter", "d", "prev_flat_grad", "prev_loss")}
    kept |= {k: len(state[k]) for k in ("old_dirs", "old_stps", "ro")}
    return [out, seen, a.detach(), b.detach(), kept, sorted(state), float(state["t"]), b in o.state]


def rounds(loss, name):
    """Few where a long path would make rounding differences large."""
    return 1 if loss is rosenbrock and name in ("default", "short-memory", "loose") else 2


@pytest.mark.parametrize("loss", [rosenbrock, quadratic])
@pytest.mark.parametrize("name", OPTIONS)
def test_path(name, loss, same):
    label = f"{loss.__name__}-{name}"
    same(program(label, lambda m: minimise(m, loss, OPTIONS[name], rounds(loss, name))))


def odd_parameters(m):
    """A parameter that never has a gradient, a matrix, a complex one."""
    a = m.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    b = m.tensor([5.0], requires_grad=True)
    z = m.tensor([1.0 + 2j], requires_grad=True)
    o = m.optim.LBFGS([a, b, z], lr=m.tensor([0.5]), max_iter=3)

    def closure():
        o.zero_grad()
        loss = (a.t() * a).sum() + (z * z.conj()).real.sum()
        loss.backward()
        return loss

    return [o.step(closure), a, b, z]


def already_there(m):
    a = m.tensor([0.0], requires_grad=True)
    o = m.optim.LBFGS([a])

    def closure():
        o.zero_grad()
        loss = (a * a).sum()
        loss.backward()
        return loss

    return [o.step(closure), a, o.state_dict()["state"]]


@pytest.mark.parametrize("fn", [odd_parameters, already_there])
def test_same_as_torch(fn, same):
    same(fn)


@pytest.mark.filterwarnings("ignore:.* runs eagerly")
def test_a_step_inside_of_a_compiled_function_is_refused_before_it_begins():
    a = tg.tensor([1.0, -2.0], requires_grad=True)
    seen = tg.zeros(())
    o = tg.optim.LBFGS([a])

    def closure():
        o.zero_grad()
        seen.add_(1)
        loss = (a * a).sum()
        loss.backward()
        return loss

    run = tg.compile(lambda: o.step(closure))
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"LBFGS.step decides.*compile its closure"):
            run()
        assert (a.tolist(), a.grad, seen.item(), dict(o.state)) == ([1.0, -2.0], None, 0, {})
    with tg._dynamo.config.patch(suppress_errors=True):
        tg.compile(lambda: o.step(closure))()
    assert a.tolist() == pytest.approx([0.0, 0.0], abs=1e-6)
    assert seen.item() == o.state[a]["func_evals"]


def saved(m):
    a = m.tensor([1.0, 2.0], requires_grad=True)
    o = m.optim.LBFGS([a], max_iter=2)

    def closure():
        o.zero_grad()
        loss = ((a - 3) ** 4).sum()
        loss.backward()
        return loss

    o.step(closure)
    state = o.state_dict()
    o.load_state_dict(state)
    o.step(closure)
    return [a, o.state_dict()["state"][0]["n_iter"]]


def test_state_goes_through_a_dict(same):
    same(saved)


def lbfgs(m):
    return importlib.import_module(f"{m.__name__}.optim.lbfgs")


INTERVALS = [
    (0.0, 1.0, -1.0, 1.0, 2.0, 3.0, None),
    (1.0, 2.0, 3.0, 0.0, 1.0, -1.0, None),
    (0.0, 1.0, 1.0, 1.0, 3.0, 1.0, None),
    (0, 1.0, -1.0, 1, 0.5, -0.1, (1.01, 10)),
]


def smallest_in_intervals(m):
    found = lbfgs(m)._cubic_interpolate
    return [
        float(found(a, fa, m.tensor(ga), b, fb, m.tensor(gb), bounds)) for a, fa, ga, b, fb, gb, bounds in INTERVALS
    ]


LIMITS = {
    "plain": {},
    "strict": {"c1": 0.1, "c2": 0.2},
    "two-tries": {"max_ls": 2},
    "no-try": {"max_ls": 0},
    "coarse": {"tolerance_change": 0.5},
}


def searches(options):
    def run(m):
        calls = []

        def evaluate(x, t, d):
            calls.append(float(t))
            y = (x + t * d).requires_grad_()
            loss = (100 * (y[1:] - y[:-1] ** 2) ** 2 + (1 - y[:-1]) ** 2).sum()
            return loss.item(), m.autograd.grad(loss, y)[0]

        x = m.tensor([-1.2, 1.0, 0.5], dtype=m.float64)
        loss, g = evaluate(x, 0.0, x)
        found = [lbfgs(m)._strong_wolfe(evaluate, x, t, -g, loss, g, -g.dot(g), **options) for t in (1.0, 0.001, 50.0)]
        return [[float(r[0]), r[1], float(r[2]), r[3]] for r in found] + calls

    return run


@pytest.mark.parametrize("name", LIMITS)
def test_line_searches_of_others(same, name):
    same(program(f"searches-{name}", searches(LIMITS[name])))


def test_places_between_two_points(same):
    same(smallest_in_intervals)


# --- what torch 2.14 has --------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{"max_iter": 6}, {"line_search_fn": "strong_wolfe", "max_iter": 4}])
def test_a_maximum_is_the_minimum_of_the_negative(options):
    def negative(m, a, b):
        return -quadratic(m, a, b)

    least = minimise(tg, quadratic, options, 2)
    most = minimise(tg, negative, {**options, "maximize": True}, 2)
    assert most[0] == [-x for x in least[0]]
    assert most[1] == [-x for x in least[1]]
    assert tg.equal(most[2], least[2])
    assert tg.equal(most[3], least[3])


def test_only_a_maximum_is_a_key_of_the_state():
    p = [tg.zeros(2, requires_grad=True)]
    assert "maximize" not in tg.optim.LBFGS(p).state_dict()["param_groups"][0]
    other = tg.optim.LBFGS(p)
    other.load_state_dict(tg.optim.LBFGS(p, maximize=True).state_dict())
    assert other.param_groups[0]["maximize"] is True
