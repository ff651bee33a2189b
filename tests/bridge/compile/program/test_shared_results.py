"""Results of compiled functions that share memory with arguments and tensors from outside."""

import copy

import pytest

import torchgrad_jax as torch

VIEWS = {
    "select": lambda t: t[0],
    "transpose": lambda t: t.t(),
    "reshape": lambda t: t.view(-1),
    "slice": lambda t: t[1:, ::2],
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_of_a_buffer(name):
    def step(x):
        buffer.add_(x)
        return VIEWS[name](buffer)

    buffer = torch.zeros(3, 2)
    f = torch.compile(step)
    for k in range(3):
        out = f(torch.ones(2))
        eager = VIEWS[name](buffer)
        assert out._base is buffer
        assert (out.shape, out.stride(), out.storage_offset()) == (eager.shape, eager.stride(), eager.storage_offset())
        assert out._version == buffer._version == 2 * k + 1
        out.mul_(1)
        assert out.tolist() == eager.tolist()
    out.fill_(7.0)
    assert (VIEWS[name](buffer) == 7).all()


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_of_a_parameter(name):
    w = torch.ones(3, 2, requires_grad=True)
    f = torch.compile(lambda x: (VIEWS[name](w), (w * x).sum()))
    for _ in range(2):
        view, loss = f(torch.ones(2))
        eager = VIEWS[name](w)
        assert view._base is w
        assert view.requires_grad
        assert view.grad_fn.name() == eager.grad_fn.name()
        w.grad = None
        (view.sum() * 3 + loss).backward()
        got, w.grad = w.grad, None
        (eager.sum() * 3 + w.sum()).backward()
        assert got.tolist() == w.grad.tolist()


COMPLEX = {
    "real": lambda t: t.real,
    "imag": lambda t: t.imag,
    "both": torch.view_as_real,
    "conjugate": lambda t: t.conj(),
    "conjugate transpose": lambda t: t.mH,
    "part of a conjugate": lambda t: t.conj()[:, 1:],
    "imaginary part of a conjugate": lambda t: t.conj().imag,
    "part of a real part": lambda t: t.t().real[1],
}


def _looking(name, tensor):
    return lambda x: COMPLEX[name](x if tensor is None else tensor)


@pytest.mark.parametrize("name", COMPLEX)
@pytest.mark.parametrize("outside", [False, True])
@pytest.mark.parametrize("requires_grad", [False, True])
def test_a_view_of_complex_numbers(name, outside, requires_grad):
    looks = []
    for form in (lambda f: f, torch.compile):
        z = torch.tensor([[1 + 2j, 3 - 1j], [2j, 4.0]]).requires_grad_(requires_grad)
        step = form(_looking(name, z if outside else None))
        for _ in range(2):
            view = step(z)
            if requires_grad:
                (view * view).real.sum().backward()
            with torch.no_grad():
                z.mul_(2)
            looks.append(
                (
                    view.resolve_conj().tolist(),
                    view.stride(),
                    view.storage_offset(),
                    view._base is z,
                    z.grad is None,
                    view.is_conj(),
                    z.grad is not None and z.grad.tolist(),
                    view.grad_fn and view.grad_fn.name(),
                )
            )
    assert looks[:2] == looks[2:]


class Part(torch.autograd.Function):
    """A view that a custom Function gives."""

    @staticmethod
    def forward(ctx, x):
        return x[:1]

    @staticmethod
    def backward(ctx, g):
        return torch.cat([g, g * 0])


def test_a_view_that_a_custom_function_gives_has_the_memory_of_the_argument():
    x = torch.ones(2, requires_grad=True)
    with pytest.warns(UserWarning, match="a view of an argument that a custom Function made"):
        part = torch.compile(Part.apply)(x)
    with torch.no_grad():
        x.mul_(5)
    assert part.tolist() == [5]


def _nested(x):
    h = x.detach()
    return h, [h, {"again": h}]


REPEATED = {
    "computed": lambda x, w: (x * 2,) * 2,
    "part of what was computed": lambda x, w: ((x * 2)[1:],) * 2,
    "argument": lambda x, w: (x,) * 2,
    "view of an argument": lambda x, w: (x[1:],) * 2,
    "view of a tensor from outside": lambda x, w: (w.view(-1, 1),) * 2,
    "detached": lambda x, w: _nested(x),
    "parameter": lambda x, w: (torch.nn.Parameter(x.detach() * 2),) * 2,
}


@pytest.mark.parametrize("name", REPEATED)
def test_a_result_that_is_returned_twice_is_one_tensor(name):
    w = torch.ones(3, requires_grad=True)
    step = torch.compile(lambda x: REPEATED[name](x, w))
    for x in (torch.ones(3), torch.ones(3), torch.ones(3, requires_grad=True)):
        first, *others = torch.utils._pytree.tree_leaves(step(x))
        assert all(t is first for t in others)


def test_a_lone_view_of_a_parameter():
    w = torch.ones(2, requires_grad=True)
    f = torch.compile(lambda x: w.view(2, 1))
    out = f(torch.ones(2))
    out.sum().backward()
    assert w.grad.tolist() == [1.0, 1.0]


def test_tensors_themselves():
    w, buffer, x = torch.ones(2, requires_grad=True), torch.zeros(2), torch.arange(2.0)

    def step(x):
        buffer.copy_(x)
        return w, buffer, x, {"x": x}

    f = torch.compile(step)
    for _ in range(2):
        a, b, c, d = f(x)
        assert a is w
        assert b is buffer
        assert c is x
        assert d["x"] is x


OUTSIDE_VIEWS = {
    "of a reshaped one": lambda: torch.arange(4.0).view(2, 2),
    "a row": lambda: torch.arange(8.0).view(2, 2, 2)[1],
    "with gaps": lambda: torch.arange(8.0).view(2, 4)[:, ::2],
    "detached": lambda: torch.arange(8.0).view(2, 2, 2)[1].detach(),
    "of a parameter": lambda: torch.nn.Parameter(torch.ones(2, 2, 2))[1],
    "of a view of a parameter": lambda: torch.nn.Parameter(torch.ones(2, 8)).view(2, 4, 2)[1][1:3],
    "conjugated": lambda: torch.ones(2, 2, dtype=torch.complex64).conj(),
}


@pytest.mark.parametrize("written", [False, True])
@pytest.mark.parametrize("name", OUTSIDE_VIEWS)
def test_a_view_from_outside_is_returned_itself(name, written):
    held = OUTSIDE_VIEWS[name]()
    written = written and not held.requires_grad

    def step(x):
        if written:
            held.add_(1)
        return {"held": held, "y": held.detach() * x}

    f = torch.compile(step)
    before = held.tolist()
    for _ in range(3):
        out = f(torch.ones(2))
        assert out["held"] is held
        assert out["y"].tolist() == held.tolist()
    assert (held - 3 * written).tolist() == before
    assert f.counts == {"traced": 1, "run": 3, "eager": 0}


@pytest.mark.parametrize("make", [lambda w: w[0], lambda w: w.view(-1), lambda w: w.detach()[0]])
def test_a_view_made_inside_is_a_new_one_in_each_call(make):
    w = torch.ones(2, 2)
    make(w)  # so that the view is a known one when the function is traced
    f = torch.compile(lambda x: (make(w), x * 2))
    first, second = f(torch.ones(2))[0], f(torch.ones(2))[0]
    if first._base is not None:
        assert first is not second
    first.add_(1)
    assert second.tolist() == first.tolist() == make(w).tolist()


def test_views_of_arguments():
    f = torch.compile(lambda x, y: (x[0], x.t(), y.view(-1), x + y))
    x, y = torch.ones(2, 2), torch.ones(2, 2, requires_grad=True)
    for _ in range(2):
        row, turned, flat, total = f(x, y)
        assert row._base is x
        assert turned._base is x
        assert flat._base is y
        assert total._base is None
    row.fill_(5.0)
    assert x.tolist() == [[5.0, 5.0], [1.0, 1.0]]
    y.grad = None
    (flat * 2).sum().backward()
    assert y.grad.tolist() == [[2.0, 2.0], [2.0, 2.0]]


def test_an_argument_that_is_a_view_itself():
    whole = torch.arange(6.0)
    f = torch.compile(lambda x: x[1:])
    for part in (whole[:3], whole[3:]):
        out = f(part)
        assert out.tolist() == part[1:].tolist()
        part.mul_(2)
        assert out.tolist() == part[1:].tolist()
        assert out._base is whole


def test_detached_tensors_share_memory():
    w = torch.ones(2, requires_grad=True)
    f = torch.compile(lambda x: (w.detach(), w * x))
    for _ in range(2):
        out, _ = f(torch.ones(2))
        assert not out.requires_grad
        assert out.data_ptr() == w.data_ptr()


def test_what_is_made_inside_is_new():
    buffer = torch.zeros(2)

    def step(x):
        y = buffer.clone()
        y.add_(x)
        return y, y[0]

    f = torch.compile(step)
    first, second = f(torch.ones(2)), f(torch.ones(2))
    first[0].fill_(9.0)
    assert first[1].item() == 9.0
    assert second[0].tolist() == [1.0, 1.0]
    assert buffer.tolist() == [0.0, 0.0]


MADE = {
    "view": lambda y: (y, y.view(-1)),
    "view first": lambda y: (y[:, 1], y),
    "detached": lambda y: (y, y.detach()),
    "view of detached": lambda y: (y, y.detach().t()[1:]),
    "twice": lambda y: (y, y),
    "view twice": lambda y: (y, *[y[1:]] * 2),
    "view of a view": lambda y: (y, y.t()[1]),
    "no_grad": lambda y: (y, unrecorded(y)),
}


def unrecorded(y):
    with torch.no_grad():
        return y.unsqueeze(-1)


@pytest.mark.parametrize("requires", [False, True])
@pytest.mark.parametrize("name", MADE)
def test_results_share_memory_with_each_other(name, requires):
    """What is written to one result is seen in the other, as in eager code, and gradients go the same way."""
    found = []
    for form in (lambda f: f, torch.compile):
        x = torch.arange(6.0).view(2, 3).requires_grad_(requires)
        step = form(lambda x: MADE[name](x * 2))
        for _ in range(2):
            out = step(x)
            if requires:
                sum(t.sum() for t in out if t.requires_grad).backward()
            with torch.no_grad():
                out[0].mul_(3)
            same = [out[0] is t for t in out]
            found.append([(t.tolist(), t.stride(), t._version, t.requires_grad) for t in out] + same)
        found.append(None if x.grad is None else x.grad.tolist())
    half = len(found) // 2
    assert found[:half] == found[half:]


@pytest.mark.parametrize("name", MADE)
def test_results_share_memory_with_arguments(name):
    found = []
    for form in (lambda f: f, torch.compile):
        x = torch.arange(6.0).view(2, 3).clone().requires_grad_()
        step = form(lambda x: MADE[name](x))
        for _ in range(2):
            out = step(x)
            if name == "no_grad":  # what nobody recorded is a leaf of its own
                out[1].sum().backward()
                assert x.grad is None
            with torch.no_grad():
                x.mul_(3)
            found.append([(t.tolist(), t.stride(), t._version) for t in out])
    half = len(found) // 2
    assert found[:half] == found[half:]


def test_gradients_are_looked_up_anew():
    w = torch.ones(2, requires_grad=True)

    def step(x):
        w.grad = None
        (w * x).sum().backward()
        return w.grad

    f = torch.compile(step)
    assert f(torch.ones(2)).tolist() == [1.0, 1.0]
    assert f(torch.ones(2) * 3).tolist() == [3.0, 3.0]


def _view_and_whole(x):
    whole = torch.arange(4.0)
    return whole[1:], whole


def _twice_and_used(x):
    z = torch.zeros(2)
    return z, x * z, z


CONSTANTS = {
    "one": lambda x: torch.zeros(2),
    "beside a value": lambda x: (torch.tensor([1.0, 2.0]), x * 2),
    "detached": lambda x: (torch.ones(2).detach(), x),
    "view and whole": _view_and_whole,
    "twice, and used": _twice_and_used,
}


@pytest.mark.parametrize("f", CONSTANTS.values(), ids=CONSTANTS)
def test_a_returned_constant_is_a_new_one_in_each_call(f):
    compiled = torch.compile(f)
    for k in range(3):
        x = torch.full((2,), k + 1.0)
        results = [f(x), compiled(x)]
        eager, ours = ([out] if isinstance(out, torch.Tensor) else list(out) for out in results)
        for outs in (eager, ours):
            outs[0].add_(10)
        assert [t.tolist() for t in ours] == [t.tolist() for t in eager]


def test_a_gradient_that_a_compiled_function_sets_to_zeros_is_a_new_one_in_each_call():
    w = torch.ones(2, requires_grad=True)

    @torch.compile
    def clear():
        w.grad = torch.zeros(2)

    for _ in range(3):
        clear()
        (w * 3).sum().backward()
        assert w.grad.tolist() == [3, 3]


def test_a_returned_constant_that_is_kept_outside_is_the_one_outside():
    kept = {}

    @torch.compile
    def f(x):
        kept["state"] = torch.zeros(2)
        return kept["state"]

    for _ in range(3):
        f(torch.ones(2)).add_(1)
        assert kept["state"].tolist() == [1, 1]


@pytest.mark.parametrize(
    "make",
    [lambda: torch.zeros(2, requires_grad=True), lambda: torch.nn.Parameter(torch.zeros(2))],
    ids=["leaf", "parameter"],
)
def test_a_leaf_that_a_compiled_function_makes_and_returns_is_one(make):
    out = torch.compile(lambda x: make())(torch.ones(1))
    (out * 3).sum().backward()
    assert type(out) is type(make())
    assert out.is_leaf
    assert out.grad.tolist() == [3, 3]


LOOKS = {
    "values": lambda t: t.tolist(),
    "text": repr,
    "formatted": lambda t: f"{t}",
    "memory": lambda t: t.data_ptr(),
    "version": lambda t: t._version,
    "nothing": lambda t: None,
}


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_a_leaf_whose_values_were_looked_at_is_a_leaf(look):
    """It came back without `requires_grad`."""

    def made():
        leaf = torch.nn.Parameter(torch.ones(2))
        seen = look(leaf)
        apart = leaf.detach()
        apart.add_(1)
        return leaf, apart, seen

    fast = torch.compile(made)
    for _ in range(2):
        leaf, apart, seen = fast()
        assert leaf.requires_grad
        assert not apart.requires_grad
        assert [leaf.tolist(), apart.tolist()] == [[2, 2]] * 2
        assert isinstance(seen, int) or seen == look(torch.nn.Parameter(torch.ones(2)))


def a_part_of_a_flat_tensor():
    w, flat = torch.nn.Parameter(torch.ones(2, 3)), torch.arange(12.0)
    w.grad = flat[:6].view(2, 3)
    w.grad.mul_(2)
    return flat, w.grad


def beside_another_part():
    flat, grad = a_part_of_a_flat_tensor()
    return flat[3:9], grad


def of_a_copy_of_a_leaf():
    w = torch.ones(2, requires_grad=True)
    w.grad = torch.full((2,), 3.0)
    again = copy.deepcopy(w)
    again.grad.add_(1)
    return w.grad, again.grad


def of_a_parameter_that_got_other_data():
    w = torch.nn.Linear(2, 3).weight
    w.grad = torch.ones(3, 2)
    w.data = torch.zeros(3, 2)
    w.grad.add_(1)
    return w.grad, w.data


@pytest.mark.filterwarnings("ignore:torch.compile")
@pytest.mark.parametrize(
    "step", [a_part_of_a_flat_tensor, beside_another_part, of_a_copy_of_a_leaf, of_a_parameter_that_got_other_data]
)
def test_a_gradient_that_is(step):
    """The first raised an error about a storage that was resized, the last ones an error of JAX's."""
    fast = torch.compile(step)
    for _ in range(2):
        got, want = fast(), step()
        assert [t.tolist() for t in got] == [t.tolist() for t in want]
        got[0].fill_(9.0), want[0].fill_(9.0)
        assert [t.tolist() for t in got] == [t.tolist() for t in want]


CHANGEABLE = {
    "generator": torch.Generator,
    "optimizer": lambda: torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1),
    "scaler": lambda: torch.amp.GradScaler("cpu"),
    "loader": lambda: torch.utils.data.DataLoader([1, 2]),
    "distribution": lambda: torch.distributions.Normal(0.0, 1.0),
    "module": lambda: torch.nn.Dropout(0.5),
}


@pytest.mark.filterwarnings("ignore:torch.compile")
@pytest.mark.parametrize("make", CHANGEABLE.values(), ids=CHANGEABLE)
def test_each_call_returns_an_object_of_its_own(make):
    f = torch.compile(lambda x: make())
    first, second, third = (f(torch.ones(1)) for _ in range(3))
    assert len({id(first), id(second), id(third)}) == 3


def test_a_parameter_is_shown_once():
    w = torch.nn.Parameter(torch.tensor(1.5))
    assert torch.compile(lambda: repr(w))() == repr(w)


PARTS = {
    "unsafe_split": lambda t: t.unsafe_split(2)[0],
    "unsafe_chunk": lambda t: t.unsafe_chunk(2)[1],
    "unsafe_split_with_sizes": lambda t: t.unsafe_split_with_sizes((1, 3))[1],
}


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
@pytest.mark.parametrize("kind", ["outside", "argument", "constant", "computed"])
def test_parts_that_are_no_views_share_memory(part, kind):
    """A write to such a part of a constant or of a tensor from outside was lost."""

    def step(x, given):
        whole = {"outside": outside, "argument": given, "constant": torch.zeros(4), "computed": x * 2}[kind]
        p = part(whole)
        p.add_(x[: p.shape[0]])
        return whole, p, part(whole) * 2

    found = []
    for form in (lambda f: f, torch.compile):
        outside, given, f = torch.arange(4.0), torch.arange(4.0), form(step)
        for _ in range(2):
            whole, p, twice = f(torch.ones(4), given)
            whole.mul_(3)
            found.append([t.tolist() for t in (whole, p, twice, outside, given)])
    assert found[2:] == found[:2]
