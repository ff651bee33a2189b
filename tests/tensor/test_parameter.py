"""Parameters and buffers as tensors; compared with torch."""

import copy
import pickle

import torchgrad_jax as tg
from tests.programs import Programs, plain_subclass
from torchgrad_jax._engine.graph.record import PLAIN

program = Programs()
test_same_as_torch = program.test()


def attempt(fn):
    try:
        return fn()
    except Exception as error:
        text = str(error).partition(" in <")[0]  # what follows names torch's C functions
        return type(error).__name__, text


def kind(x):
    return type(x).__name__


@program
def made_from_tensors(m):
    parameter, x = m.nn.Parameter, m.ones(2)
    made = [parameter(x), parameter(x, False), parameter(), parameter(None), parameter(parameter(x))]
    return made, [kind(p) for p in made], [repr(p) for p in made]


@program
def shares_storage_and_counter(m):
    x = m.ones(2)
    p = m.nn.Parameter(x)
    x.add_(1)
    return p, p._version, p.data_ptr() == x.data_ptr(), p.is_leaf


@program
def drops_history(m):
    p = m.nn.Parameter(m.ones(2, requires_grad=True) * 2)
    with m.no_grad():
        q = m.nn.Parameter(m.ones(1))
    return p, p.is_leaf, q.requires_grad


@program
def dtypes(m):
    return (
        m.nn.Parameter(m.tensor([1]), requires_grad=False),
        m.nn.Parameter(m.ones(1, dtype=m.complex64)),
        attempt(lambda: m.nn.Parameter(m.tensor([1]))),
    )


@program.raises
def not_a_tensor(m):
    return m.nn.Parameter([1.0])


@program
def operators_give_plain_tensors(m):
    p = m.nn.Parameter(m.ones(2))
    made = [p + 1, 1 - p, p[0], p.view(2), p.clone(), p.detach(), p.data, p.to(m.float64), m.relu(p), p.t(), *p]
    same = [p.float(), p.cpu(), p.contiguous(), p.requires_grad_()]
    return [kind(x) for x in made], [x is p for x in same]


@program
def in_place(m):
    p = m.nn.Parameter(m.ones(2))
    with m.no_grad():
        q = p.add_(1)
        p[0] = 5.0
    return q is p, p, p._version, attempt(lambda: p.add_(1))


@program
def trained(m):
    p = m.nn.Parameter(m.tensor([1.0, 2.0]))
    (p * p).sum().backward()
    return p.grad, kind(p.grad), kind((p * 2).grad_fn.next_functions[0][0].variable)


@program
def data_assigned(m):
    p = m.nn.Parameter(m.ones(2))
    p.grad = m.ones(2)
    p.data = m.zeros(3)
    seen = [repr(p), p._version, p.grad]
    p.data = m.zeros(3, dtype=m.float64)
    seen += [repr(p), attempt(lambda: setattr(p, "data", m.zeros(1, dtype=m.int64)))]
    p.data = m.nn.Parameter(m.ones(1))
    return seen, kind(p), p.is_leaf, p


@program
def isinstance_rules(m):
    parameter = m.nn.Parameter
    flagged, mine = m.ones(1), plain_subclass(m)([1.0])
    flagged._is_param = True
    made = parameter(mine)
    return (
        [isinstance(x, parameter) for x in (m.ones(1), flagged, mine, made, parameter(m.ones(1)), 3)],
        kind(made),
        made._is_param,
        repr(made),
        issubclass(plain_subclass(m), parameter),
    )


@program
def a_class_that_detaches_to_another(m):
    class Odd(m.Tensor):
        def detach(self):
            return m.ones(1)

    return attempt(lambda: m.nn.Parameter(Odd([1.0])))


@program
def subclasses(m):
    class Named(m.nn.Parameter):
        def __new__(cls, data, name):
            out = super().__new__(cls, data)
            out.label = name
            return out

    p = Named(m.ones(2), "w")
    return kind(p), p.label, repr(p), kind(p + 1), kind(p.detach()), isinstance(p, m.nn.Parameter)


@program
def deep_copies(m):
    p = m.nn.Parameter(m.ones(2))
    p.grad, p.note = m.ones(2), "x"
    p.register_hook(lambda g: g)
    q, again = copy.deepcopy([p, p])
    return q, kind(q), q.grad, hasattr(q, "note"), q._backward_hooks, q is again, q._version


@program
def shallow_copies_and_pickles(m):
    p = m.nn.Parameter(m.ones(2), requires_grad=False)
    p.note = "x"
    q, r = copy.copy(p), pickle.loads(pickle.dumps(p))
    p[0] = 5.0
    return [(kind(x), x, x.note, x.requires_grad, x.grad) for x in (q, r)]


@program
def texts_of_scalars(m):
    p = m.nn.Parameter(m.tensor(1.5))
    return repr(p), str(p), f"{p}", attempt(lambda: f"{p:.2f}")


@program
def buffers(m):
    buffer, x = m.nn.Buffer, m.ones(2, requires_grad=True)
    made = [buffer(m.ones(1)), buffer(x), buffer(x * 2), buffer(), buffer(m.ones(1), persistent=False)]
    return (
        made,
        [kind(b) for b in made],
        [b.__dict__ for b in made],
        [isinstance(b, buffer) for b in made],
        isinstance(x, buffer),
        kind(buffer(plain_subclass(m)([1.0]))),
        attempt(lambda: buffer([1.0])),
    )


@program
def uninitialized(m):
    u = m.nn.UninitializedParameter()
    seen = [
        repr(u),
        u.dtype,
        u.requires_grad,
        u.is_leaf,
        u.grad,
        kind(u.to(m.float64)),
        u.size(),
        u.is_floating_point(),
        isinstance(u, m.nn.Parameter),
        m.nn.parameter.is_lazy(u),
    ]
    refused = [
        lambda: u.shape,
        lambda: u + 1,
        lambda: m.sum(u),
        lambda: u[0],
        lambda: len(u),
        lambda: u.detach(),
        lambda: u.numel(),
        lambda: u == u,
        lambda: m.ones(1) + u,
        lambda: u.share_memory_(),
        lambda: f"{u}",
    ]
    return seen, [attempt(f) for f in refused]


@program
def materialized(m):
    u = m.nn.UninitializedParameter(dtype=m.float64)
    u.materialize((2, 3))
    v = m.nn.UninitializedParameter(requires_grad=False)
    v.materialize((2,), dtype=m.float16)
    b = m.nn.UninitializedBuffer(persistent=False)
    before = kind(b), repr(b), m.nn.parameter.is_lazy(b)
    b.materialize((2,))
    return [(kind(x), x.shape, x.dtype, x.requires_grad) for x in (u, v, b)], b.__dict__, before


@program
def copies_of_uninitialized(m):
    u = m.nn.UninitializedParameter(False, dtype=m.float64)
    q, r = copy.deepcopy(u), pickle.loads(pickle.dumps(u))
    return [(kind(x), x.requires_grad) for x in (q, r)], q.dtype


@program
def is_lazy(m):
    return m.nn.parameter.is_lazy(m.ones(1)), m.nn.parameter.is_lazy(None)


def test_parameters_take_the_fast_path():
    assert tg.nn.Parameter in PLAIN
    assert tg.nn.Parameter(tg.ones(1))._x is None
    assert pickle.loads(pickle.dumps(tg.nn.Parameter(tg.ones(1))))._x is None
