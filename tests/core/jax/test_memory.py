"""How much memory a process takes whose batches have ever new sizes: no more after thousands than after some.

`make conformance` runs as many sizes as `BATCH_SIZES` says, with the limits that are in force for everybody.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import torchgrad_jax as torch
from torchgrad_jax._core.jax import caches

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = """
import json, sys
import torchgrad_jax as torch
from torchgrad_jax import nn

mode, sizes, limits, kept = json.loads(sys.argv[1])
torch.set_cache_limits(**limits)
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

def step(x, y):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss

def megabytes():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) / 1024

run = torch.compile(step, recompile_limit=kept) if mode == "compiled" else step
seen = []
for n in range(1, sizes + 1):
    run(torch.randn(n, 16), torch.randint(0, 4, (n,))).item()
    seen.append(megabytes())
print(json.dumps(seen))
"""


def megabytes(mode: str, sizes: int, limits: dict[str, int], kept: int | None) -> list[float]:
    """The resident memory of a process after each of so many batch sizes."""
    told = json.dumps([mode, sizes, limits, kept])
    done = subprocess.run([sys.executable, "-c", PROGRAM, told], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


needs_proc = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="asks Linux")


@needs_proc
@pytest.mark.parametrize("mode", ["eager", "compiled"])
def test_memory_does_not_grow_with_the_number_of_batch_sizes(mode: str) -> None:
    seen = megabytes(mode, 200, {"kernels": 64, "calls": 512, "views": 512, "layouts": 512}, 4)
    early, late = statistics.median(seen[80:120]), statistics.median(seen[160:])
    assert late - early < 20, (early, late)


@needs_proc
@pytest.mark.skipif("BATCH_SIZES" not in os.environ, reason="takes as long as the sizes are many")
@pytest.mark.parametrize("mode", ["eager", "compiled"])
def test_thousands_of_batch_sizes_stay_below_a_gigabyte(mode: str) -> None:
    seen = megabytes(mode, int(os.environ["BATCH_SIZES"]), {}, None)
    assert max(seen) < 1000, [round(n) for n in seen[:: max(len(seen) // 20, 1)]]


def test_jax_keeps_few_traces_of_its_own_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    from jax._src.interpreters import partial_eval

    monkeypatch.setattr(caches, "_TRACES", 64)
    cache: Any = partial_eval.trace_to_jaxpr
    for n in range(40):
        x = torch.ones(n + 1, 3, requires_grad=True)
        torch.nn.functional.cross_entropy(x, torch.zeros(n + 1, dtype=torch.long)).backward()
    caches.drop_traces()
    kept = cache.cache_info().currsize
    for n in range(40, 80):
        x = torch.ones(n + 1, 3, requires_grad=True)
        torch.nn.functional.cross_entropy(x, torch.zeros(n + 1, dtype=torch.long)).backward()
    caches.drop_traces()
    assert cache.cache_info().currsize < kept + 64


def test_traces_of_the_users_functions_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    import jax
    from jax._src.interpreters import partial_eval

    def of_the_user(x: Any) -> Any:
        return jax.numpy.where(x > 0, x, 2 * x)

    times = []

    def counted(x: Any) -> Any:
        times.append(1)
        return of_the_user(x)

    jitted = jax.jit(counted)
    jitted(jax.numpy.ones(3))
    monkeypatch.setattr(caches, "_TRACES", 0)
    caches.drop_traces()
    cache: Any = partial_eval.trace_to_jaxpr
    assert counted in [key[0]() for key in cache.cache_keys()]
    jitted(jax.numpy.ones(3))
    jitted.lower(jax.numpy.ones(3))
    assert len(times) == 1
