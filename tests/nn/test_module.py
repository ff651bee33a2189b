"""`nn.Module`: registration, attributes, state, hooks; compared with torch."""

import copy
import pickle
from collections import OrderedDict

import pytest

import torchgrad_jax as tg
from tests.programs import Programs

from .programs import attempt, gradients, numbers

program = Programs()
test_same_as_torch = program.test()


def net(m):
    """Two linear layers, a batch normalisation and a tensor shared by two names."""
    m.manual_seed(0)
    out = m.nn.Sequential(m.nn.Linear(3, 2), m.nn.ReLU(), m.nn.BatchNorm1d(2), m.nn.Linear(2, 2))
    out.add_module("tied", m.nn.Linear(2, 2, bias=False))
    out.tied.weight = out[3].weight
    out.register_parameter("none", None)
    out.register_buffer("loose", m.ones(2), persistent=False)
    return out


# --- registration ---------------------------------------------------------------------------------


@program
def names(m):
    n = net(m)
    return (
        [k for k, _ in n.named_parameters()],
        [k for k, _ in n.named_parameters(remove_duplicate=False)],
        [k for k, _ in n.named_parameters("pre", recurse=False)],
        [k for k, _ in n.named_buffers()],
        [k for k, _ in n.named_modules()],
        [k for k, _ in n.named_modules(prefix="x", remove_duplicate=False)],
        [k for k, _ in n.named_children()],
        [type(c).__name__ for c in n.modules()],
        list(n.state_dict()),
        list(n.state_dict(prefix="p.")),
        len(list(n.parameters())),
        len(list(n.buffers())),
        len(list(n.children())),
    )


@program
def a_layer_under_several_names(m):
    layer = m.nn.Linear(2, 2, bias=False)
    n = m.nn.Sequential(layer, m.nn.ReLU(), layer, m.nn.Sequential(layer))
    return [
        [k for k, _ in n.named_modules()],
        [k for k, _ in n.named_modules(remove_duplicate=False)],
        [k for k, _ in n.named_parameters()],
        [k for k, _ in n.named_parameters(remove_duplicate=False)],
        [k for k, _ in n.named_buffers(remove_duplicate=False)],
        len(list(n.modules())),
        list(n.state_dict()),
    ]


@program
def loaded_parameters_of_as_many_elements(m):
    layer = m.nn.Linear(2, 3, bias=False)
    before = layer.weight.detach().clone()
    state = {"weight": m.ones(3, 2).t()}
    return [attempt(lambda: layer.load_state_dict(state)), m.equal(layer.weight, before)]


@program
def hooks_that_are_called_whatever_happens(m):
    called = []

    class Fails(m.nn.Module):
        def forward(self, x):
            raise ValueError("no")

    layer = Fails()
    layer.register_forward_hook(lambda *_: called.append("only of results"))
    layer.register_forward_hook(lambda *_: called.append("first"), always_call=True)
    layer.register_forward_hook(lambda *_: called.append("second"), always_call=True)
    failed = attempt(lambda: layer(m.ones(1)))
    works = m.nn.Identity()

    def fails(*_):
        called.append("fails")
        raise ValueError("of the hook")

    works.register_forward_hook(lambda *_: called.append("before"), always_call=True)
    works.register_forward_hook(fails)
    works.register_forward_hook(lambda *_: called.append("after"), always_call=True)
    return [failed, attempt(lambda: works(m.ones(1))), called]


@program
def assignments(m):
    x = m.nn.Module()
    x.a = m.nn.Parameter(m.ones(1))
    x.b = m.ones(1)
    x.register_buffer("c", m.ones(1))
    x.d = m.nn.Linear(1, 1)
    x.e = m.nn.Buffer(m.ones(1), persistent=False)
    kinds = [list(x._parameters), list(x._buffers), list(x._modules)]
    x.c, x.a, x.d = None, None, None
    seen = [
        attempt(lambda: setattr(x, "a", 3)),
        attempt(lambda: setattr(x, "a", m.ones(1))),
        attempt(lambda: setattr(x, "c", 3)),
        attempt(lambda: setattr(x, "d", 3)),
        attempt(lambda: setattr(x, "e", "text")),
    ]
    x.b = m.nn.Parameter(m.zeros(1))
    x.c = m.nn.Linear(1, 1)
    x.d = m.nn.Parameter(m.zeros(1))
    kinds += [list(x._parameters), list(x._buffers), list(x._modules), "b" in x.__dict__]
    del x.b, x.c, x.e
    kinds += [list(x._parameters), list(x._buffers), list(x._modules), sorted(x._non_persistent_buffers_set)]
    return (kinds, seen, attempt(lambda: x.b), attempt(lambda: delattr(x, "nothing")), sorted(vars(x)))


@program
def refused_registrations(m):
    x = m.nn.Linear(1, 1)
    non_leaf = m.ones(1, requires_grad=True) * 2
    tries = [
        lambda: x.register_buffer("weight", m.ones(1)),
        lambda: x.register_buffer("a.b", m.ones(1)),
        lambda: x.register_buffer("", m.ones(1)),
        lambda: x.register_buffer(1, m.ones(1)),
        lambda: x.register_buffer("forward", m.ones(1)),
        lambda: x.register_buffer("q", 3),
        lambda: x.register_parameter("forward", None),
        lambda: x.register_parameter("a.b", None),
        lambda: x.register_parameter("", None),
        lambda: x.register_parameter(1, None),
        lambda: x.register_parameter("q", m.ones(1)),
        lambda: x.register_parameter("q", 3),
        lambda: x.add_module("weight", None),
        lambda: x.add_module("a.b", None),
        lambda: x.add_module("", None),
        lambda: x.add_module(1, None),
        lambda: x.add_module("q", 3),
        lambda: x.register_parameter("q", OrderedDict()),
        lambda: setattr(x, "weight", non_leaf),
    ]
    return [attempt(t) for t in tries]


@program
def before_init(m):
    class Early(m.nn.Module):
        def __init__(self, what):
            self.x = what

    class Unready(m.nn.Module):
        def __init__(self):
            self.register_buffer("b", None)

    return (
        attempt(lambda: Early(m.nn.Parameter(m.ones(1)))),
        attempt(lambda: Early(m.nn.Linear(1, 1))),
        attempt(lambda: Early(m.nn.Buffer(m.ones(1)))),
        attempt(lambda: Early(3).x),
        attempt(Unready),
        attempt(lambda: m.nn.Module(1)),
        attempt(lambda: m.nn.Module(a=1)),
        attempt(lambda: m.nn.Module()(m.ones(1))),
    )


@program
def finding(m):
    n = m.nn.Sequential(OrderedDict(a=m.nn.Sequential(m.nn.Linear(1, 2)), b=m.nn.BatchNorm1d(2)))
    n.value = 3
    found = [
        n.get_submodule("a.0"),
        n.get_submodule("") is n,
        n.get_parameter("a.0.weight").shape,
        n.get_buffer("b.running_mean"),
    ]
    missing = [
        lambda: n.get_submodule("a.1"),
        lambda: n.get_submodule("value"),
        lambda: n.get_parameter("a.0.q"),
        lambda: n.get_parameter("b.running_mean"),
        lambda: n.get_buffer("b.q"),
        lambda: n.get_buffer("b.weight"),
        lambda: n.set_submodule("", n),
        lambda: n.set_submodule("a.9", n, strict=True),
        lambda: n.set_submodule("a", 3),
        lambda: n.set_submodule("value", n),
        lambda: n.set_submodule("q.r", n),
    ]
    n.set_submodule("a.0", m.nn.Identity())
    n.set_submodule("c", m.nn.Identity())
    return found, [attempt(f) for f in missing], repr(n)


@program
def texts(m):
    class Inner(m.nn.Module):
        def extra_repr(self):
            return "one\ntwo"

    class Outer(m.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.list = (Inner(), m.nn.ModuleList([m.nn.ReLU(), m.nn.ReLU(), m.nn.Tanh()]))

        def extra_repr(self):
            return "x=1"

    return (repr(Outer()), repr(Inner()), repr(m.nn.Module()), [d for d in dir(Outer()) if d in ("inner", "0", "list")])


@program
def copies(m):
    n = net(m)
    n[0].register_forward_hook(print)
    n(m.ones(2, 3)).sum().backward()
    c = copy.deepcopy(n)
    s = copy.copy(n)
    return (
        c.tied.weight is c[3].weight,
        c.tied.weight is n.tied.weight,
        gradients(c),
        len(c[0]._forward_hooks),
        s[0] is n[0],
        s._parameters is n._parameters,
        c.loose,
        sorted(c._non_persistent_buffers_set),
    )


@program
def pickles(m):
    n = net(m)
    p = pickle.loads(pickle.dumps(n))
    return list(p.state_dict().items()), p.tied.weight is p[3].weight, repr(p), p.training


# --- changing all of it ---------------------------------------------------------------------------


@program
def conversions(m):
    n = net(m)
    n(m.ones(2, 3)).sum().backward()
    before = list(n.parameters())
    seen = []
    for change in (
        lambda: n.double(),
        lambda: n.half(),
        lambda: n.bfloat16(),
        lambda: n.float(),
        lambda: n.to(m.float64),
        lambda: n.to("cpu", m.float32),
        lambda: n.to(m.ones(1, dtype=m.float64)),
        lambda: n.type(m.float32),
        lambda: n.cpu(),
        lambda: n.to(device="cpu"),
        lambda: n.to(dtype=m.float64),
    ):
        seen.append(change() is n)
        seen += [str(v.dtype) for v in n.state_dict().values()] + [str(n[0].weight.grad.dtype)]
    kept = all(a is b for a, b in zip(before, n.parameters()))
    return seen, kept, attempt(lambda: n.to(m.int32)), attempt(lambda: n.to("nowhere"))


@program
def complex_modules(m):
    n = m.nn.Linear(1, 1)
    return n.to(m.complex64).weight.dtype


@program
def applied(m):
    seen = []
    n = net(m)
    out = n.apply(lambda x: seen.append(type(x).__name__))
    n.eval()
    modes = [x.training for x in n.modules()]
    n[0].train()
    modes += [x.training for x in n.modules()]
    n.requires_grad_(False)
    return (out is n, seen, modes, [p.requires_grad for p in n.parameters()], attempt(lambda: n.train(1)))


@program
def zeroed(m):
    n = m.nn.Linear(2, 2)
    n(m.ones(1, 2)).sum().backward()
    g = n.weight.grad
    n.zero_grad(set_to_none=False)
    seen = [g, n.weight.grad is g, n.bias.grad]
    n.zero_grad()
    return seen, n.weight.grad


@program
def emptied(m):
    n = net(m).to_empty(device="cpu")
    return [(k, v.shape, v.dtype) for k, v in n.state_dict().items()]


# --- state ----------------------------------------------------------------------------------------


@program
def saved_state(m):
    n = net(m)
    s = n.state_dict()
    kept = n.state_dict(keep_vars=True)
    into = {}
    n.state_dict(destination=into, prefix="a.")
    return (
        type(s).__name__,
        {k: dict(v) for k, v in s._metadata.items()},
        s["0.weight"].requires_grad,
        kept["0.weight"] is n[0].weight,
        list(into),
        s["0.weight"].data_ptr() == n[0].weight.data_ptr(),
    )


@program
def positional_arguments_of_state_dict(m):
    return list(m.nn.Linear(1, 1).state_dict(None, "p."))


@program
def loaded(m):
    a, b = net(m), net(m)
    with m.no_grad():
        for p in b.parameters():
            p.add_(1)
    weight = a[0].weight
    result = a.load_state_dict(b.state_dict())
    same = [bool((x == y).all()) for x, y in zip(a.state_dict().values(), b.state_dict().values())]
    return result, repr(result), same, a[0].weight is weight, weight._version


@program
def loading_errors(m):
    n = m.nn.Sequential(m.nn.Linear(2, 2), m.nn.BatchNorm1d(2))
    good = n.state_dict()
    bad = dict(good)
    del bad["0.bias"], bad["1.running_mean"]
    bad |= {"0.extra": m.ones(1), "2.weight": m.ones(1), "0.weight": m.ones(3, 2), "1.weight": 3}
    loose = attempt(lambda: n.load_state_dict({"0.bias": m.ones(2), "what": 1}, strict=False))
    return attempt(lambda: n.load_state_dict(bad)), loose, attempt(lambda: n.load_state_dict([1]))


@program
def loaded_scalars(m):
    n = m.nn.Module()
    n.p = m.nn.Parameter(m.tensor(1.0))
    n.load_state_dict({"p": m.tensor([2.0])})
    return n.p, attempt(lambda: n.load_state_dict({"p": m.ones(2)}))


@program
def assigned_state(m):
    n = m.nn.Sequential(m.nn.Linear(2, 2), m.nn.BatchNorm1d(2))
    n[0].weight.requires_grad_(False)
    s = {k: v.clone().double() for k, v in n.state_dict().items()}
    n.load_state_dict(s, assign=True)
    return (
        [str(v.dtype) for v in n.state_dict().values()],
        [p.requires_grad for p in n.parameters()],
        [type(p).__name__ for p in n.parameters()],
        n[1].running_mean is s["1.running_mean"],
        list(n._parameters),
        type(n[1].running_mean).__name__,
    )


@program
def extra_state(m):
    class Extra(m.nn.Linear):
        value = 1

        def get_extra_state(self):
            return {"value": self.value}

        def set_extra_state(self, state):
            self.value = state["value"]

    a, b = Extra(1, 1), Extra(1, 1)
    a.value = 5
    b.load_state_dict(a.state_dict())
    return (
        list(a.state_dict()),
        b.value,
        attempt(lambda: m.nn.Linear(1, 1).load_state_dict(a.state_dict())),
        attempt(lambda: a.load_state_dict(m.nn.Linear(1, 1).state_dict())),
        attempt(lambda: m.nn.Module().get_extra_state()),
    )


@program
def state_hooks(m):
    n, log = m.nn.Sequential(m.nn.Linear(1, 1)), []

    def post(module, state, prefix, metadata):
        log.append(("post", type(module).__name__, list(state), prefix, dict(metadata)))

    def pre(module, prefix, keep):
        log.append(("pre", type(module).__name__, prefix, keep))

    def load_pre(module, state, prefix, metadata, strict, missing, unexpected, errors):
        log.append(("load", type(module).__name__, list(state), prefix, strict))
        missing.append("made up")

    def load_old(state, prefix, metadata, strict, missing, unexpected, errors):
        log.append(("old", list(state)))

    def load_post(module, keys):
        log.append(("after", type(module).__name__, list(keys.missing_keys)))
        keys.missing_keys.clear()

    n[0].register_state_dict_post_hook(post)
    n.register_state_dict_pre_hook(pre)
    n[0].register_load_state_dict_pre_hook(load_pre)
    n[0]._register_load_state_dict_pre_hook(load_old)
    handle = n.register_load_state_dict_post_hook(load_post)
    result = n.load_state_dict(n.state_dict())
    handle.remove()
    refused = attempt(lambda: n.load_state_dict(n.state_dict()))
    n._register_state_dict_hook(lambda mod, state, prefix, meta: {"replaced": 1})
    replaced = n.state_dict()
    again = attempt(lambda: n._register_state_dict_hook(post))
    n2 = m.nn.Linear(1, 1)
    n2.register_state_dict_post_hook(lambda *a: 3)
    n2.register_load_state_dict_post_hook(lambda *a: 3)
    return (log, result, refused, replaced, again, attempt(n2.state_dict), attempt(lambda: n2.load_state_dict({})))


# --- hooks ----------------------------------------------------------------------------------------


@program
def forward_hooks(m):
    n, log = m.nn.Linear(2, 2, bias=False), []
    with m.no_grad():
        n.weight.fill_(1.0)
    n.register_forward_hook(lambda mod, args, out: log.append(("first", len(args), out)))
    n.register_forward_hook(lambda mod, args, out: out * 2)
    n.register_forward_hook(lambda mod, args, kw, out: log.append(("kw", sorted(kw), out)), with_kwargs=True)
    n.register_forward_hook(lambda mod, args, out: log.append(("front", out)), prepend=True)
    n.register_forward_pre_hook(lambda mod, args: log.append(("pre", args)))
    n.register_forward_pre_hook(lambda mod, args: args[0] + 1)
    handle = n.register_forward_pre_hook(lambda mod, args, kw: (args, {**kw}), with_kwargs=True, prepend=True)
    out = n(m.ones(1, 2))
    handle.remove()
    handle.remove()
    by_name = attempt(lambda: n(input=m.ones(1, 2)))
    return log, out, by_name, len(n._forward_pre_hooks), n._forward_pre_hooks_with_kwargs


@program.raises
def bad_forward_pre_hook(m):
    n = m.nn.Identity()
    n.register_forward_pre_hook(lambda mod, args, kw: (1, 2, 3), with_kwargs=True)
    return attempt(lambda: n(m.ones(1)))


@program
def hooks_called_always(m):
    class Fails(m.nn.Module):
        def forward(self, x):
            raise ValueError("no")

    log, n = [], Fails()
    n.register_forward_hook(lambda *a: log.append("never"))
    n.register_forward_hook(lambda mod, args, out: log.append(("always", out)), always_call=True)

    def angry(*a):
        raise RuntimeError("hook too")

    n.register_forward_hook(angry, always_call=True)
    return attempt(lambda: n(m.ones(1))), log


@program
def full_backward_hooks(m):
    n, log = m.nn.Linear(2, 2), []
    with m.no_grad():
        n.weight.copy_(m.tensor([[1.0, 2.0], [3.0, 4.0]]))
    n.register_full_backward_hook(lambda mod, gi, go: log.append((gi, go)))
    n.register_full_backward_hook(lambda mod, gi, go: (gi[0] * 10,))
    n.register_full_backward_hook(lambda mod, gi, go: log.append("front"), prepend=True)
    n.register_full_backward_pre_hook(lambda mod, go: (go[0] * 2,))
    n.register_full_backward_pre_hook(lambda mod, go: log.append(go), prepend=True)
    x = m.ones(1, 2, requires_grad=True)
    out = n(x)
    out.sum().backward()
    return log, x.grad, gradients(n), type(out.grad_fn).__name__


@program
def backward_hooks_without_inputs(m):
    n, log = m.nn.Linear(1, 1), []
    n.register_full_backward_hook(lambda mod, gi, go: log.append((gi, go)))
    n(m.ones(1, 1)).sum().backward()
    return log


@program
def bad_backward_hooks(m):
    def run(register, hook):
        n = m.nn.Linear(1, 1)
        getattr(n, register)(hook)
        return attempt(lambda: n(m.ones(1, 1, requires_grad=True)).sum().backward())

    return (
        run("register_full_backward_hook", lambda mod, gi, go: (1, 2)),
        run("register_full_backward_pre_hook", lambda mod, go: (1, 2)),
    )


@program
def older_backward_hooks(m):
    n, log = m.nn.ReLU(), []
    n.register_backward_hook(lambda mod, gi, go: log.append((gi, go)))
    x = m.tensor([1.0, -1.0], requires_grad=True)
    (n(x) * 3).sum().backward()
    two = m.nn.Sequential(m.nn.ReLU(), m.nn.ReLU())
    two.register_backward_hook(lambda mod, gi, go: log.append((gi, go)))
    two(x).sum().backward()
    full = m.nn.ReLU()
    full.register_full_backward_hook(lambda *a: None)
    return (
        log,
        x.grad,
        attempt(lambda: n.register_full_backward_hook(print)),
        attempt(lambda: full.register_backward_hook(print)),
    )


@program
def older_hooks_of_odd_results(m):
    class Odd(m.nn.Module):
        def forward(self, x):
            return {"a": x * 2}

    class Full(m.nn.Module):
        def forward(self, x):
            return [x * 2]

    n, f, log = Odd(), Full(), []
    n.register_backward_hook(lambda *a: log.append("odd"))
    f.register_full_backward_hook(lambda *a: log.append("full"))
    x = m.ones(1, requires_grad=True)
    n(x)["a"].sum().backward()
    return log, attempt(lambda: f(x))


@program
def global_hooks(m):
    g, log = m.nn.modules.module, []
    handles = [
        g.register_module_forward_pre_hook(lambda mod, args: log.append(("pre", type(mod).__name__))),
        g.register_module_forward_hook(lambda mod, args, out: log.append(("fwd", type(mod).__name__))),
        g.register_module_forward_hook(lambda mod, args, kw, out: log.append(("kw", sorted(kw))), with_kwargs=True),
        g.register_module_full_backward_pre_hook(lambda mod, go: log.append(("bpre", type(mod).__name__))),
        g.register_module_full_backward_hook(
            lambda mod, gi, go: log.append(("bwd", type(mod).__name__, len(gi), len(go)))
        ),
        g.register_module_parameter_registration_hook(lambda mod, name, p: log.append(("param", name))),
        g.register_module_buffer_registration_hook(lambda mod, name, b: log.append(("buffer", name))),
        g.register_module_module_registration_hook(lambda mod, name, x: log.append(("module", name))),
    ]
    refused = attempt(lambda: g.register_module_backward_hook(print))
    try:
        n = m.nn.Sequential(m.nn.Linear(1, 1), m.nn.BatchNorm1d(1))
        x = m.ones(2, 1, requires_grad=True)
        n(x).sum().backward()
        m.nn.Module().sub = n
    finally:
        for h in handles:
            h.remove()
    n(x)
    return log, refused


@program.raises
def hooks_of_loading_die_with_the_module(m):
    n = m.nn.Linear(1, 1)
    n.register_load_state_dict_pre_hook(lambda *a: None)
    (hook,) = n._load_state_dict_pre_hooks.values()
    del n
    return attempt(lambda: hook({}))


# --- here only ------------------------------------------------------------------------------------


def test_call_without_hooks_goes_straight_to_forward():
    module = tg.nn.Identity()
    x = tg.ones(1)
    assert module(x) is x


def test_compile_says_what_is_missing_or_works():
    module = tg.nn.Identity()
    if "compile" in dir(tg):
        module.compile()
        assert module(tg.ones(1)).tolist() == [1.0]
    else:
        with pytest.raises(NotImplementedError, match=r"torch\.compile"):
            module.compile()


def test_missing_names_say_so():
    for namespace in (tg.nn, tg.nn.init, tg.nn.utils):
        with pytest.raises(AttributeError, match=r"torchgrad_jax does not implement torch\.nn"):
            namespace.nothing_like_this


def test_numbers_are_different():
    assert len(set(numbers(tg, 3, 4).flatten().tolist())) == 12
