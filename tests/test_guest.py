"""What importing and using the package leaves as it was for other JAX code of the same process."""

import json
import subprocess
import sys

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
t = torch.randn(40_000, requires_grad=True)
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
    "settings": {"jax_enable_x64"},
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


@pytest.mark.parametrize("use", USES)
def test_jax_is_as_it_was_before(use):
    run = subprocess.run(
        [sys.executable, "-c", PROBE.replace("{use}", USES[use])], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    changed = {kind: set(names) for kind, names in json.loads(run.stdout).items()}
    changed["names"] = {".".join(name.split(".")[-2:]) for name in changed["names"]}
    known = KNOWN | {"names": KNOWN["names"] | KNOWN_OF.get(use, set())}
    assert {kind: names - known[kind] for kind, names in changed.items()} == {kind: set() for kind in KNOWN}
