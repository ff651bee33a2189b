"""JAX code of the user's in a process whose JAX has 32 bits: rules of derivatives, and optax with parameters of 64."""

import pytest

from tests.test_guest import said

RULES = """
import json
import jax, jax.numpy as jnp
import torchgrad_jax as torch
from torchgrad_jax import func, interop

d = torch.float64
ran = set()

def note(which, *arrays):
    ran.add((which, str(jnp.ones(1).dtype), *(str(a.dtype) for a in arrays)))

@jax.custom_vjp
def square(v):
    note("function", v)
    return v * v * jnp.ones(())

def forward(v):
    note("forward", v)
    return square(v), (v, jnp.full(3, 2.0))

def backward(kept, g):
    note("backward", g)
    return (g * kept[0] * kept[1] * jnp.ones(3),)

square.defvjp(forward, backward)

@jax.custom_jvp
def cube(v):
    return v**3

@cube.defjvp
def rule(primals, tangents):
    note("rule", *tangents)
    return cube(*primals), tangents[0] * 3 * primals[0] ** 2 * jnp.ones(3)

@jax.custom_vjp
def nested(v):
    return square(v)

nested.defvjp(lambda v: (square(v), v), lambda v, g: (square(v) / v**2 * g * cube(jnp.ones(3)) * 2 * v,))
w = torch.ones(3, dtype=d, requires_grad=True)
FUNCTIONS = {
    "itself": square, "jitted": jax.jit(square), "with a tensor": lambda v: square(v) * jnp.asarray(w),
    "in a scan": lambda v: jax.lax.scan(lambda c, _: (square(c), None), v, None, length=2)[0],
    "in a checkpoint": jax.checkpoint(lambda v: square(jnp.sin(v))),
    "in a branch": lambda v: jax.lax.cond(v.sum() > 0, square, lambda v: v, v),
    "a rule": cube, "a rule and a tensor": lambda v: jax.jit(cube)(v) * jnp.asarray(w),
    "both": jax.jit(lambda v: square(cube(v))), "a rule that calls another": nested,
}
rows = []
for name, f in FUNCTIONS.items():
    x = torch.full((3,), 0.5, dtype=d, requires_grad=True)
    f = interop.from_jax(f)
    g, = torch.autograd.grad(f(x).sum(), x, create_graph=True)
    h, = torch.autograd.grad(g.sum(), x)
    c = torch.compile(lambda x: torch.autograd.grad(f(x).sum(), x)[0])(x)
    v = func.vmap(func.grad(lambda x: f(x).sum()))(torch.stack([x.detach()] * 2))[0]
    t = func.jvp(f, (x.detach(),), (x.detach(),))[1]
    rows.append([name, [[round(a.sum().item(), 4) for a in (f(x), g, h, c, v, t)], str(g.dtype), str(h.dtype)]])
print(json.dumps([rows, sorted(ran)]))
"""


def test_rules_of_derivatives_run_with_the_types_of_the_process():
    (wide, ran_wide), (narrow, ran) = said(RULES, "1"), said(RULES, "0")
    assert narrow == wide
    kinds = {"function", "forward", "backward", "rule"}
    assert {tuple(row) for row in ran} == {(kind, "float32", "float32") for kind in kinds}
    assert {tuple(row) for row in ran_wide} == {(kind, "float64", "float64") for kind in kinds}


OPTAX = """
import json
import jax, jax.numpy as jnp, optax
import torchgrad_jax as torch
from torchgrad_jax import interop, nn

rows, types = [], []

def schedule(count):
    types.append(str(jnp.ones(1).dtype))
    return 0.1 / (1 + count)

for dtype in (torch.float64, torch.float32):
    for transformation in (optax.adamw(0.1), optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(schedule, 0.9))):
        torch.manual_seed(0)
        net, x = nn.Linear(3, 2).to(dtype), torch.linspace(0.1, 1, 12, dtype=dtype).reshape(4, 3)
        optimizer = interop.Optax(net.parameters(), transformation)
        for wrap in (lambda f: f, torch.compile):
            @wrap
            def step():
                optimizer.zero_grad()
                net(x).square().mean().backward()
                optimizer.step()
            [step() for _ in range(3)]
        state = {k: v for k, v in optimizer.state["optax"].items()}
        held = [str(v.dtype) for v in (*state.values(), *net.parameters())]
        rows.append([[p.tolist() for p in net.parameters()], held])
    types.append("|")
print(json.dumps([rows, types, str(jnp.ones(1).dtype)]))
"""


def test_optax_has_64_bits_where_parameters_have_them():
    pytest.importorskip("optax", reason="needs the ecosystem extra")
    (wide, *_), (narrow, types, after) = said(OPTAX, "1"), said(OPTAX, "0")
    assert narrow[:2] == wide[:2]
    assert [row[1] for row in narrow] == [row[1] for row in wide]
    split = types.index("|")
    assert (set(types[:split]), set(types[split:]) - {"|"}, after) == ({"float64"}, {"float32"}, "float32")
