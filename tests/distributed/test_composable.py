"""`replicate`, and what CommDebugMode counts of two processes, as torch's with gloo."""

import copy
import importlib
from typing import Any

from .processes import Together, complaint
from .test_data_parallel import batch, gradients, model

together = Together(2)
test_same_as_torch = together.test()


def composable(m):
    return importlib.import_module(m.__name__ + ".distributed._composable")


@together
def replicated(m, d):
    net = composable(m).replicate(model(m, d))
    found = [type(net).__name__, list(net.state_dict()), isinstance(net, m.nn.Sequential), type(net[:2]).__name__]
    for step in range(2):
        net(batch(m, d, step)).sum().backward()
        found.append(gradients(net))
        with m.no_grad():
            for p in net.parameters():
                p.sub_(p.grad / 16)
                p.grad = None
    return found, list(net.parameters()), net[1].running_mean


@together
def without_averages_for_a_while(m, d):
    net = composable(m).replicate(model(m, d), device_id=m.device("cpu"))
    net.set_requires_gradient_sync(False)
    net(batch(m, d)).sum().backward()
    own = gradients(net)
    net.set_requires_gradient_sync(True)
    net(batch(m, d, 1)).sum().backward()
    return own, gradients(net)


@together
def some_modules_left_out(m, d):
    net = model(m, d)
    composable(m).replicate(net, ignored_modules=[net[0]])
    net(batch(m, d)).square().sum().backward()
    return gradients(net), list(net.parameters())


@together
def with_a_hook(m, d):
    def halved(state, bucket):
        future = m.futures.Future()
        future.set_result(bucket.buffer() / state)
        return future

    net = composable(m).replicate(model(m, d))
    net.register_comm_hook(2.0, halved)
    net(batch(m, d)).sum().backward()
    return gradients(net)


@together
def refused(m, d):
    replicate, net = composable(m).replicate, m.nn.Linear(2, 2)
    yes = replicate(net)
    found: list[Any] = [
        complaint(lambda: replicate(m.nn.Linear(2, 2), device_id="cpu")),
        complaint(lambda: copy.deepcopy(yes)),
    ]
    try:
        replicate(net)
    except (AssertionError, ValueError):
        found.append("once")
    return found


@together
def checkpointed(m, d):
    calls = []

    class Block(m.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = m.nn.Parameter(m.arange(3.0))

        def forward(self, x, scale=1.0):
            calls.append(1)
            return (x * self.w).sin() * scale

    checkpoint, block = composable(m).checkpoint, Block()
    net = checkpoint(block)
    out = net(m.ones(3), scale=2.0).sum()
    before = len(calls)
    out.backward()
    errors = [complaint(lambda: checkpoint(Block(), use_reentrant=True))]
    errors += [complaint(lambda: checkpoint(Block(), speed=1)), complaint(lambda: checkpoint(block))[0]]
    return net is block, list(net.state_dict()), before, len(calls), block.w.grad, type(net).__name__, errors


@together
def collectives_that_are_called(m, d):
    debug = importlib.import_module(m.__name__ + ".distributed.tensor.debug")
    functional = importlib.import_module(m.__name__ + ".distributed._functional_collectives")
    ops, pair = m.ops, d.group.WORLD
    with debug.CommDebugMode() as mode:
        x = m.ones(2, requires_grad=True)
        y = functional.all_reduce(x, "sum", pair)
        y = functional.all_gather_tensor(y, 0, pair)
        functional.reduce_scatter_tensor(y, "sum", 0, pair)
        z = m.ones(4)
        d.all_reduce(z)
        d.all_reduce(z, op=d.ReduceOp.MAX)
        d.broadcast(z, 0)
        d.all_gather([m.zeros(4) for _ in range(2)], z)
        d.all_gather_into_tensor(m.zeros(8), z)
        d.reduce_scatter_tensor(m.zeros(2), z)
        d.all_to_all_single(m.zeros(4), z)
        d.scatter(m.zeros(2), [m.ones(2), m.ones(2)] if d.get_rank() == 0 else None, 0)
        d.barrier()
    counts = mode.get_comm_counts()
    keys = {str(key): n for key, n in counts.items()}
    return sorted(keys.items()), counts[ops.c10d_functional.all_reduce], counts[ops.c10d.allreduce_], repr(mode)
