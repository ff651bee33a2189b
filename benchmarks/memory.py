"""Peak memory of a 50-op elementwise chain over 4M elements, each contender in a process of its own."""

from __future__ import annotations

import subprocess
import sys

_PROGRAM = """
import resource, sys
name = sys.argv[1]
if name == "torch":
    import torch as t
    t.set_num_threads(2)
else:
    import torchgrad_jax as t
def run(n):
    x = t.ones(n, requires_grad=True)
    z = x
    for i in range(10):
        z = (z * 1.01).sin()
        z = (z + 0.1).exp()
        z = z * 0.5
    z.sum().backward()
    return float(x.grad[0])
run(16)
run(16)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
run(int(sys.argv[2]))
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print((after - before) / 1024)
"""


def peak_mib(name: str, elements: int) -> float:
    """MiB that one forward and backward pass adds to the process's peak."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, name, str(elements)],
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout.strip().splitlines()[-1])
