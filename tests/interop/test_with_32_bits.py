"""A process whose JAX has 32 bits: rules of derivatives in JAX code of the user's, and tensor code that JAX derives.

Everything here is compared with a process whose JAX has 64 bits, and results are of float32 in both.
"""

import pytest

from tests.test_guest import WIDE, said

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
    "both": jax.jit(lambda v: square(cube(v))), "with a tensor": lambda v: square(v) * jnp.asarray(w),
    "in a scan": lambda v: jax.lax.scan(lambda c, _: (square(c), None), v, None, length=2)[0],
    "in a checkpoint": jax.checkpoint(lambda v: square(jnp.sin(v))),
    "in a branch": lambda v: jax.lax.cond(v.sum() > 0, square, lambda v: v, v),
    "a rule and a tensor": lambda v: jax.jit(cube)(v) * jnp.asarray(w),
    "a rule that calls another": nested,
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
    (wide, ran_wide), (narrow, ran) = said(RULES, **WIDE), said(RULES)
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
    (wide, *_), (narrow, types, after) = said(OPTAX, **WIDE), said(OPTAX)
    assert narrow[:2] == wide[:2]
    assert [row[1] for row in narrow] == [row[1] for row in wide]
    split = types.index("|")
    assert (set(types[:split]), set(types[split:]) - {"|"}, after) == ({"float64"}, {"float32"}, "float32")


DERIVATIVES = """
import json
import jax, jax.numpy as jnp, numpy as np
import torchgrad_jax as torch
from torchgrad_jax import interop

d = torch.float64

def exact(y):
    "Of float64 and its gradient 3; in float32 both would be lost."
    return (y * 1e10 + y * 3 - y * 1e10).float()

def with_hook(v):
    v = v * 1
    v.register_hook(lambda g: g * 2)
    return exact(v.double())

FUNCTIONS = {
    "itself": lambda v: exact(v.double()),
    "an index": lambda v: exact(v.double()[:, torch.tensor([1, 0])]),
    "a convolution": lambda v: exact(torch.nn.functional.conv1d(v.double()[None], torch.ones(1, 2, 2, dtype=d))),
    "a quantile": lambda v: exact(torch.quantile(v.double(), 0.3, dim=1)),
    "a loop": lambda v: interop.scan(lambda c, r: (exact(c * r).double(), c), torch.ones(3, dtype=d), v)[0].float(),
    "a hook": with_hook,
}
a = jnp.linspace(0.1, 1, 6, dtype=jnp.float32).reshape(2, 3)

def of_arrays(f):
    g = interop.to_jax(f)
    return lambda a: jnp.sum(g(a))

def of_tensors(f):
    return lambda a: jnp.asarray(f(torch.as_tensor(a)).sum())

def both(f, of=of_arrays):
    g = of(f)
    return jax.grad(g)(a), jax.jit(jax.grad(g))(a), jax.vmap(jax.grad(g))(jnp.stack([a, a])), jax.jvp(g, (a,), (a,))[1]

def more(f):
    g = of_arrays(f)
    twice = jax.grad(lambda a: g(a) ** 2)
    in_scan = lambda a: jax.lax.scan(lambda c, _: (c * 1.5 + g(a), None), jnp.float32(0), None, length=2)[0]
    kept = jax.grad(jax.checkpoint(g))
    return jax.grad(jax.jit(g))(a), jax.jit(lambda a: jax.jvp(twice, (a,), (a,))[1])(a), jax.grad(in_scan)(a), kept(a)

rows = []
def note(name, found):
    assert {str(x.dtype) for x in jax.tree.leaves(found)} == {"float32"}, name
    rows.append([name, [np.asarray(x).round(2).tolist() for x in jax.tree.leaves(found)]])

for name, f in FUNCTIONS.items():
    note(name, (both(f), more(f)))
    if name != "a hook":  # which JAX's own derivatives refuse
        note(name, both(f, of_tensors))
        note(name, jax.grad(lambda t: f(t).sum())(torch.as_tensor(a)))
draws = {
    "normal": lambda v: v + torch.randn(2, 3, dtype=d).float(),
    "words": lambda v: v + torch.randint(2**40, (2, 3)) / 2**40,
    "order": lambda v: v[:, torch.randperm(3)], "choice": lambda v: v + torch.multinomial(v, 1),
    "dropout": lambda v: torch.nn.functional.dropout(v.double()).float(),
}
for name, f in draws.items():
    key = jax.random.key(3)
    note(name, jax.jit(interop.to_jax(f))(a, rngs=key))
print(json.dumps(rows))
"""


STEPS = """
import json
import jax, numpy as np
import torchgrad_jax as torch
from torchgrad_jax.optim.asgd import asgd
from torchgrad_jax.optim.nadam import nadam
from torchgrad_jax.optim.radam import radam

shared = {"lr": 0.01, "weight_decay": 0.01}
adam = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, **shared}

def in_jax(step, states, **options):
    "Parameters after steps of which JAX traces each, with how many there were."
    def run(p, g, *state):
        step([p], [g], *[[s] for s in state], **options)
        return p, *state
    run, found = jax.jit(run), (torch.linspace(0.1, 1, 500), *states)
    for k in range(30):
        p, *state = found
        found = run(p, torch.linspace(-1, 0.7, 500) * (k + 1), *state)
    return np.asarray(found[0]).tolist()

def one(x=1.0):
    return torch.tensor(x)

zeros = torch.zeros(500), torch.zeros(500)
print(json.dumps([
    in_jax(nadam, (*zeros, one(), one(0.0)), momentum_decay=0.004, **adam),
    in_jax(radam, (*zeros, one(0.0)), **adam),
    in_jax(asgd, (zeros[0], one(), one(0.01), one(0.0)), lambd=1e-4, t0=10.0, alpha=0.75, **shared),
]))
"""


def test_steps_by_hand_compute_with_64_bits_where_jax_traces_them():
    assert said(STEPS) == said(STEPS, **WIDE)


def test_derivatives_of_tensor_code_have_64_bits_inside():
    assert said(DERIVATIVES) == said(DERIVATIVES, **WIDE)
