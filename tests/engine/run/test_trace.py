"""What is derived from an op's trace: saved sets, slices of jaxprs, gradients of any order."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import torchgrad_jax
from tests.engine.helpers import Programs, leaf
from torchgrad_jax._core.jax.sizes import Sizes
from torchgrad_jax._engine.graph.grad_plan import getter, saver
from torchgrad_jax._engine.run.program import Program

pytestmark = pytest.mark.usefixtures("jax_with_64_bits")

UNARY = {
    "abs": {}, "acos": {"start": -0.5, "stop": 0.5}, "acosh": {"start": 1.5},
    "asin": {"start": -0.5, "stop": 0.5}, "asinh": {},
    "atan": {}, "atanh": {"start": -0.5, "stop": 0.5}, "cos": {}, "cosh": {}, "erf": {},
    "erfinv": {"start": -0.5, "stop": 0.5},
    "exp": {}, "exp2": {}, "expm1": {}, "lgamma": {"start": 0.5}, "log": {"start": 0.5}, "log10": {"start": 0.5},
    "log1p": {"start": 0.5}, "log2": {"start": 0.5}, "neg": {}, "reciprocal": {"start": 0.5}, "relu": {},
    "rsqrt": {"start": 0.5},
    "sigmoid": {}, "sign": {}, "sin": {}, "sinh": {}, "sqrt": {"start": 0.5},
    "tan": {"start": -0.5, "stop": 0.5}, "tanh": {},
    "sum": {}, "mean": {}, "logit": {"start": 0.2, "stop": 0.8}, "t": {}, "clone": {}, "square": {},
}  # fmt: skip
OTHERS = {
    "add": lambda m, x, y: x + y,
    "mul": lambda m, x, y: x * y,
    "mul_number": lambda m, x, y: x * 2,
    "mul_constant": lambda m, x, y: x * y.detach(),
    "constant_mul": lambda m, x, y: x.detach() * y,
    "div": lambda m, x, y: x / y,
    "div_by_constant": lambda m, x, y: x / y.detach(),
    "div_number": lambda m, x, y: 1 / y,
    "pow": lambda m, x, y: y.pow(x),
    "pow_number": lambda m, x, y: x**3,
    "matmul": lambda m, x, y: x @ y.t(),
    "matmul_constant": lambda m, x, y: x @ y.detach().t(),
    "softmax": lambda m, x, y: x.softmax(1),
    "log_softmax": lambda m, x, y: x.log_softmax(1),
    "max_of_a_dim": lambda m, x, y: x.max(1)[0],
    "minimum": lambda m, x, y: m.minimum(x, y),
    "where": lambda m, x, y: m.where(x > 0, x, y),
    "lerp": lambda m, x, y: m.lerp(x, y, 0.5),
    "addcmul": lambda m, x, y: m.addcmul(x, x, y),
    "atan2": lambda m, x, y: m.atan2(x, y),
    "prod": lambda m, x, y: y.prod(),
    "cumsum": lambda m, x, y: x.cumsum(1),
    "logsumexp": lambda m, x, y: x.logsumexp(1),
    "var": lambda m, x, y: x.var(1),
    "gelu": lambda m, x, y: m.nn.functional.gelu(x),
    "softplus": lambda m, x, y: m.nn.functional.softplus(x),
    "leaky_relu": lambda m, x, y: m.nn.functional.leaky_relu(x),
    "elu": lambda m, x, y: m.nn.functional.elu(x),
    "masked_fill": lambda m, x, y: x.masked_fill(y > 1, 0.0),
    "inverse": lambda m, x, y: m.linalg.inv(y @ y.t() + m.eye(2)),
    "clamp": lambda m, x, y: x.clamp(0, 1),
    "relu_in_place": lambda m, x, y: (x * 1).relu_(),
    "exp_in_place": lambda m, x, y: (x * 1).exp_(),
}
PROGRAMS = Programs()


def saved(m, t):
    """Names and values of the tensors that a node keeps."""
    node = t.grad_fn
    names = sorted(n for n in dir(node) if n.startswith("_saved_"))
    kept = {n: getattr(node, n) for n in names}
    return node.name(), {n: v.detach() for n, v in kept.items() if isinstance(v, m.Tensor)}


@pytest.mark.parametrize("name", UNARY)
def test_saved_by_a_unary_op(name, same):
    def run(m):
        return saved(m, getattr(leaf(m, 2, 3, **UNARY[name]), name)())

    same(run, f"saved_{name}")


@pytest.mark.parametrize("name", OTHERS)
def test_saved(name, same):
    def run(m):
        return saved(m, OTHERS[name](m, leaf(m, 2, 3), leaf(m, 2, 3, start=0.4, stop=1.9)))

    same(run, f"saved_by_{name}")


test_same_as_torch = PROGRAMS.test()


@PROGRAMS
def saved_result_is_in_its_place_in_the_graph(m):
    y = leaf(m, 3).exp()
    r = y.grad_fn._saved_result
    return r is y, r.grad_fn is y.grad_fn, r.requires_grad, r.output_nr


@PROGRAMS
def saved_input_is_the_tensor_itself(m):
    x = leaf(m, 3)
    y = x.sin()
    h = (x * 1).sin()
    return y.grad_fn._saved_self is x, h.grad_fn._saved_self.grad_fn.name()


@PROGRAMS
def formulas_depend_on_what_they_use_and_no_more(m):
    """d(x*y)/dx is y: it does not look connected to x."""
    x, y = leaf(m, 3), leaf(m, 3)
    (g,) = m.autograd.grad((x * y).sum(), x, create_graph=True)
    (h,) = m.autograd.grad((x + y).sum(), x, create_graph=True)
    (k,) = m.autograd.grad((x * 3).sum(), x, create_graph=True)
    second = m.autograd.grad(g.sum(), [x, y], allow_unused=True)
    return second, g.requires_grad, h.requires_grad, k.requires_grad


ORDERS = {
    "power": (lambda x: x**5, lambda x: [5 * x**4, 20 * x**3, 60 * x**2, 120 * x, 120.0]),
    "sin": (lambda x: x.sin(), lambda x: [math.cos(x), -math.sin(x), -math.cos(x), math.sin(x), math.cos(x)]),
    "exp": (lambda x: (x * 2).exp(), lambda x: [2**n * math.exp(2 * x) for n in range(1, 6)]),
    "reciprocal": (lambda x: 1 / x, lambda x: [(-1) ** n * math.factorial(n) / x ** (n + 1) for n in range(1, 6)]),
    "log": (lambda x: x.log(), lambda x: [(-1) ** (n - 1) * math.factorial(n - 1) / x**n for n in range(1, 6)]),
    "product": (lambda x: x * x * x, lambda x: [3 * x * x, 6 * x, 6.0]),
    "in_place": (lambda x: (x * 1).mul_(x).mul_(x), lambda x: [3 * x * x, 6 * x, 6.0]),
}


@pytest.mark.parametrize("name", ORDERS)
def test_higher_orders(name):
    f, derivatives = ORDERS[name]
    x = torchgrad_jax.tensor(0.7, dtype=torchgrad_jax.float64, requires_grad=True)
    y = f(x)
    for order, want in enumerate(derivatives(0.7), 1):
        (y,) = torchgrad_jax.autograd.grad(y, x, create_graph=True, materialize_grads=True)
        np.testing.assert_allclose(y.item(), want, rtol=1e-9, atol=1e-12, err_msg=f"order {order}")


@pytest.mark.parametrize("order", [1, 2, 3])
def test_orders_of_a_network_agree_with_jax(order):
    w = np.linspace(-1, 1, 9).reshape(3, 3)
    v = np.linspace(0.1, 0.9, 3)

    def f(x):
        return jnp.tanh(w @ x) @ jnp.sin(w @ x) + jnp.exp(-(x @ x))

    def directional(g):
        return lambda x: jax.grad(g)(x) @ v

    want = f
    for _ in range(order):
        want = directional(want)
    tensor = torchgrad_jax.tensor
    x = tensor([0.3, -0.2, 0.5], dtype=torchgrad_jax.float64, requires_grad=True)
    W, V = tensor(w), tensor(v)
    y = (W @ x).tanh() @ (W @ x).sin() + (-(x @ x)).exp()
    for _ in range(order):
        (g,) = torchgrad_jax.autograd.grad(y, x, create_graph=True)
        y = g @ V
    np.testing.assert_allclose(y.item(), want(jnp.array([0.3, -0.2, 0.5])), rtol=1e-9)


# --- slices of jaxprs -----------------------------------------------------------------------------


def program_of(f, *args):
    return Program(jax.make_jaxpr(f)(*args))


def evaluate(program, args, wanted=None, given=None):
    """Some results, the names of the steps to them, and what those read."""
    refs = [program.out[w] for w in (range(len(program.out)) if wanted is None else wanted)]
    cuts = frozenset(given or ())
    read = program.needs(refs, cuts)[1]
    values = {**{i: jnp.asarray(a) for i, a in enumerate(args) if i in read}, **(given or {})}
    part = program.slice(refs, [*values], cuts)
    return part.run(*values.values()), [e.primitive.name for e in part.eqns], read


def test_slice_keeps_what_is_needed():
    program = program_of(lambda a, b: (jnp.sin(a), jnp.exp(b) * a, b), 1.0, 2.0)
    out, kept, read = evaluate(program, (1.0, 2.0), [0])
    assert kept == ["sin"]
    assert read == {0}
    assert float(out[0]) == pytest.approx(math.sin(1.0))
    out, kept, read = evaluate(program, (1.0, 2.0), [1])
    assert kept == ["exp", "mul"]
    assert read == {0, 1}
    assert float(out[0]) == pytest.approx(math.exp(2.0))
    out, kept, read = evaluate(program, (1.0, 2.0), [2])
    assert kept == []
    assert read == {1}


def test_slice_stops_at_cuts():
    """With exp's result given, its derivative needs nothing else."""

    def f(x, ct):
        y, pull = jax.vjp(jnp.exp, x)
        return y, pull(ct)[0]

    program = program_of(f, 2.0, 1.0)
    out, _, read = evaluate(program, (2.0, 3.0), [1], {program.out[0]: jnp.asarray(5.0)})
    assert read == {program.out[0], 1}
    assert float(out[0]) == 15.0
    _, _, without = evaluate(program, (2.0, 3.0), [1])
    assert without == {0, 1}


def test_nested_calls_are_inlined():
    inner = jax.jit(lambda a, b: (a + 1.0, jnp.cos(b)))

    def f(a, b):
        p, q = jax.jit(lambda u: inner(u, b))(a)
        return p * 2.0, q

    program = program_of(f, 1.0, 2.0)
    assert all(e.primitive.name not in ("jit", "pjit") for e in program.eqns)
    out, _, read = evaluate(program, (1.0, 2.0), [1])
    assert read == {1}
    assert float(out[0]) == pytest.approx(math.cos(2.0))
    assert float(evaluate(program, (1.0, 2.0), [0])[0][0]) == 4.0


def test_constants_and_inputs_may_be_results():
    table = np.arange(3.0)
    program = program_of(lambda a: (jnp.asarray(table), 7.0, a, jnp.asarray(table) * a), 2.0)
    out, _, _ = evaluate(program, (2.0,))
    assert [np.asarray(o).tolist() for o in out] == [[0, 1, 2], 7.0, 2.0, [0, 2, 4]]


def test_a_given_value_is_not_computed_again_beside_another_one():
    def f(x, y):
        first, second = jax.lax.sort((x, y), num_keys=1)
        return first, first * second

    program = program_of(f, np.array([2.0, 1.0]), np.array([3.0, 4.0]))
    out, kept, _ = evaluate(program, ([2.0, 1.0], [3.0, 4.0]), [1], {program.out[0]: jnp.asarray([10.0, 10.0])})
    assert kept == ["sort", "mul"]
    assert out[0].tolist() == [40.0, 30.0]


def test_numbers_become_arguments():
    program = program_of(lambda x: jnp.sin(x * 3.5) + 1.0, 2.0)
    numbers, lifted = program.lift(lambda v, eqn: v.val == 3.5)
    assert [float(n) for n in numbers] == [3.5]
    assert float(lifted.run(0.5, 2.0)[0]) == pytest.approx(math.sin(1.0) + 1)
    assert [e.primitive for e in lifted.eqns] == [e.primitive for e in program.eqns]


def test_a_program_with_symbols_is_one_without_for_given_sizes():
    sizes = Sizes((5, 3))
    with sizes.trace():
        rows, columns = sizes.symbols
        x = jax.ShapeDtypeStruct((rows, columns), np.float32)
        closed = jax.make_jaxpr(lambda x: (jnp.sum(x, 0) / rows.dimension_as_value(), jnp.sin(x)))(x)
        program = Program(closed, sizes)
    seven = program.at((7, 2))
    assert [a.shape for a in seven.out_avals] == [(2,), (7, 2)]
    assert [v.aval.shape for v in seven.invars] == [(7, 2)]
    mean, sines = seven.run(np.ones((7, 2), np.float32))
    assert mean.tolist() == [1.0, 1.0]
    assert sines.shape == (7, 2)
    assert [e.primitive.name for e in program.slice(program.out[1:], [0], numbers=(4, 6)).eqns] == ["sin"]
    assert program.all(False, (7, 2)).closed().out_avals == seven.out_avals


def test_control_flow_is_one_step():
    program = program_of(lambda a: jax.lax.fori_loop(0, 3, lambda i, x: x * 2.0, a), 1.0)
    assert float(evaluate(program, (1.0,))[0][0]) == 8.0


@pytest.mark.parametrize("indices", [(), (1,), (0, 2), (2, 0, 1)], ids=str)
def test_getter(indices):
    assert tuple(getter(indices)("abc")) == tuple("abc"[i] for i in indices)


def test_saver_reads_versions_of_tensors_and_keeps_numbers():
    t = torchgrad_jax.ones(2)
    t.add_(1)
    values, versions = saver((0, 2), (0,), 3)(t, None, 2.5, "storage")
    assert values == (t, 2.5, "storage")
    assert versions == (1, 0, 0)
