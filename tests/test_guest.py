"""What importing and using the package leaves as it was for other JAX code of the same process."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

PROBE = """
import os, sys, types, json
import jax, jax.numpy as jnp, numpy as np
import jax.nn, jax.random, jax.scipy.special, jax.tree_util, jax.export

MODULES = [m for name, m in sys.modules.items() if name.partition(".")[0] in ("jax", "jaxlib")]
KINDS = types.FunctionType | staticmethod | classmethod
x = np.linspace(-40, 40, 20_001, dtype=np.float32)
CURVES = ("sin", "cos", "tan", "arcsin", "arccos", "arctan", "log", "log1p", "exp", "tanh", "sinc", "sqrt", "expm1")

def names():
    "Each function and class of JAX, private ones too, and each function of a class, by its full name."
    found = {}
    for module in MODULES:
        for name, value in [*vars(module).items()]:
            if isinstance(value, type) and value.__module__.startswith("jax"):
                of = {f"{value.__module__}.{value.__qualname__}.{k}": v for k, v in vars(value).items()}
                found |= {k: v for k, v in of.items() if isinstance(v, KINDS) or callable(v)}
            if callable(value):
                found[f"{module.__name__}.{name}"] = value
    return found

def bits():
    "What JAX computes, and as which dtypes, in programs that are compiled now."
    found = {}
    with np.errstate(all="ignore"):
        for name in CURVES:
            fn = getattr(jnp, name)
            found[name] = np.asarray(jax.jit(lambda a: fn(a))(x)).tobytes()
            found["gradient of " + name] = np.asarray(jax.jit(jax.vmap(jax.grad(lambda a: fn(a))))(x)).tobytes()
    found["lgamma"] = np.asarray(jax.jit(lambda a: jax.scipy.special.gammaln(a))(x)).tobytes()
    found["rsqrt"] = np.asarray(jax.jit(lambda a: jax.lax.rsqrt(a))(x)).tobytes()
    found["fmod"] = np.asarray(jax.jit(lambda a: jnp.fmod(a, jnp.float32(0.3)))(x)).tobytes()
    found["atan2"] = np.asarray(jax.jit(lambda a: jnp.arctan2(a, a * a - 1))(x)).tobytes()
    return found

def state():
    settings = {k: v for k, v in jax.config.values.items() if isinstance(v, str | int | float | bool | None)}
    return {"settings": settings, "names": names(), "bits": bits(), "environment": dict(os.environ)}

before = state()
{use}
after = state()
def differs(a, b):
    return a is not b and a != b
changed = {k: [n for n in before[k] if differs(before[k][n], after[k].get(n))] for k in before}
changed["environment"] += after["environment"].keys() - before["environment"].keys()
print(json.dumps(changed))
"""
IMPORT = "import torchgrad_jax as torch"
USES = {
    "an import": IMPORT,
    "eager work": f"""{IMPORT}
t = torch.randn(300_000, requires_grad=True)
(torch.sin(t) * torch.lgamma(t.abs() + 1)).sum().backward()
torch.nn.Linear(8, 3)(torch.randn(5, 8)).square().mean().backward()
""",
    "a compiled step": f"""{IMPORT}
net = torch.nn.Sequential(torch.nn.Linear(40, 30), torch.nn.GELU(), torch.nn.Linear(30, 1))
opt = torch.optim.AdamW(net.parameters())
@torch.compile
def step(x):
    opt.zero_grad()
    loss = net(x).sin().square().mean()
    loss.backward()
    opt.step()
    return loss
for _ in range(3): step(torch.randn(300, 40))
""",
    "code that both sides call": f"""{IMPORT}
from torchgrad_jax import interop
f = interop.to_jax(torch.sin)
jax.jit(lambda a: f(a) + jnp.sin(a))(x)
interop.from_jax(jnp.cos)(torch.ones(5_000))
interop.scan(lambda c, r: (c * r, c), torch.ones(()), torch.ones(3, requires_grad=True))[0].backward()
""",
    "an export": f"""{IMPORT}
from torchgrad_jax import interop
interop.export(torch.nn.Linear(3, 2), torch.ones(4, 3))
""",
    "tensors in trees": f"""{IMPORT}
t = torch.ones(3)
jax.grad(lambda t: (t * t).sum())(t)
jax.lax.scan(lambda c, r: (c * r, c), t[0], t)
""",
}
KNOWN: dict[str, set[str]] = {
    "settings": set(),
    "names": {
        *(f"{cls}.{name}" for cls in ("Trace", "DynamicJaxprTrace") for name in ("__init__", "invalidate")),
        *(f"SetCurrentTraceContextManager.{name}" for name in ("__enter__", "__exit__")),
        "PyTreeRegistry.flatten_with_path",
    },
    "bits": set(),
    "environment": set(),
}
"""What `docs/for_jax_users.md` says that an import changes, and nothing else: class and name of a function."""
KNOWN_OF = {"tensors in trees": {"PyTreeDef.flatten_up_to", "lax._one_vjp"}}
"""What changes when JAX first takes a tensor apart."""


WIDE = {"TORCHGRAD_JAX_X64": "1"}
"""With this variable an import switches 64-bit types on in the whole process."""
OF_JAX = {"JAX_ENABLE_X64": "1"}
"""With this one of JAX's, they are on in any case."""


def said(program: str, **variables: str) -> Any:
    """What a program says in a process of its own, whose JAX has 32 bits if no variable says otherwise."""
    env = {k: v for k, v in os.environ.items() if k not in WIDE | OF_JAX} | variables
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, env=env)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout.splitlines()[-1])


@pytest.mark.parametrize("variables", [{}, WIDE, OF_JAX], ids=lambda v: next(iter(v), ""))
@pytest.mark.parametrize("use", USES)
def test_jax_is_as_it_was_before(use, variables):
    changed = {kind: set(names) for kind, names in said(PROBE.replace("{use}", USES[use]), **variables).items()}
    changed["names"] = {".".join(name.split(".")[-2:]) for name in changed["names"]}
    known = KNOWN | {"names": KNOWN["names"] | KNOWN_OF.get(use, set())}
    known["settings"] = {"jax_enable_x64"} if variables == WIDE else set()
    assert {kind: names - known[kind] for kind, names in changed.items()} == {kind: set() for kind in KNOWN}


@pytest.mark.parametrize("kind", ["gpu", "tpu"])
@pytest.mark.parametrize("use", ["eager work", "a compiled step"])
def test_jax_is_as_it_was_before_an_accelerator_was_used(use, kind):
    """What stands in for the accelerator imports the package, so this is about what comes after."""
    use = USES[use].replace(IMPORT, f"{IMPORT}; torch.set_default_device('xla')")
    program = "from tests.accelerator import stand_in" + PROBE.replace("{use}", use)
    assert said(program, STAND_IN=kind) == {kind: [] for kind in KNOWN}


PROGRAM = """
import json, threading
import jax, jax.numpy as jnp, numpy as np
import torchgrad_jax as torch
from torchgrad_jax import func, interop, nn

narrow = not jax.config.jax_enable_x64
rows = []

def check(what):
    "JAX has the types that the process has chosen."
    if not narrow:
        return
    arrays = jnp.ones(3) * 1.0, jnp.arange(3), jnp.asarray(np.arange(3.0)), jnp.sin(1.5) * 2
    found = [str(x.dtype) for x in (*arrays, jax.jit(lambda: jnp.zeros(2) + 1)())]
    assert found == ["float32", "int32", "float32", "float32", "float32"], (what, found)
    assert not jax.config.jax_enable_x64, what

def say(what, *tensors):
    check(what)
    for t in tensors:
        values = t.detach().cpu()
        numbers = torch.view_as_real(values) if values.is_complex() else values
        rows.append([what, str(values.dtype), numbers.tolist()])

check("import")
torch.manual_seed(0)
d, large = torch.float64, 2**40 + 1
x = torch.linspace(0.1, 1.0, 6, dtype=d).reshape(2, 3).requires_grad_()
big = torch.linspace(0.1, 1.0, 30_000, dtype=d)
"""
PARTS = {
    "eager": """
n = torch.arange(5) * large
say("integers", n, n.cumsum(0), n % 1000, torch.bincount(n % 7), n.argmax(), n.sort().indices, torch.tensor(large))
say("floats", x.sin(), x / 3, x * 0.1, x.softmax(1), x @ x.T, torch.lgamma(x), x.cdouble() * 1j, x.var(1))
say("large", (big * 0.1).sum(), big.sin().sum(), big.cumsum(0)[-1], (-big).argsort().sum(), torch.fft.fft(big)[7])
say("indices", x[:, torch.tensor([2, 0])], x.gather(1, torch.tensor([[2], [1]])), torch.where(x > 0.5, x, 0.1))
say("random", torch.randn(3, dtype=d), torch.rand(20_000, dtype=d).sum(), torch.randint(0, large, (3,)))
say("orders", torch.randperm(9), torch.multinomial(x.detach(), 2), torch.bernoulli(x.detach()))
say("numpy", torch.from_numpy(np.arange(3) * large), torch.from_numpy(np.full(30_000, 0.1)).sum())
y = x.detach().clone(); y[0] = 0.1; y[:, 1] += 0.2; y.mul_(0.3)
say("in place", y, y.clone().fill_(0.1), torch.full((2,), 0.1, dtype=d), torch.full((2,), large))
assert y.numpy().dtype == np.float64 and np.asarray(n).dtype == np.int64
""",
    "gradients": """
(x.sin() * x.exp() / 3).sum().backward()
say("backward", x.grad)
g, = torch.autograd.grad((x**3).sum(), x, create_graph=True)
say("second", g, torch.autograd.grad(g.sum(), x)[0])
b = big.clone().requires_grad_(); (b.tanh() * 0.1).square().sum().backward()
say("large gradient", b.grad.sum(), b.grad[:3])
class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): ctx.save_for_backward(x); return x**3
    @staticmethod
    def backward(ctx, g): return 3 * ctx.saved_tensors[0] ** 2 * g
say("a Function", torch.autograd.grad(Cube.apply(x).sum(), x)[0])
again = torch.utils.checkpoint.checkpoint(torch.sin, x, use_reentrant=False)
say("a checkpoint", torch.autograd.grad(again.sum(), x)[0])
""",
    "transforms": """
f = lambda v: (v.sin() * 0.1 * v).sum()
v = x.detach()[0]
say("transforms", func.grad(f)(v), func.vmap(func.grad(f))(x.detach()), func.jvp(f, (v,), (v,))[1], func.hessian(f)(v),
    func.jacrev(torch.cumsum)(v, 0), func.jacfwd(lambda v: v**3)(v), func.vjp(f, v)[1](torch.tensor(0.1, dtype=d))[0])
say("vmap of integers", func.vmap(lambda i: i * 2**40)(torch.arange(3)))
""",
    "a compiled step": """
net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 1)).double()
for cls in (torch.optim.AdamW, torch.optim.SGD, torch.optim.RMSprop):
    opt = cls(net.parameters(), lr=0.01)
    count = torch.tensor(large)
    @torch.compile
    def step(x):
        global count
        opt.zero_grad()
        loss = net(x).square().mean() * 0.1
        loss.backward()
        opt.step()
        count = count + x.argmax() + 1
        return loss
    for _ in range(4):
        loss = step(torch.randn(8, 3, dtype=d))
    say("compiled", loss, count, *net.state_dict().values())
    for _ in range(2):
        opt.zero_grad(); net(x.detach()).square().mean().backward(); opt.step()
    say("eager steps", *net.parameters())
dynamic = torch.compile(lambda x: (x * 0.1).cumsum(0) * x.shape[0], dynamic=True)
say("any size", *[dynamic(torch.ones(k, dtype=d)) for k in (3, 4, 5)])
""",
    "an export": """
net = nn.Linear(3, 2).double()
with torch.no_grad():
    [p.copy_(torch.linspace(0, 0.1, p.numel()).view_as(p)) for p in net.parameters()]
say("export", interop.export(net, x.detach())(x.detach()), torch.export.export(net, (x.detach(),)).module()(x.detach()))
say("loops", interop.scan(lambda h, r: (h * r + 0.1, h), torch.zeros(3, dtype=d), x.detach())[0],
    interop.fori_loop(0, 3, lambda i, n: n * 2, torch.tensor(large)))
""",
    "meshes": """
from torchgrad_jax import distributed as dist
from torchgrad_jax.distributed.tensor import Shard, Replicate, distribute_tensor
mesh = dist.init_device_mesh("cpu", (2,))
t = distribute_tensor(torch.linspace(0.1, 1, 8, dtype=d), mesh, [Shard(0)])
say("mesh", (t.sin() * 0.1).full_tensor(), (t * 3).redistribute(mesh, [Replicate()]).to_local(), t.sum().full_tensor())
n = distribute_tensor(torch.arange(6) * large, mesh, [Shard(0)])
say("integers on a mesh", (n + 1).full_tensor(), n.sum().full_tensor())
""",
    "threads": """
found = {}
def work(k):
    check("thread")
    found[k] = (torch.linspace(0, 1, 5000 * (k + 1), dtype=d) * 0.1).sin().sum()
    check("thread")
threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
[t.start() for t in threads]; [t.join() for t in threads]
say("threads", *[found[k] for k in range(3)])
data = torch.utils.data.TensorDataset(big[:40], torch.arange(40) * large)
for workers in (0, 1):
    for a, b in torch.utils.data.DataLoader(data, batch_size=20, num_workers=workers):
        say("data", a, b)
""",
    "errors": """
def fails(*args): raise KeyError("in the middle")
for call in (lambda: torch.compile(fails)(x), lambda: func.grad(fails)(x), lambda: func.vmap(fails)(x), lambda: x @ x,
             lambda: torch.autograd.grad(x.sum(), big), lambda: interop.from_jax(fails)(x), lambda: x.reshape(7),
             lambda: interop.to_jax(fails)(jnp.ones(2)), lambda: interop.scan(fails, x, x),
             lambda: torch.zeros(3)[torch.tensor([7])]):
    try:
        call()
    except (KeyError, RuntimeError, IndexError): check("an error")
    else: raise AssertionError("no error")
rows.append(["errors"])
""",
}


@pytest.mark.parametrize("part", PARTS)
def test_tensors_have_64_bits_where_the_process_has_32(part):
    program = PROGRAM + PARTS[part] + "print(json.dumps(rows))"
    if part == "meshes":
        program = "import os; os.environ['JAX_NUM_CPU_DEVICES'] = '2'\n" + program
    assert said(program) == said(program, **WIDE) == said(program, **OF_JAX)


CROSSING = """
import jax, jax.numpy as jnp, numpy as np
import json
import torchgrad_jax as torch
from torchgrad_jax import interop
d = torch.float64
seen = []
def note(*arrays): seen.extend(str(jnp.asarray(a).dtype) for a in arrays)
inside = []
def square(v):
    inside.append((str(v.dtype), str(jnp.ones(2).dtype)))
    return v * v * jnp.ones(())

f = interop.to_jax(lambda v: (v.double() * 0.1).sin() + torch.arange(3).sum() * v.argmax())
for call in (f, jax.jit(f), jax.jit(jax.grad(lambda v: f(v).sum())), jax.vmap(f)):
    for array in (jnp.ones((2, 3), jnp.float32), np.ones((2, 3))):
        note(call(array))
whole = interop.to_jax(lambda v: (v.double().tanh() * 0.1).cumsum(0).norm() + v.double().softmax(0).max())
row = jnp.arange(3.0)
note(jax.grad(jax.jit(whole))(row), jax.jit(jax.hessian(jax.jit(whole)))(row), jax.grad(jax.checkpoint(whole))(row))
note(jax.lax.scan(lambda c, r: (c + whole(r), c), jnp.float32(0), jnp.ones((2, 3)))[0])
note(jax.jit(interop.to_jax(lambda v: torch.linalg.svd(v.double())[1]))(jnp.eye(3)))
note(jax.jit(interop.to_jax(lambda v: v.argmax(1)))(np.ones((2, 3))))
note(*[jnp.sin(torch.ones(k, dtype=d)) for k in (3, 300_000)], jnp.asarray(torch.arange(3)))
note(jnp.asarray(torch.arange(300_000)), jax.jit(jnp.sin)(torch.ones(3, dtype=d)))
note(jax.grad(lambda t: (t * t).sum())(torch.ones(3, dtype=d)))
note(jax.lax.scan(lambda c, r: (c + r, c), torch.tensor(1), torch.arange(3))[0])
key, dropout = jax.random.key(0), jax.jit(interop.to_jax(torch.nn.functional.dropout))
note(jax.random.uniform(key, (2,)), dropout(jnp.ones(3), rngs=key))
tiny = lambda v: jnp.asarray((torch.as_tensor(v) * 0.1).abs().sum())
for a in (1.0, np.ones(3), jnp.asarray(2.0)):  # JAX has not settled the type of the second and the third
    note(jax.grad(tiny)(a), jax.jvp(tiny, (a,), (a,))[1], jax.linearize(tiny, a)[0], jax.jit(tiny)(a))
note(jax.vmap(tiny)(np.ones(3)))
held = torch.ones(2, dtype=d)
def closing(v):
    inside.append((str(v.dtype), str(jnp.asarray(held).dtype)))
    return jax.lax.scan(lambda c, _: (c * jnp.asarray(held), None), v, None, length=2)[0]

t = torch.ones(2, dtype=d, requires_grad=True)
torch.from_jax(closing)(t).sum().backward()
t.grad = None
outs = [torch.from_jax(square)(t), torch.compile(torch.from_jax(square))(t.detach())]
outs[0].sum().backward()
outs += [t.grad, interop.to_jax(torch.sin)(np.ones(3))]
with jax.enable_x64(True):
    note(f(jnp.ones((2, 3))), jnp.asarray(torch.arange(3)))
print(json.dumps([seen, inside, [str(o.dtype) for o in outs]]))
"""


def test_what_crosses_to_jax_has_the_types_of_the_process():
    seen, inside, outs = said(CROSSING)
    *narrow, wide, wide_integers = seen
    assert set(narrow) == {"float32", "int32"}
    assert narrow.count("int32") == 4
    assert (wide, wide_integers) == ("float64", "int64")
    assert {tuple(row) for row in inside} == {("float32", "float32")}
    assert outs == ["torch.float32", "torch.float32", "torch.float64", "float32"]
