"""Recording: who gets a node, where its edges lead, what it saves, and what stays cached."""

import pytest

import torchgrad_jax
from tests.differential import everything
from tests.engine.helpers import Programs, attempt, leaf, tree
from torchgrad_jax._engine.entry import bind
from torchgrad_jax._engine.graph import record
from torchgrad_jax._engine.run.trace import Call, forget_plans

PROGRAMS = Programs()


test_same_as_torch = PROGRAMS.test()


EDGES = {
    "two_leaves": lambda m, x, y: x * y,
    "constant_second": lambda m, x, y: x * y.detach(),
    "constant_first": lambda m, x, y: y.detach() * x,
    "number": lambda m, x, y: x * 2,
    "number_first": lambda m, x, y: 2 * x,
    "add_number": lambda m, x, y: x + 2.0,
    "sub_number": lambda m, x, y: x - 1,
    "rsub": lambda m, x, y: 1 - x,
    "div_number": lambda m, x, y: x / 2,
    "rdiv": lambda m, x, y: 2 / x,
    "pow_number": lambda m, x, y: x**2,
    "rpow": lambda m, x, y: 2**x,
    "clamp_numbers": lambda m, x, y: x.clamp(-1, 1),
    "clamp_tensors": lambda m, x, y: x.clamp(y, y + 1),
    "where": lambda m, x, y: m.where(x > 0, x, y),
    "where_number": lambda m, x, y: m.where(x > 0, x, 0.0),
    "masked_fill": lambda m, x, y: x.masked_fill(x > 0, 0.0),
    "cat": lambda m, x, y: m.cat([x, y.detach(), y]),
    "stack": lambda m, x, y: m.stack([x, x]),
    "index": lambda m, x, y: x[m.tensor([0, 1])],
    "gather": lambda m, x, y: x.gather(0, m.tensor([0, 1])),
    "same_twice": lambda m, x, y: x * x,
    "outer": lambda m, x, y: m.outer(x, y),
    "matmul": lambda m, x, y: x @ y,
    "mixed_dtypes": lambda m, x, y: x * y.double(),
    "integer_operand": lambda m, x, y: x * m.tensor([1, 2, 3]),
    "bool_operand": lambda m, x, y: x + (x > 0),
    "zero_dim_operand": lambda m, x, y: x * m.tensor(2.0),
    "lerp": lambda m, x, y: m.lerp(x, y, 0.3),
    "addcmul": lambda m, x, y: m.addcmul(x, y, y, value=2),
    "std": lambda m, x, y: x.std(),
    "max": lambda m, x, y: x.max(),
    "cumsum": lambda m, x, y: x.cumsum(0),
    "softmax": lambda m, x, y: x.softmax(0),
    "reshape_a_view": lambda m, x, y: x.view(3, 1).expand(3, 2).reshape(6),
    "einsum": lambda m, x, y: m.einsum("i,i->", x, y),
    "linear": lambda m, x, y: m.nn.functional.linear(x.view(1, 3), y.view(1, 3), None),
    "squeeze": lambda m, x, y: x.unsqueeze(0).squeeze(),
    "double": lambda m, x, y: x.double(),
    "clone": lambda m, x, y: x.clone(),
    "contiguous_copy": lambda m, x, y: m.stack([x, y]).t().contiguous(),
    "mean": lambda m, x, y: x.mean(),
    "norm": lambda m, x, y: x.norm(),
    "sort": lambda m, x, y: x.sort()[0],
}


@pytest.mark.parametrize("name", EDGES)
def test_names_and_edges(name, same):
    def run(m):
        out = EDGES[name](m, leaf(m, 3), leaf(m, 3, start=0.4, stop=1.9))
        return everything(out), tree(out.grad_fn)

    same(run, f"edges_{name}")


@PROGRAMS
def nothing_is_recorded_without_need(m):
    x, c = leaf(m, 3), m.ones(3)
    with m.no_grad():
        a = x * 2
    with m.inference_mode():
        b = x * 2
    with m.enable_grad(), m.no_grad(), m.enable_grad():
        d = x * 2
    return [
        (c * 2).grad_fn,
        a.grad_fn,
        b.grad_fn,
        d.grad_fn.name(),
        a.requires_grad,
        b.is_inference(),
        (x > 0).requires_grad,
        x.argmax().requires_grad,
        x.long().requires_grad,
        x.detach().requires_grad,
        x.sign().requires_grad,
    ]


@PROGRAMS
def outputs_that_never_require_grad(m):
    x = leaf(m, 2, 3)
    values, indices = x.max(1)
    mantissa, exponent = m.frexp(x)
    return [everything(t) for t in (values, indices, mantissa, exponent)], values.grad_fn is mantissa.grad_fn


@PROGRAMS
def numbers_of_outputs(m):
    x = leaf(m, 2, 3)
    a, b = x.unbind(0)
    u, s, v = m.linalg.svd(x, full_matrices=False)
    return [t.output_nr for t in (a, b, u, s, v)], a.grad_fn is b.grad_fn, tree((b * s[0]).grad_fn)


@PROGRAMS
def one_accumulator_per_leaf(m):
    x = leaf(m, 3)
    a, b = x * 2, x.exp()
    p, q = a.grad_fn.next_functions[0][0], b.grad_fn.next_functions[0][0]
    return p is q, p.variable is x, p.name(), p.next_functions


@PROGRAMS
def missing_derivatives_are_found_when_needed(m):
    x = leaf(m, 3)
    y = m.heaviside(x, x)
    return everything(y), attempt(lambda: y.sum().backward())


# --- inside ---------------------------------------------------------------------------------------


def plan_of(t):
    return t.grad_fn.gp.plan


def test_plans_are_shared_by_calls_alike():
    x, y = torchgrad_jax.ones(3, requires_grad=True), torchgrad_jax.zeros(3, requires_grad=True)
    assert (x * y).grad_fn.gp is (y * x).grad_fn.gp
    assert plan_of(x * y) is plan_of(x * y.detach())
    assert (x * y).grad_fn.gp is not (x * y.detach()).grad_fn.gp
    assert plan_of(x * 2) is plan_of(x * 3)
    assert plan_of(x * 2) is not plan_of(x * 2.0)
    assert plan_of(x.sum(0)).call is plan_of(y.sum(-1)).call or plan_of(x.sum(0)) is plan_of(y.sum(0))
    assert type((x * y).grad_fn) is type((x * 2).grad_fn)


def test_only_what_the_mask_needs_is_saved():
    x, c = torchgrad_jax.ones(3, requires_grad=True), torchgrad_jax.ones(3)
    assert (x * c).grad_fn.saved == (c,)
    assert (c * x).grad_fn.saved == (c,)
    y = x.clone()
    assert (x * y).grad_fn.saved == (y, x)  # by name: other, self
    assert (x + c).grad_fn.saved == ()
    e = x.exp()
    assert e.grad_fn.saved == (e._st,)


def test_a_function_of_ones_own():
    """`apply` takes any pure function of a fixed number of leaves, differentiable by JAX."""
    call = Call("cube_plus", lambda v: v[0] ** 3 + v[1], node_name="CubePlusBackward0", argnames=("x", "y"))
    x = torchgrad_jax.tensor([1.0, 2.0], requires_grad=True)
    y = torchgrad_jax.tensor([1.0, 1.0], requires_grad=True)
    out = record.apply(call, (x, y))
    assert out.tolist() == [2, 9]
    assert out.grad_fn.name() == "CubePlusBackward0"
    assert out.grad_fn._saved_x is x
    assert not hasattr(out.grad_fn, "_saved_y")
    out.sum().backward()
    assert x.grad.tolist() == [3, 12]
    assert y.grad.tolist() == [1, 1]
    assert record.apply(call, (x, 1.0)).tolist() == [2, 9]


def test_plans_follow_the_default_dtype():
    n = torchgrad_jax.tensor([1, 2])
    assert (n / 2).dtype is torchgrad_jax.float32
    torchgrad_jax.set_default_dtype(torchgrad_jax.float64)
    try:
        assert (n / 2).dtype is torchgrad_jax.float64
    finally:
        torchgrad_jax.set_default_dtype(torchgrad_jax.float32)
    assert (n / 2).dtype is torchgrad_jax.float32


def test_forgotten_plans_are_made_again():
    x = torchgrad_jax.ones(3, requires_grad=True)
    before = plan_of(x.sin())
    forget_plans()
    after = plan_of(x.sin())
    assert before is not after
    assert before.outs == after.outs


def test_a_traced_value_is_not_looked_at():
    import jax

    def f(a):
        t = torchgrad_jax.as_tensor(a)
        with pytest.raises(RuntimeError, match="being traced"):
            t.item()
        return a

    jax.jit(f)(torchgrad_jax.ones(1).__jax_array__())


def test_failing_calls_are_not_cached():
    x = torchgrad_jax.ones(2, 3)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="must match"):
            torchgrad_jax.add(x, torchgrad_jax.ones(2))
    b = bind.ops.sum.binding
    size = len(b.calls)
    for _ in range(3):
        x.sum(1)
    assert len(b.calls) - size <= 1
