"""Compiled functions that get one memory in several ways: as two arguments, or as an argument and from outside."""

import numpy as np
import pytest

import torchgrad_jax as tg

CALLS = []


def calls(make):
    """A test: what `make` returns for a way to compile functions is the same as without compiling them."""
    CALLS.append(make)
    return make


def write_first(x, y):
    x.add_(1)
    return y * 1


def write_both(x, y):
    x.add_(1)
    y.mul_(2)
    return x.sum() + y.sum()


ARGUMENTS = {
    "view": lambda x: (x, x.view(3, 4)),
    "same": lambda x: (x, x),
    "rows and columns": lambda x: (x.view(3, 4)[0], x.view(3, 4)[:, 1]),
    "shifted": lambda x: (x[:8], x[2:10]),
    "columns": lambda x: (x.view(3, 4)[:, 1], x.view(3, 4)[:, 2]),
    "other dtype": lambda x: (x, x.view(tg.int32)),
    "detached": lambda x: (x.detach(), x),
    "two of NumPy": lambda x: (x, tg.from_numpy(x.numpy())),
    "parts of NumPy": lambda x: (x[:8], tg.from_numpy(x.numpy()[4:])),
}


@pytest.mark.parametrize("arguments", ARGUMENTS)
@pytest.mark.parametrize("fn", [write_first, write_both], ids=lambda f: f.__name__)
def test_arguments(fn, arguments):
    def run(f):
        x, apart = tg.arange(12.0), (tg.arange(12.0), tg.arange(12.0))
        found = []
        for _ in range(2):
            found += [f(*ARGUMENTS[arguments](x)).tolist(), x.tolist()]
            found += [f(*apart).tolist(), *[t.tolist() for t in apart]]
        return found

    assert run(tg.compile(fn)) == run(fn)


@calls
def closure(wrap):
    x, z = tg.arange(4.0), tg.arange(4.0) * 10
    f = wrap(lambda y: (x.add_(1), y * 1)[1])
    return [f(t).tolist() for t in (x, z, x, z, x.view(4), x[:4], x)], x.tolist(), z.tolist()


@calls
def closure_is_read(wrap):
    x, z = tg.arange(4.0), tg.arange(4.0) * 10
    f = wrap(lambda y: x + y)
    return [f(t).tolist() for t in (x, z, x)], f(y=z).tolist(), f(y=x).tolist()


@calls
def argument_is_written(wrap):
    x, z = tg.arange(4.0), tg.arange(4.0) * 10
    f = wrap(lambda y: (y.add_(1), x * 1)[1])
    return [f(t).tolist() for t in (z, x, x.view(2, 2), z, x)], x.tolist(), z.tolist()


@calls
def closure_in_a_list(wrap):
    x, z = tg.arange(4.0), tg.arange(4.0) * 10
    f = wrap(lambda ys: (x.add_(1), ys[0] * 1)[1])
    return [f([t]).tolist() for t in (x, z, x, z)], x.tolist()


@calls
def closure_and_its_view(wrap):
    x = tg.arange(4.0)
    v = x.view(2, 2)
    f = wrap(lambda y: (y.add_(1), v * 1)[1])
    return [f(t).tolist() for t in (tg.ones(4), x, x, tg.ones(4))], x.tolist()


@calls
def weight_of_a_module(wrap):
    layer = tg.nn.Linear(2, 1, bias=False)
    layer.weight.data.fill_(1.0)

    def scaled(w, x):
        with tg.no_grad():
            w.mul_(2)
        return layer(x)

    f, w, x = wrap(scaled), tg.ones(1, 2), tg.ones(1, 2)
    found = [f(t, x).tolist() for t in (w, layer.weight.detach(), layer.weight, w, layer.weight)]
    return found, layer.weight.tolist(), w.tolist()


@calls
def gradient(wrap):
    w = tg.ones(2, requires_grad=True)
    (w * 2).sum().backward()
    f = wrap(lambda g: (g.mul_(3), w.grad * 1)[1])  # type: ignore[operator]
    return [f(t).tolist() for t in (tg.ones(2), w.grad, w.grad)], w.grad.tolist()


@calls
def leaf(wrap):
    w, v = (tg.ones(2, requires_grad=True) for _ in range(2))

    def step(y):
        w.grad = y.grad = None
        (w * w * y).sum().backward()
        return y.grad * 1  # type: ignore[operator]

    f = wrap(step)
    return [f(t).tolist() for t in (v, w, v, w)], w.grad.tolist(), v.grad.tolist()


@calls
def gradient_of_what_is_given_twice(wrap):
    x, z = (tg.tensor([a, a + 1], requires_grad=True) for a in (1.0, 3.0))
    f = wrap(lambda y: tg.autograd.grad((x * x * y).sum(), x)[0])
    return [f(t).tolist() for t in (x, z, x, z, x)]


@calls
def result_whose_gradient_goes_to_both(wrap):
    x, z = (tg.tensor([a, a + 1], requires_grad=True) for a in (1.0, 3.0))
    f = wrap(lambda y: (x * x * y).sum())
    for t in (x, z, x, z, x):
        f(t).backward()
    return x.grad.tolist(), z.grad.tolist()


@calls
def parameters_and_their_optimizer(wrap):
    p = tg.nn.Parameter(tg.ones(2))
    opt = tg.optim.SGD([p], 0.1)

    def step(q):
        opt.zero_grad()
        (q * q).sum().backward()
        opt.step()

    f = wrap(step)
    for _ in range(4):
        f(p)
    return p.tolist()


@calls
def array_outside(wrap):
    n = np.arange(4, dtype=np.float32)
    x, y = tg.from_numpy(n), tg.from_numpy(n[1:])
    f = wrap(lambda: (x.add_(1), y * 1)[1])
    found = []
    for i in range(3):
        found.append(f().tolist())
        n[i] = 7
    return found, n.tolist()


@pytest.mark.parametrize("make", CALLS, ids=lambda f: f.__name__)
def test_outside(make):
    assert make(tg.compile) == make(lambda f: f)


def test_what_is_only_read_is_compiled_at_once():
    x, z = tg.arange(4.0), tg.arange(4.0) * 10
    f = tg.compile(lambda y: x + y, fullgraph=True)
    assert [f(t).tolist() for t in (x, z, x)] == [(x + t).tolist() for t in (x, z, x)]
    assert f.counts == {"traced": 1, "run": 3, "eager": 0}


def test_whole_graphs_take_a_parameter_that_is_known_too():
    p = tg.nn.Parameter(tg.ones(2))
    opt = tg.optim.SGD([p], 0.1)

    def step(q):
        opt.zero_grad()
        (q * q).sum().backward()
        opt.step()

    f = tg.compile(step, fullgraph=True)
    for _ in range(3):
        f(p)
    assert tg.allclose(p, tg.full((2,), 0.8**3))
    assert f.counts["run"] == 3
    assert f.counts["eager"] == 0


def test_whole_graphs_refuse_it():
    x = tg.arange(4.0)
    f = tg.compile(write_first, fullgraph=True)
    assert f(x, tg.ones(4)).tolist() == [1.0] * 4
    with pytest.raises(RuntimeError, match="shares its memory"):
        f(x, x.view(2, 2))
    assert x.tolist() == [1.0, 2.0, 3.0, 4.0]


def test_batches_that_the_function_can_reach_need_one_program():
    class Trainer:
        def __init__(self):
            self.w, self.batches = tg.zeros(3), [tg.full((3,), float(i)) for i in range(20)]
            self.step = tg.compile(self.add)

        def add(self, x):
            self.w.add_(x)

    trainer = Trainer()
    for x in trainer.batches:
        trainer.step(x)
    assert trainer.w.tolist() == [190.0] * 3
    assert trainer.step.counts == {"traced": 1, "run": 20, "eager": 0}


def test_a_parameter_that_is_an_argument_too_gets_a_program():
    p, x = tg.zeros(3), tg.ones(3)
    step = tg.compile(lambda q, y: (q.add_(y), p * 1)[1])
    for i in range(5):
        assert step(p, x).tolist() == [i + 1.0] * 3
    assert step.counts["run"] >= 3
    part = p[:3]
    assert step(part, x).tolist() == [6.0] * 3


def halves():
    x = tg.ones(4)
    return x[:2], x[2:]


VERSIONS = {
    "two halves": (lambda a, b: (a.add_(1), b.mul_(2).mul_(2)), halves),
    "one half is written": (lambda a, b: (a.add_(1), b * 2), halves),
    "the one outside is written": (lambda a, b: (OUTSIDE.add_(1), a * 2), lambda: (OUTSIDE, tg.ones(2))),
    "the memory of one outside is written": (
        lambda a, b: (OUTSIDE.detach().add_(1), a * 2),
        lambda: (OUTSIDE.detach(), tg.ones(2)),
    ),
}
OUTSIDE = tg.ones(2)


@pytest.mark.parametrize("name", VERSIONS)
def test_versions_are_of_what_was_written_although_the_first_arguments_shared_them(name):
    fn, arguments = VERSIONS[name]

    def run(f):
        OUTSIDE.zero_()
        found = []
        for i in range(6):
            a, b = arguments() if i % 3 == 0 else (tg.ones(2), tg.ones(2))
            before = [t._version for t in (a, b, OUTSIDE)]
            f(a, b)
            found.append([t._version - n for t, n in zip((a, b, OUTSIDE), before)])
        return found, OUTSIDE.tolist()

    assert run(tg.compile(fn)) == run(fn)


class State:
    def __init__(self):
        self.count, self.kept, self.last, self.entries = 0, tg.zeros(2), None, {}

    def count_up(self, x, n):
        self.count += n

    def keep(self, x, n):
        self.kept, self.last = self.kept + 1, OUTSIDE.detach()

    def keep_more(self, x, n):
        self.kept, self.more = self.kept + 1, OUTSIDE.detach()

    def fill(self, x, n):
        self.entries["x"], self.count = (x * 2).detach(), self.count + 1


@pytest.mark.filterwarnings("ignore:torch.compile")
@pytest.mark.parametrize("change", ["count_up", "keep", "keep_more", "fill"])
def test_what_the_function_does_in_python_is_undone_before_it_runs_as_it_is_written(change):
    def run(wrap):
        state, buffer = State(), tg.ones(2)

        def step(x, n):
            buffer.mul_(n)
            getattr(state, change)(x, n)
            return x * n

        step = wrap(step)
        found = [step(buffer.detach() if i % 2 == 0 else tg.ones(2), i).tolist() for i in range(5)]
        return found, buffer.tolist(), str(vars(state))

    assert run(tg.compile) == run(lambda f: f)


@pytest.mark.parametrize("shares", [False, True])
def test_an_error_leaves_what_the_function_keeps_beside_a_new_attribute(shares):
    class Holder:
        pass

    holder, w = Holder(), tg.ones(3, requires_grad=True)
    holder.kept = tg.zeros(2)

    @tg.compile
    def step(x, i):
        holder.kept = holder.kept + 1
        holder.weights = w.detach() if shares else w.detach() * 2
        return x * w[i]

    with pytest.raises(IndexError):
        step(tg.ones(2), tg.tensor(7))
    if shares:  # no program makes such a tensor: the call runs eagerly, and leaves what that leaves
        assert step.counts["eager"] == 1
        assert list(vars(holder)) == ["kept", "weights"]
        assert holder.kept.tolist() == [1.0, 1.0]
    else:
        assert step.counts["eager"] == 0
        assert list(vars(holder)) == ["kept"]
        assert holder.kept.tolist() == [0.0, 0.0]


@pytest.mark.filterwarnings("ignore:torch.compile")
@pytest.mark.parametrize("grad", [True, False])
def test_an_argument_may_be_a_view_from_before_its_base_required_a_gradient(grad):
    def run(f):
        x = tg.ones(2, 2)
        y = x.t()
        x.requires_grad_()
        with tg.set_grad_enabled(grad):
            out = f(y)
        return out.requires_grad, y.requires_grad, y._rg

    f = tg.compile(lambda y: y * 2)
    assert [run(f) for _ in range(3)] == [run(lambda y: y * 2)] * 3
