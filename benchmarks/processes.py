"""Two processes, here and with torch's gloo: until they have met, one all_reduce, one step of DDP and of FSDP.

`python -m benchmarks.processes` prints a table. Each number is the smallest of several rounds, in wall time of rank 0.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROUNDS = 7


def best(run: Callable[[], Any], times: int) -> float:
    """Seconds of one call."""
    run()
    run()
    found = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        for _ in range(times):
            run()
        found.append((time.perf_counter() - begun) / times)
    return min(found)


def transformer(m: Any) -> Any:
    """Two layers over sequences of 32, 64 wide."""
    layer = m.nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
    return m.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


def mlp(m: Any) -> Any:
    """Three layers, 256 wide."""
    parts = [m.nn.Linear(256, 256), m.nn.ReLU(), m.nn.Linear(256, 256), m.nn.ReLU()]
    return m.nn.Sequential(*parts, m.nn.Linear(256, 256))


def replicated(m: Any, model: Any) -> Any:
    """The model in DistributedDataParallel."""
    return m.nn.parallel.DistributedDataParallel(model)


def sharded(m: Any, model: Any) -> Any:
    """The model with its layers' parameters split over the processes."""
    fsdp: Any = importlib.import_module(m.__name__ + ".distributed.fsdp")
    mesh = m.distributed.device_mesh.init_device_mesh("cpu", (2,))
    for layer in model.layers:
        fsdp.fully_shard(layer, mesh=mesh)
    return fsdp.fully_shard(model, mesh=mesh)


def step_of(m: Any, net: Any, x: Any) -> Callable[..., Any]:
    """A step of training."""
    optimizer = m.optim.SGD(net.parameters(), lr=0.01)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    compiled = m.compile(step) if m.__name__ == "torchgrad_jax" else step
    return lambda which="eager": (compiled if which == "compiled" else step)(x).item()


def measure(package: str, begun: float) -> dict[str, float]:
    """What one process of a launch measures."""
    m: Any = importlib.import_module(package)
    d: Any = importlib.import_module(package + ".distributed")
    m.set_num_threads(1)
    d.init_process_group("gloo")
    d.barrier()
    found = {"start of 2 processes": time.time() - begun}
    for name, n, times in (("all_reduce of 4 floats", 4, 200), ("all_reduce of 4 MB", 1 << 20, 10)):
        x = m.ones(n)
        found[name] = best(lambda x=x: d.all_reduce(x), times)
    networks = (
        ("DDP step, MLP", replicated, mlp, (32, 256)),
        ("DDP step, transformer", replicated, transformer, (8, 32, 64)),
        ("FSDP step, transformer", sharded, transformer, (8, 32, 64)),
    )
    for name, spread, model, shape in networks:
        m.manual_seed(0)
        run = step_of(m, spread(m, model(m)), m.ones(*shape))
        found[name] = best(run, 5)
        if package == "torchgrad_jax":
            found[f"{name}, compiled"] = best(lambda run=run: run("compiled"), 5)
    d.barrier()
    return found


def launched(package: str) -> dict[str, float]:
    """Start two processes of this file; what rank 0 measured."""
    module = "torch.distributed.run" if package == "torch" else "torchgrad_jax.distributed.run"
    command = [sys.executable, "-m", module, "--nproc-per-node=2", str(Path(__file__)), package]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.getcwd(), "JAX_PLATFORMS": "cpu"}
    command.append(str(time.time()))
    said = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    line = next((x for x in said.stdout.splitlines() if x.startswith("{")), None)
    if line is None:
        raise SystemExit(said.stderr)
    return json.loads(line)


def main() -> None:
    """The table."""
    torch, ours = launched("torch"), launched("torchgrad_jax")
    for name, seconds in ours.items():
        other = torch[name.removesuffix(", compiled")]
        print(f"{name:32} {1e3 * other:10.2f} ms {1e3 * seconds:10.2f} ms {seconds / other:6.2f}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        results = measure(sys.argv[1], float(sys.argv[2]))
        if os.environ["RANK"] == "0":
            print(json.dumps(results), flush=True)
        if sys.argv[1] == "torch":
            os._exit(0)
    else:
        main()
