"""What importing and using the package leaves as it was for other JAX code of the same process."""

import json
import subprocess
import sys

import pytest

PROBE = """
import os, types, json, inspect
environment = dict(os.environ)
import jax, jax.numpy as jnp, numpy as np
import jax.nn, jax.random, jax.scipy.special, jax.tree_util

MODULES = (jax, jnp, jax.lax, jax.nn, jax.random, jax.scipy.special, jax.tree_util, jax.core, jax.sharding, jnp.linalg)
KINDS = types.FunctionType | staticmethod | classmethod
x = np.linspace(-40, 40, 20_001, dtype=np.float32)
CURVES = ("sin", "cos", "tan", "arcsin", "arccos", "arctan", "log", "log1p", "exp", "tanh", "sinc", "sqrt", "expm1")

def names():
    "Each public function and class of JAX, and each function of a class, by its full name."
    found = {}
    for module in MODULES:
        for name, value in vars(module).items():
            if not name.startswith("_") and not isinstance(value, types.ModuleType):
                found[f"{module.__name__}.{name}"] = value
                if isinstance(value, type) and value.__module__.startswith("jax"):
                    of = {f"{module.__name__}.{name}.{k}": v for k, v in vars(value).items()}
                    found |= {k: v for k, v in of.items() if isinstance(v, KINDS)}
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
before["environment"] = environment
{use}
after = state()
def differs(a, b):
    return a is not b and a != b
changed = {k: [n for n in {*before[k], *after[k]} if differs(before[k].get(n), after[k].get(n))] for k in before}
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
""",
}
KNOWN = {
    "settings": {"jax_enable_x64"},
    "names": {
        "jax.tree_util.PyTreeDef.flatten_up_to",
        *("jax.custom_jvp.__call__", "jax.custom_vjp.__call__"),
        *(f"jax.core.Trace.{n}" for n in ("__init__", "invalidate")),
    },
    "bits": set(),
    "environment": set(),
}
"""What `docs/for_jax_users.md` says that an import changes, and nothing else."""


@pytest.mark.long
@pytest.mark.parametrize("use", USES)
def test_jax_is_as_it_was_before(use):
    run = subprocess.run(
        [sys.executable, "-c", PROBE.replace("{use}", USES[use])], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    changed = json.loads(run.stdout)
    assert {k: {*names} - KNOWN[k] for k, names in changed.items()} == {k: set() for k in KNOWN}
