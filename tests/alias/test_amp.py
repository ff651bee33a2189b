"""torch.amp against torch: which functions run in which dtype, gradients, the scaler."""

import collections
import functools

import pytest

import torchgrad_jax as tg
from tests.engine.helpers import Programs, attempt, leaf, tree

PROGRAMS = Programs()


def dtypes_of(m, x):
    f, w, labels = m.nn.functional, leaf(m, 4, 8), m.tensor([1, 2, 0])
    calls = [
        lambda: f.linear(x, w), lambda: x @ w.t(), lambda: m.einsum("abc,dc->abd", x, w), lambda: f.prelu(x, m.ones(1)),
        lambda: f.conv1d(x, m.ones(4, 3, 3)), lambda: m.bmm(x, x.mT), lambda: m.baddbmm(m.ones(2, 3, 3), x, x.mT),
        lambda: f.scaled_dot_product_attention(x, x, x), lambda: m.cdist(x, x), lambda: f.mse_loss(x, x),
        lambda: f.cross_entropy(x[0], labels), lambda: f.softmax(x, -1), lambda: f.layer_norm(x, (8,)), lambda: x.sum(),
        lambda: x.exp(), lambda: x.prod(), lambda: m.cat([x, m.ones(1, 3, 8)]), lambda: m.fft.fft(x), lambda: x.norm(),
        lambda: f.binary_cross_entropy_with_logits(x, x), lambda: f.gelu(x), lambda: x + 1,
    ]  # fmt: skip
    return [str(out.dtype) if isinstance(out, m.Tensor) else out for out in map(attempt, calls)]


@PROGRAMS
def dtypes_on_cpu(m):
    x = leaf(m, 2, 3, 8, requires_grad=False)
    with m.autocast("cpu", dtype=m.bfloat16):
        return [dtypes_of(m, x), dtypes_of(m, x.bfloat16())]


@PROGRAMS
def products_inside_of_other_functions(m):
    x = leaf(m, 3, 3)
    calls = {
        "einsum": lambda: m.einsum("ij,jk->ik", x, x),
        "transposed": lambda: m.einsum("ij->ji", x),
        "elementwise": lambda: m.einsum("ij,ij->ij", x, x),
        "chain": lambda: m.einsum("ij,jk,kl->il", x, x, x),
        "tensordot": lambda: m.tensordot(x, x, 1),
        "dot": lambda: m.tensordot(x, x, 2),
        "inner": lambda: m.inner(x, x),
        "cov": lambda: m.cov(x),
        "corrcoef": lambda: m.corrcoef(x),
        "power": lambda: m.linalg.matrix_power(x, 3),
    }
    with m.autocast("cpu"):
        return {name: (str(out.dtype), tree(out.grad_fn)) for name, out in ((k, f()) for k, f in calls.items())}


@PROGRAMS
def joins_of_dtypes(m):
    one = m.ones(2)
    x, h, b, d, i = one, one.half(), one.bfloat16(), one.double(), one.long()
    lists = [
        [x, h],
        [h, x],
        [h, h],
        [b, b],
        [x, b],
        [h, b],
        [d, h],
        [d, d],
        [i, i],
        [i, b],
        [x, h, b],
        [h, b, x],
        [b, i, x],
    ]
    found = []
    for lower in (m.bfloat16, m.float16):
        with m.autocast("cpu", dtype=lower):
            for given in lists:
                out = attempt(lambda given=given: m.cat(given))
                found.append(str(out.dtype) if isinstance(out, m.Tensor) else out)
    return found


@PROGRAMS
def modes_of_the_user_see_calls(m):
    calls = []

    class Log(m.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            calls.append(func.__name__)
            return func(*args, **(kwargs or {}))

    x = leaf(m, 3, 3)
    with Log(), m.autocast("cpu"):
        out = [m.add(x, x).dtype, m.einsum("ij,jk->ik", x, x).dtype, m.mm(x, x).dtype]
    return [str(d) for d in out], calls


@PROGRAMS
def gradients_and_kept_casts(m):
    w, x = leaf(m, 3, 4), leaf(m, 2, 4)
    with m.autocast("cpu"):
        a, b = m.nn.functional.linear(x, w), m.nn.functional.linear(x, w)
        inside = m.is_autocast_enabled("cpu"), m.is_autocast_enabled()
        with m.autocast("cpu", enabled=False):
            full = m.nn.functional.linear(x, w)
        loss = m.nn.functional.mse_loss(a + b, m.zeros(2, 3))
    loss.backward()
    # Both products came from one cast of the parameter.
    casts = [n.grad_fn.next_functions[1][0].next_functions[0][0] for n in (a, b)]
    return [
        a,
        full.dtype,
        loss.dtype,
        w.grad.dtype,
        w.grad.bfloat16(),  # a kernel may skip roundings on the way to float32
        inside,
        m.is_autocast_enabled("cpu"),
        str(m.get_autocast_dtype("cpu")),
        tree(a.grad_fn),
        casts[0].name(),
        casts[0] is casts[1],
    ]


@PROGRAMS
def as_a_decorator(m):
    @m.autocast("cpu", dtype=m.float16)
    def step(x):
        return x @ x

    return [step(m.ones(2, 2)), m.ones(2, 2) @ m.ones(2, 2)]


@PROGRAMS
def refusals(m):
    return [
        attempt(lambda: m.autocast(3)),
        attempt(lambda: m.amp.autocast("cpu", dtype=m.float32)._enabled),
        attempt(lambda: m.amp.GradScaler("cpu").update()),
        attempt(lambda: m.amp.GradScaler("cpu").scale(3)),
        attempt(lambda: m.amp.GradScaler("cpu", growth_factor=1.0)),
    ]


@PROGRAMS
def scaling(m):
    p = leaf(m, 3)
    opt = m.optim.SGD([p], lr=0.5)
    scaler = m.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)
    seen = [scaler.get_scale(), scaler.state_dict()]
    for factor in (1.0, 1.0, float("inf"), 1.0):
        opt.zero_grad()
        loss = (p * factor).sum()
        scaler.scale(loss).backward()
        scaled = p.grad.clone()
        scaler.unscale_(opt)
        again = attempt(lambda: scaler.unscale_(opt))
        scaler.step(opt)
        scaler.update()
        seen.append([scaled, p.detach().clone(), scaler.get_scale(), again])
    state = scaler.state_dict()
    other = m.amp.GradScaler("cpu")
    other.load_state_dict(state)
    off = m.amp.GradScaler("cpu", enabled=False)
    return [seen, state, other.get_scale(), off.get_scale(), off.state_dict(), off.scale(p) is p]


@PROGRAMS
def a_gradient_that_overflowed_beside_others(m):
    """In each place among gradients of two dtypes: the step is left out."""
    seen = []
    for where in range(4):
        ps = [m.nn.Parameter(m.ones(2, dtype=dtype)) for dtype in (m.float32, m.float64, m.float32, m.float64)]
        scaler = m.amp.GradScaler("cpu", init_scale=2.0)
        opt = m.optim.SGD(ps, lr=1.0)
        scaler.scale(sum(p.sum().float() for p in ps)).backward()
        ps[where].grad[0] = float("inf")
        scaler.step(opt)
        scaler.update()
        seen.append([[p.detach() for p in ps], scaler.get_scale()])
    return seen


@PROGRAMS
def a_scaler_that_loads_after_its_first_use(m):
    first, second = m.amp.GradScaler("cpu", init_scale=4.0), m.amp.GradScaler("cpu", init_scale=64.0)
    seen = [first.scale(m.ones(1)), second.scale(m.ones(1))]
    second.load_state_dict(first.state_dict())
    return [*seen, second.scale(m.ones(1)), second.get_scale(), second.state_dict()]


@PROGRAMS
def functions_with_a_say(m):
    class Half(m.autograd.Function):
        @staticmethod
        @m.amp.custom_fwd(device_type="cpu", cast_inputs=m.float32)
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x @ x

        @staticmethod
        @m.amp.custom_bwd(device_type="cpu")
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g @ x.t() + x.t() @ g

    x = leaf(m, 2, 2)
    with m.autocast("cpu"):
        out = Half.apply(x.bfloat16())
    out.sum().backward()
    return [out.dtype, x.grad]


@PROGRAMS
def classes_of_the_user_answer_first(m):
    class Named(m.Tensor):
        calls = []

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            cls.calls.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs or {})

    class Foreign:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func.__name__

    x = leaf(m, 3, 3)
    named = x.detach().as_subclass(Named)
    with m.autocast("cpu"):
        results = [named.t(), named @ x, m.nn.functional.linear(x, named), named.exp()]
        others = [m.mm(x, Foreign()), m.nn.functional.binary_cross_entropy(Foreign(), x)]
    return [Named.calls, [[type(t).__name__, str(t.dtype)] for t in results], others]


def _weights(m, module):
    for i, p in enumerate(module.parameters()):
        p.data.copy_(leaf(m, *p.shape, start=-0.3 - 0.1 * i, stop=0.4, requires_grad=False))
    return module


@PROGRAMS
def recurrent_on_cpu(m):
    nn, seen = m.nn, []
    for x in (leaf(m, 3, 2), leaf(m, 3, 2, requires_grad=False).bfloat16()):
        for make in (nn.RNN, nn.GRU, nn.LSTM, nn.RNNCell, nn.GRUCell, nn.LSTMCell):
            module = _weights(m, make(2, 3))
            with m.autocast("cpu"):
                out = module(x)
                state = module(x, m.zeros(1, 3)) if make is nn.GRU else None
            flat = out if isinstance(out, tuple) else (out,)
            rest = list(flat[1:])
            hidden = list(rest[0]) if rest and isinstance(rest[0], tuple) else rest
            seen.append([flat[0].dtype, [h.dtype for h in hidden], state and state[0].dtype])
            flat[0].float().sum().backward()
            seen.append([p.grad.dtype for p in module.parameters()])
            seen.append(attempt(functools.partial(module, x.bfloat16())))
    return seen


@PROGRAMS
def sequences_of_other_classes_on_cpu(m):
    pair = collections.namedtuple("pair", "a b")
    kinds = (list, tuple, type("L", (list,), {}), type("T", (tuple,), {}), lambda given: pair(*given))
    x = leaf(m, 2, 2, requires_grad=False)
    seen = []
    for kind in kinds:
        with m.autocast("cpu"):
            seen.append(m.linalg.multi_dot(kind([x, x])).dtype)
            seen.append(m.cat(kind([x, x.bfloat16()])).dtype)
    return seen


@PROGRAMS
def pooled_and_padded_on_cpu(m):
    f, x = m.nn.functional, leaf(m, 1, 2, 4, 4, 4, requires_grad=False).bfloat16()
    small, unpooled = x[0], m.tensor([[[[0, 3], [9, 10]]]])
    with m.autocast("cpu"):
        calls = [
            f.max_pool3d(x, 2),
            f.max_pool2d(small, 2),
            f.adaptive_avg_pool3d(x, 2),
            f.adaptive_max_pool3d(x, 2),
            f.max_unpool2d(small[:1, :1, :2, :2], unpooled, 2),
            f.pad(small, (1, 1, 1, 1), "reflect"),
            f.pad(small[0], (1, 1), "reflect"),
            f.pad(x, (1,) * 6, "reflect"),
            f.pad(x, (1,) * 6, "replicate"),
            f.pad(small, (1, 1)),
            f.pad(small, (1, 1, 1, 1), mode="circular"),
            m.inner(*[small[0, 0].float()] * 2),
        ]
    return [c.dtype for c in calls]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_as_torch(program, same):
    same(program)


def test_what_autocast_calls_inside_is_left_alone():
    """A listed function runs as it would on arguments of that dtype."""
    x = tg.linspace(0, 1, 12).reshape(3, 4)
    with tg.autocast("cpu"):
        got = tg.nn.functional.linear(x, x)
    assert got.tolist() == tg.nn.functional.linear(x.bfloat16(), x.bfloat16()).tolist()


def test_an_exception_leaves_autocast_off():
    with pytest.raises(LookupError), tg.autocast("cpu"):
        raise LookupError
    assert not tg.is_autocast_enabled("cpu")
    assert (tg.ones(2, 2) @ tg.ones(2, 2)).dtype is tg.float32


def test_autocast_inside_of_a_compiled_step():
    w = tg.ones(3, 3, requires_grad=True)

    @tg.compile
    def step(x):
        with tg.autocast("cpu"):
            out = (x @ w).float().sum()
        out.backward()
        return out.detach()

    assert [step(tg.ones(2, 3)).item() for _ in range(3)] == [18.0] * 3
    assert w.grad.tolist() == [[6.0] * 3] * 3
