"""Comparisons with JAX are with JAX as it is: the same whether the package is imported before JAX or after it."""

import json
import os
import subprocess
import sys

SCRIPT = """
import json
{first}
import jax, numpy as np
import jax.numpy as jnp
from jax.lax import cond, scan

@jax.jit
def theirs(x):
    total, states = scan(lambda h, r: (jnp.tanh(h + r.sum()), h), jnp.zeros((), x.dtype), x)
    y = cond(x.shape[0] > 1, lambda x: jnp.sin(x) * jnp.exp(x / 9), jnp.cos, x)
    return jax.checkpoint(lambda y: jax.nn.relu(jnp.log1p(y * y) - 0.5))(y) + states[:, None], total

x = np.linspace(-9, 9, 8_000, dtype=np.float32).reshape(4, 2_000)
bits = [hash(np.asarray(y).tobytes()) for y in theirs(x)]
{last}
seen = []

def recorded(x):
    found = theirs(x)
    if not isinstance(x, jax.core.Tracer):
        seen.append([hash(np.asarray(y).tobytes()) for y in found])
    return found

def ours(x):
    h, states = torch.zeros((), dtype=x.dtype), []
    for r in x.unbind(0):
        states.append(h)
        h = torch.tanh(h + r.sum())
    y = torch.sin(x) * torch.exp(x / 9)
    return torch.relu(torch.log1p(y * y) - 0.5) + torch.stack(states)[:, None], h

report = torch.testing.assert_matches_jax(ours, recorded, [x], dtypes=["float32"], order=1, factor=2)
report = {{"first": str(report), "bits": bits, "bits that were compared": seen}}
faults = {{"value": lambda x: torch.sin(x) * 1.001, "gradient": lambda x: torch.sin(x.detach()) + 0 * x}}
for name, fault in faults.items():
    try:
        torch.testing.assert_matches_jax(fault, jnp.sin, [x[:2, :3]], dtypes=["float32"], order=1)
    except torch.testing.Differs as error:
        report[name] = error.difference.kind
print(json.dumps(report))
"""
IMPORT = "import torchgrad_jax as torch"


def compared(**lines: str) -> dict:
    code = SCRIPT.format(**({"first": "", "last": ""} | lines))
    same_hashes = os.environ | {"PYTHONHASHSEED": "0"}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=same_hashes)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def test_a_comparison_is_the_same_with_the_package_imported_first_or_last():
    first, last = compared(first=IMPORT), compared(last=IMPORT)
    assert first == last
    assert first["bits that were compared"]
    assert first["bits that were compared"] == [first["bits"]] * len(first["bits that were compared"])
    assert (first["value"], first["gradient"]) == ("value", "gradient")
