"""A result of a compiled function that is also kept elsewhere: what is kept and what is returned is one memory."""

from types import SimpleNamespace

import pytest

import torchgrad_jax as torch


def _in_a_dict(kept, w):
    def f(x):
        kept["a"] = x * 2
        return kept["a"]

    return f


def _a_view_is_kept(kept, w):
    def f(x):
        h = x * 2
        kept["a"] = h[1:]
        return h

    return f


def _a_view_is_returned(kept, w):
    def f(x):
        h = x * 2
        kept["a"] = h
        return h[1:]

    return f


def _detached(kept, w):
    def f(x):
        h = x * 2
        kept["a"] = h.detach()
        return h

    return f


def _in_an_attribute(kept, w):
    holder = kept["a"] = SimpleNamespace(last=None)

    def f(x):
        holder.last = x * 3
        return holder.last.view(3, 1)

    return f


def _buffer(kept, w):
    net = kept["a"] = torch.nn.Module()
    net.register_buffer("seen", torch.zeros(3))

    def f(x):
        net.seen = x * 3
        return net.seen

    return f


def _nonlocal(kept, w):
    last = kept["a"] = [None]

    def f(x):
        last[0] = x + 1
        return {"results": [last[0], last[0][:2]]}

    return f


def _gradient(kept, w):
    def f(x):
        (w * x).sum().backward()
        return w.grad

    return f


def _view_of_a_gradient(kept, w):
    def f(x):
        (w * x).sum().backward()
        return w.grad[1:], w.grad

    return f


def _new_gradient(kept, w):
    def f(x):
        w.grad = None
        (w * x).sum().backward()
        return w.grad.view(3, 1)

    return f


def _assigned_gradient(kept, w):
    def f(x):
        h = x * 4
        w.grad = h
        return h

    return f


def _state_of_an_optimizer(kept, w):
    opt = torch.optim.SGD([w], lr=0.1, momentum=0.9)

    def f(x):
        opt.zero_grad()
        (w * x).sum().backward()
        opt.step()
        return opt.state[w]["momentum_buffer"]

    return f


def _parameter_kept(kept, w):
    def f(x):
        kept["a"] = torch.nn.Parameter(x * 2)
        return kept["a"]

    return f


def _shown(x):
    if isinstance(x, torch.Tensor):
        return x.tolist(), x.requires_grad, x.is_leaf, _shown(x.grad) if x.is_leaf else None
    if isinstance(x, dict | SimpleNamespace):
        return {k: _shown(v) for k, v in (x if isinstance(x, dict) else vars(x)).items()}
    if isinstance(x, torch.nn.Module):
        return _shown(dict(x.named_buffers()))
    return [_shown(v) for v in x] if isinstance(x, list | tuple) else x


PROGRAMS = [
    _in_a_dict,
    _a_view_is_kept,
    _a_view_is_returned,
    _detached,
    _in_an_attribute,
    _buffer,
    _nonlocal,
    _gradient,
    _view_of_a_gradient,
    _new_gradient,
    _assigned_gradient,
    _state_of_an_optimizer,
    _parameter_kept,
]


@pytest.mark.parametrize("calls", [1, 2])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__.strip("_"))
def test_a_write_to_what_is_returned_is_a_write_to_what_is_kept(program, calls):
    found = []
    for form in (lambda f: f, torch.compile):
        kept, w = {}, torch.ones(3, requires_grad=True)
        f = form(program(kept, w))
        outs = [f(torch.ones(3)) for _ in range(calls)]
        last = outs[-1]
        while not isinstance(last, torch.Tensor):
            last = next(iter(last.values())) if isinstance(last, dict) else last[0]
        last.data.add_(torch.full(last.shape, 10.0))
        found.append((_shown(kept), _shown(w), _shown(outs)))
    assert found[1] == found[0]


@pytest.mark.parametrize("calls", [1, 2, 3])
@pytest.mark.parametrize(
    "make",
    [
        lambda x: torch.zeros(3, requires_grad=True),
        lambda x: torch.nn.Parameter(torch.ones(3)),
        lambda x: torch.nn.Parameter(x * 2),
        lambda x: (x * 2).detach().requires_grad_(),
        lambda x: x.detach().requires_grad_(),
        lambda x: torch.nn.Parameter(x[1:]),
    ],
    ids=["constant", "parameter", "computed", "detached", "of an argument", "of a view"],
)
def test_each_call_makes_a_new_leaf(make, calls):
    found = []
    for form in (lambda f: f, lambda f: torch.compile(f, fullgraph=True)):
        f, x, seen = form(make), torch.ones(3), []
        for _ in range(calls):
            leaf = f(x)
            (leaf * leaf).sum().backward()
            seen.append((_shown(leaf), type(leaf), x.tolist()))
            leaf.data.add_(1)
        found.append(seen)
    assert found[1] == found[0]


def test_functions_whose_results_are_views_of_each_other_are_traced_once():
    f = torch.compile(lambda x: (y := x * 2, y[0]))
    for _ in range(3):
        f(torch.ones(2, 2, requires_grad=True))
    assert f.counts["traced"] == 1


def _kept_with_its_graph(kept):
    def f(x):
        kept.append(x.exp() * 2)
        return x.sum()

    return f


def _kept_and_returned_with_its_graph(kept):
    def f(x):
        kept.append(x.exp() * 2)
        return kept[-1]

    return f


@pytest.mark.parametrize("program", [_kept_with_its_graph, _kept_and_returned_with_its_graph])
def test_what_is_kept_has_its_graph(program):
    kept, v = [], torch.ones(3, requires_grad=True)
    compiled = torch.compile(program(kept), fullgraph=True)
    compiled(v * 2)
    assert len(kept) == compiled.counts["run"] == 1
    kept[0].sum().backward()
    torch.testing.assert_close(v.grad, 4 * torch.tensor(2.0).exp().expand(3))


def test_a_leaf_that_is_returned_beside_what_was_computed_of_it():
    def f(x):
        p = torch.nn.Parameter(x * 2)
        return p, (p * p).sum()

    compiled = torch.compile(f)
    for k in range(2):
        with pytest.warns(UserWarning, match="a leaf") if k == 0 else _nothing():
            p, loss = compiled(torch.ones(2))
        loss.backward()
        assert p.grad.tolist() == [4.0, 4.0]


def _nothing():
    from contextlib import nullcontext

    return nullcontext()


def test_a_function_that_keeps_new_tensors_in_each_call_is_given_up_with_a_warning():
    seen = []

    class Sink:
        def __call__(self, x):
            seen.append(x * 2)

    f = torch.compile(lambda x: Sink()(x))
    with pytest.warns(UserWarning, match="runs eagerly"):
        results = [f(torch.ones(2)) for _ in range(6)]
    assert results == [None] * 6
    assert len(seen) == 6
    assert f.counts["eager"] > 0


MEMORY = {
    "data": lambda w, h: setattr(w, "data", h),
    "set_": lambda w, h: w.set_(h),
    "data of a view": lambda w, h: setattr(w, "data", h.view(3, 1)),
}


@pytest.mark.parametrize("replace", MEMORY.values(), ids=MEMORY)
def test_other_memory_for_a_tensor_from_outside(replace):
    found = []
    for form in (lambda f: f, torch.compile):
        w = torch.ones(3)

        def f(x, w=w):
            h = x * 4
            replace(w, h)
            h.add_(1)
            return h

        f = form(f)
        if form is torch.compile:
            with pytest.warns(UserWarning, match="other memory"):
                f(torch.ones(3))
        for _ in range(2):
            f(torch.ones(3)).mul_(2)
        found.append((w.tolist(), w.shape))
    assert found[1] == found[0]


@pytest.mark.filterwarnings("ignore:torch.compile")
def test_an_error_leaves_the_memory_that_a_tensor_had():
    w = torch.ones(3)

    def f(x):
        w.data = x * 2
        raise ValueError("it went wrong")

    with pytest.raises(ValueError, match="went wrong"):
        torch.compile(f)(torch.ones(3))
    assert w.tolist() == [2, 2, 2]  # as in eager code
    with pytest.raises(RuntimeError, match="other memory"):
        torch.compile(f, fullgraph=True)(torch.ones(3))
    assert w.tolist() == [2, 2, 2]


def _filled(x, w):
    h = x * w
    h.fill_(3.0)
    return h.detach(), h


@pytest.mark.parametrize(
    "f",
    [
        lambda x, w: ((h := x * w).detach(), h),
        lambda x, w: ((h := x * w), h.detach(), h[:1].detach()),
        lambda x, w: ((h := (x * 2).unsqueeze(0)).detach(), h),
        lambda x, w: ((h := (x * w).unsqueeze(0)).detach(), h),
        lambda x, w: ((h := (x * w).view(3, 1)), h.detach().view(-1)),
        _filled,
    ],
    ids=["recorded", "parts", "another shape", "another shape, recorded", "twice", "filled"],
)
def test_what_is_detached_from_a_result_is_one_memory_with_it(f):
    found = []
    for form in (lambda f: f, torch.compile):
        w, run = torch.ones(3, requires_grad=True), form(f)
        for _ in range(2):
            outs = run(torch.arange(3.0), w)
            with torch.no_grad():
                outs[0].add_(10)
            found.append([(_shown(t)[0], t.requires_grad, t.shape) for t in outs])
    assert found[2:] == found[:2]


@pytest.mark.parametrize(
    "f",
    [
        lambda b: b.view(-1).detach(),
        lambda b: (b.view(-1).detach(), b.view(-1)),
        lambda b: b[1].add_(1).detach(),
        lambda b: b.t()[1:].detach(),
    ],
    ids=["view", "beside the view", "written", "a part"],
)
def test_what_is_detached_from_a_view_of_the_outside_is_its_memory(f):
    found = []
    for form in (lambda f: f, torch.compile):
        b = torch.zeros(2, 2)
        run = form(lambda b=b: f(b))
        for _ in range(3):
            out = run()
            (out[0] if isinstance(out, tuple) else out).add_(10)
            found.append((_shown(out), b.tolist(), b._version))
    assert found[3:] == found[:3]


@pytest.mark.parametrize(
    "f",
    [
        lambda x, w: ((h := torch.stack([x, w])[1]).detach(), h),
        lambda x, w: ((b := torch.stack([x, w]))[0], b[:, 0]),
        lambda x, w: ((b := torch.stack([x * w, w]))[0:1], b[0:2, 1:]),
        lambda x, w: (*(b := (x * w).unbind(0))[:2], b[0].detach()),
        lambda x, w: [(b := torch.outer(x, x))[0].detach(), {"column": b[:, 0]}],
        lambda x, w: (lambda b: (b[0].add_(1), b[0]))(torch.outer(x, w)),
        lambda x, w: (lambda b: (b.diagonal(), b.t()[1:]))(torch.outer(x, w)),
        lambda x, w: torch.cat([x, w]).chunk(2),
    ],
    ids=["detached part", "row and column", "overlap", "unbound", "outer", "written", "diagonal", "apart"],
)
@pytest.mark.parametrize("recorded", [False, True])
def test_results_that_share_elements_of_what_is_not_returned(f, recorded):
    found = []
    for form in (lambda f: f, torch.compile):
        w, run = torch.ones(3, requires_grad=recorded), form(f)
        for _ in range(3):
            outs = run(torch.arange(3.0), w)
            outs = [next(iter(o.values())) if isinstance(o, dict) else o for o in outs]
            for k, o in enumerate(outs):
                o.data.add_(10 + k)
            found.append([(_shown(t)[0], t.requires_grad, t.shape) for t in outs])
            if outs[0].requires_grad:
                (outs[0] * 2).sum().backward()
            found.append(_shown(w))
    assert found[6:] == found[:6]


SHAPES = {
    "t_": lambda t: t.t_(),
    "unsqueeze_": lambda t: t.unsqueeze_(0),
    "squeeze_": lambda t: t.squeeze_(),
    "transpose_": lambda t: t.transpose_(0, 1),
    "as_strided_": lambda t: t.as_strided_((2,), (1,)),
    "resize_": lambda t: t.resize_(3, 1),
    "and a write": lambda t: t.t_().add_(1),
}


@pytest.mark.parametrize("change", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("returned", [False, True])
@pytest.mark.parametrize("place", ["argument", "outside"])
def test_the_shape_of_a_tensor_from_outside_is_changed(change, returned, place):
    found = []
    for form in (lambda f: f, torch.compile):
        w, x = torch.arange(3.0).view(1, 3).clone(), torch.arange(3.0).view(1, 3).clone()

        def f(x, w=w):
            out = change(x if place == "argument" else w)
            return out if returned else x.sum()

        f = form(f)
        for k in range(3):
            if form is torch.compile and k == 0:
                with pytest.warns(UserWarning, match="changes the shape|other memory"):
                    out = f(x)
            else:
                out = f(x)
            out.add_(10)
            x, shown = x.detach(), (x.tolist(), x.shape, w.tolist(), w.shape)
            found.append((out.tolist(), *shown))
            x, w.data = torch.arange(3.0).view(1, 3).clone(), w.data.reshape(1, -1)
    assert found[3:] == found[:3]


FLAGS = {
    "an argument": lambda x, w: x.requires_grad_(),
    "outside": lambda x, w: w.requires_grad_().detach(),
    "an attribute": lambda x, w: setattr(w, "requires_grad", True),
    "taken back": lambda x, w: (w.requires_grad_(), w.requires_grad_(False))[1] * 2,
    "turned off": lambda x, w: (w.requires_grad_(), w.detach_(), x.detach() * 2)[2],
    "with a pass inside": lambda x, w: (w.requires_grad_() * x).sum().backward(),
    "a pass to an argument": lambda x, w: (x.requires_grad_() * w).sum().backward(),
}


@pytest.mark.parametrize("f", FLAGS.values(), ids=FLAGS)
@pytest.mark.parametrize("before", [False, True])
def test_the_flag_of_a_tensor_from_outside_is_set(f, before):
    found = []
    for form in (lambda f: f, lambda f: torch.compile(f, fullgraph=True)):
        w, x = torch.ones(3, requires_grad=before), torch.arange(3.0).requires_grad_(before)
        run = form(lambda x, w=w: f(x, w))
        for _ in range(4):
            out = run(x)
            found.append((_shown(out), _shown(x), _shown(w), out is x, out is w))
    assert found[4:] == found[:4]


def test_a_training_step_that_freezes_a_part_each_time_is_compiled_twice_at_most():
    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
    opt = torch.optim.SGD(net.parameters(), lr=0.1)

    def step(x):
        net[0].requires_grad_(False)
        opt.zero_grad()
        net(x).sum().backward()
        opt.step()

    step = torch.compile(step, fullgraph=True)
    first = net[0].weight.tolist()
    for _ in range(5):
        step(torch.ones(4, 2))
    assert net[0].weight.tolist() == first
    assert net[0].weight.grad is None
    assert not net[0].weight.requires_grad
    assert step.counts["traced"] <= 3


def test_what_requires_a_gradient_from_inside_on_and_is_returned_with_its_graph():
    w = torch.ones(3)
    f = torch.compile(lambda x: (w.requires_grad_() * x).sum())
    with pytest.warns(UserWarning, match="requires_grad"):
        f(torch.arange(3.0)).backward()
    assert w.grad.tolist() == [0, 1, 2]


VIEWED = {
    "a part": lambda b: (b * 1)[1:],
    "a part of a leaf": lambda b: b[1:],
    "turned": lambda b: b.t(),
    "conjugated": lambda b: torch.complex(b, b).conj(),
    "as another dtype": lambda b: torch.view_as_complex(b.view(3, 1, 2)),
    "expanded": lambda b: b[0].expand(2, 2),
    "detached": lambda b: b[1:].detach().requires_grad_(b.requires_grad),
}
OF_A_VIEW = {
    "itself": lambda x: x,
    "a row": lambda x: x[0],
    "turned": lambda x: x.t(),
    "detached": lambda x: x.detach()[0],
    "two": lambda x: (x[0], x[:, 0]),
}


@pytest.mark.filterwarnings("ignore:torch.compile")
@pytest.mark.parametrize("f", OF_A_VIEW.values(), ids=OF_A_VIEW)
@pytest.mark.parametrize("make", VIEWED.values(), ids=VIEWED)
@pytest.mark.parametrize("place", ["argument", "outside"])
def test_views_of_what_is_a_view_outside_share_its_memory(f, make, place):
    found = []
    for form in (lambda f: f, torch.compile):
        for recorded in (False, True):
            base = torch.arange(6.0).view(3, 2).clone().requires_grad_(recorded)
            x = make(base)
            run = form((lambda y: f(y)) if place == "argument" else (lambda _, x=x: f(x)))
            for _ in range(3):
                out = run(x)
                first = out[0] if isinstance(out, tuple) else out
                first.detach()[(0,) * first.dim()].add_(10)
                found.append((str(out), str(x), str(base), first.is_leaf))
    assert found[6:] == found[:6]


FROM_WHAT_IS_DETACHED = {
    "a column": lambda x: (x[1:].detach()[:, 1:],),
    "beside it": lambda x: (detached := x[1:].detach(), detached[:, ::2], x[1:]),
    "of .data": lambda x: (x.chunk(3)[1].data.t(),),
    "twice": lambda x: (x[1:].detach()[:, 1:].detach()[1:],),
    "conjugated": lambda x: (x[1:].conj().detach()[:, 1:], x.conj()[1:].detach().imag),
    "another dtype": lambda x: (torch.view_as_real(x)[1:].detach()[:, 1:],),
    "half of it": lambda x: (x.imag[1:].detach()[:, 1:], x.real[2:].detach()),
}


@pytest.mark.filterwarnings("ignore:torch.compile")
@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("f", FROM_WHAT_IS_DETACHED.values(), ids=FROM_WHAT_IS_DETACHED)
def test_a_view_of_what_is_detached_from_a_view_is_where_it_is(f, recorded):
    """Its elements, and the place of a write to it, are those of eager code."""
    found = []
    for form in (lambda f: f, torch.compile):
        run = form(f)
        for _ in range(2):
            x = torch.complex(torch.arange(12.0), -torch.arange(12.0)).reshape(4, 3)
            outs = run(x.requires_grad_(recorded))
            shown = [str(t.detach()) for t in outs]
            outs[0].detach().zero_()
            found.append((shown, x.tolist(), outs[0].storage_offset()))
    assert found[2:] == found[:2]


@pytest.mark.filterwarnings("ignore:torch.compile")
@pytest.mark.parametrize("make", [lambda x: x.reshape(-1), lambda x: x[1:]], ids=["whole", "part"])
def test_a_view_that_is_made_require_a_gradient_does(make):
    f = torch.compile(lambda x: make(x).requires_grad_())
    x = torch.ones(2, 2)
    for _ in range(2):
        out = f(x)
        assert out.requires_grad
        out.detach().add_(1)
    assert x[1].tolist() == [3.0, 3.0]
