"""Peak memory of a 50-op elementwise chain over 4M elements, or of attention, each contender in its own process.

The chain runs as it is, or with its links checkpointed.
"""

from __future__ import annotations

import os
import subprocess
import sys

# glibc would keep freed blocks of these sizes for later, by its own rules: the peak would tell of that.
_TIDY = {"MALLOC_MMAP_THRESHOLD_": "1000000"}
_PROGRAM = """
import sys
name = sys.argv[1]
def peak():
    # Not getrusage, which starts from what the process that started this one had.
    with open("/proc/self/status") as told:
        return next(int(line.split()[1]) for line in told if line.startswith("VmHWM"))
if name == "torch":
    import torch as t
    from torch.utils.checkpoint import checkpoint
    t.set_num_threads(2)
else:
    import torchgrad_jax as t
    from torchgrad_jax.utils.checkpoint import checkpoint
def link(z):
    for i in range(int(sys.argv[3])):
        z = (z * 1.01).sin()
        z = (z + 0.1).exp()
        z = z * 0.5
    return z
def attention(n):
    q, k, v = (t.rand(1, 4, n, 64, requires_grad=True) for _ in range(3))
    t.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).sum().backward()
    return float(q.grad.sum())
def chain(n):
    x = t.ones(n, requires_grad=True)
    z = x
    for i in range(10):
        z = checkpoint(link, z, use_reentrant=False) if sys.argv[4] == "checkpoint" else link(z)
    z.sum().backward()
    return float(x.grad[0])
run = attention if sys.argv[4] == "attention" else chain
run(16)
run(16)
before = peak()
run(int(sys.argv[2]))
after = peak()
print((after - before) / 1024)
"""


def peak_mib(name: str, size: int, repeats: int = 1, way: str = "plain") -> float:
    """MiB that one forward and backward pass adds to the process's peak.

    Args:
        name: torch or torchgrad_jax.
        size: elements of the tensors in the chain, or tokens of the attention.
        repeats: the chain has ten links of so many times five operations.
        way: a chain that is "plain", one whose links are a "checkpoint", or "attention".
    """
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, name, str(size), str(repeats), way],
        env={**os.environ, **_TIDY},
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout.strip().splitlines()[-1])


def share_left(name: str, elements: int, repeats: int) -> float:
    """How much of the memory of a pass is left when each link of the chain is checkpointed."""
    return peak_mib(name, elements, repeats, "checkpoint") / peak_mib(name, elements, repeats)
