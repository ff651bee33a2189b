"""Collectives and DistributedDataParallel inside of compiled functions, and collectives that return new tensors.

The programs are compiled here and eager in torch: what matters is that the numbers are the same.
"""

import importlib
import re

from .processes import Together, complaint

together = Together(2)
test_same_as_torch = together.test()


def compiled(m, fn, **how):
    """The function as one program, where the package compiles without another compiler."""
    return m.compile(fn, fullgraph=True, **how) if m.__name__ == "torchgrad_jax" else fn


@together
def every_collective_in_one_program(m, d):
    rank = d.get_rank()

    def program(x):
        total = x.sin()
        d.all_reduce(total)
        parts = [m.zeros_like(x) for _ in range(2)]
        d.all_gather(parts, x)
        largest = x * (3 - 2 * rank)
        d.all_reduce(largest, op=d.ReduceOp.MAX)
        mean = x.clone()
        d.all_reduce(mean, op=d.ReduceOp.AVG)
        sent = x.clone()
        d.broadcast(sent, 1)
        one = m.zeros(1)
        d.reduce_scatter(one, [x[:1], x[1:]])
        swapped = m.zeros_like(x)
        d.all_to_all_single(swapped, x)
        rooted = x.clone()
        d.reduce(rooted, 0)
        at_root = [m.zeros_like(x) for _ in range(2)] if rank == 0 else None
        d.gather(x, at_root, dst=0)
        mine = m.zeros_like(x)
        d.scatter(mine, parts if rank == 0 else None, src=0)
        d.barrier()
        got = m.zeros_like(x)
        d.send(x, 1) if rank == 0 else d.recv(got, 0)
        work = d.all_reduce(one, async_op=True)
        work.wait()
        return (total, parts, largest, mean, sent, one, swapped, at_root, mine, got, (rooted if rank == 0 else None))

    run = compiled(m, program)
    return [run(m.tensor([1.0, 2.0]) * (rank + 1) + i) for i in range(3)]


@together
def programs_between_other_collectives(m, d):
    rank = d.get_rank()
    add = compiled(m, lambda x: (x.add_(1), d.all_reduce(x))[0])
    x, y = m.ones(3) * rank, m.ones(2) * rank
    for _ in range(10):
        add(x)
        d.all_reduce(y)
        d.broadcast(y, 0)
    return x, y


def model(m):
    m.manual_seed(0)
    return m.nn.Sequential(m.nn.Linear(3, 4), m.nn.BatchNorm1d(4), m.nn.Tanh(), m.nn.Linear(4, 1))


def batches(m, rank):
    m.manual_seed(rank + 5)
    return [(m.randn(5, 3), m.randn(5, 1)) for _ in range(4)]


def hooked(m, d, net):
    def hook(state, bucket):
        half = bucket.buffer().div_(2)
        return d.all_reduce(half, async_op=True).get_future().then(lambda f: f.value()[0])

    net.register_comm_hook(None, hook)
    return net


KINDS = {
    "views of small buckets": lambda m, d, ddp: ddp(model(m), gradient_as_bucket_view=True, bucket_cap_mb=1e-5),
    "hook": lambda m, d, ddp: hooked(m, d, ddp(model(m), static_graph=True)),
}


@together
def steps_of_ddp(m, d):
    found = {}
    for kind, make in KINDS.items():
        net = make(m, d, m.nn.parallel.DistributedDataParallel)
        optimizer = m.optim.SGD(net.parameters(), lr=0.1)

        def step(x, y, net=net, optimizer=optimizer):
            optimizer.zero_grad()
            loss = (net(x) - y).square().mean()
            loss.backward()
            m.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            return loss

        run = compiled(m, step)
        dtype = next(net.parameters()).dtype
        losses = [run(x.to(dtype), y.to(dtype)) for x, y in batches(m, d.get_rank())]
        found[kind] = losses, list(net.buffers())
    return found


@together
def several_backwards_in_a_step(m, d):
    net = m.nn.parallel.DistributedDataParallel(model(m))
    optimizer = m.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

    def step(x, y):
        with net.no_sync():
            (net(x) - y).square().mean().backward()
        loss = (net(x) - y).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    run = compiled(m, step)
    return [run(x, y) for x, y in batches(m, d.get_rank())]


@together
def sizes_that_are_new_in_one_process(m, d):
    net = m.nn.parallel.DistributedDataParallel(m.nn.Linear(3, 1))
    optimizer = m.optim.SGD(net.parameters(), lr=0.1)

    def step(x):
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    with m.no_grad():
        for p in net.parameters():
            p.fill_(0.5)
    run = compiled(m, step, dynamic=True)
    return [run(m.ones(n, 3)) for n in ((4, 4, 4, 4) if d.get_rank() else (4, 5, 4, 6))]


@together
def a_compiled_forward_and_a_backward_outside(m, d):
    found = []
    for wrap in ("outside", "inside"):
        net = model(m)
        net = compiled(m, net) if wrap == "inside" else net
        net = m.nn.parallel.DistributedDataParallel(net)
        net = compiled(m, net) if wrap == "outside" else net
        optimizer = m.optim.SGD(net.parameters(), lr=0.1)
        for x, y in batches(m, d.get_rank()):
            optimizer.zero_grad()
            loss = (net(x) - y).square().mean()
            loss.backward()
            optimizer.step()
            found.append(loss)
    return found


# --- collectives that return new tensors ----------------------------------------------------------

NEW = {
    "all_reduce": ((2,), lambda f, x, g: f.all_reduce(x, "sum", g)),
    "all_reduce of ranks": ((2,), lambda f, x, g: f.all_reduce(x, "SUM", [0, 1])),
    "all_reduce by name": ((2,), lambda f, x, g: f.all_reduce(x, "sum", g.group_name)),
    "all_gather": ((2, 2), lambda f, x, g: f.all_gather_tensor(x, 0, g)),
    "all_gather of columns": ((2, 3), lambda f, x, g: f.all_gather_tensor(x, 1, g)),
    "reduce_scatter": ((4, 2), lambda f, x, g: f.reduce_scatter_tensor(x, "sum", 0, g)),
    "reduce_scatter of columns": ((2, 4), lambda f, x, g: f.reduce_scatter_tensor(x, "sum", 1, g)),
    "all_to_all": ((4,), lambda f, x, g: f.all_to_all_single(x, None, None, g)),
    "all_to_all, uneven": ((4, 2), lambda f, x, g: f.all_to_all_single(x, *uneven(g.rank()), g)),
    "permute": ((2,), lambda f, x, g: f.permute_tensor(x, [1, 0], g)),
    "several": ((2,), lambda f, x, g: sum(f.all_reduce(y, "sum", g) for y in (x, x * 3))),
}


def uneven(rank):
    """Rank 0 keeps one row and sends three; rank 1 sends two and keeps two."""
    return ([1, 2], [1, 3]) if rank == 0 else ([3, 2], [2, 2])


@together
def values_and_gradients(m, d):
    f = importlib.import_module(m.__name__ + ".distributed._functional_collectives")
    rank = d.get_rank()

    def all_of_them(*leaves):
        found = []
        for (_, call), leaf in zip(NEW.values(), leaves):
            out = f.wait_tensor(call(f, leaf * 2, d.group.WORLD))
            weights = m.arange(1.0, 1 + out.numel()).reshape(out.shape) * (rank + 1)
            (out * weights).sum().backward()
            found.append(out.detach())
        return found

    results = []
    for run in (all_of_them, compiled(m, all_of_them)):
        starts = [m.arange(1.0, 1 + m.ones(shape).numel()).reshape(shape) for shape, _ in NEW.values()]
        leaves = [(x + rank).requires_grad_() for x in starts]
        results.append([run(*leaves), [leaf.grad for leaf in leaves]])
    return results


@together
def refusals(m, d):
    f = importlib.import_module(m.__name__ + ".distributed._functional_collectives")
    x, group = m.ones(3, requires_grad=True), d.group.WORLD

    def backward(out):
        f.wait_tensor(out).sum().backward()

    return [
        complaint(lambda: backward(f.all_reduce(x, "max", group))),
        complaint(lambda: backward(f.reduce_scatter_tensor(m.ones(2, requires_grad=True), "avg", 0, group))),
        complaint(lambda: f.all_reduce(x, "foo", group)),
        complaint(lambda: f.all_reduce(x, "sum", 3)),
        complaint(lambda: f.reduce_scatter_tensor(x, "sum", 0, group)),
        complaint(lambda: d.P2POp(d.isend, m.ones(1))),
        complaint(lambda: d.new_group([0, 0])),
        complaint(lambda: d.all_gather([m.zeros(3, requires_grad=True) for _ in range(2)], m.ones(3)))[0],
    ]


def test_a_lost_process_is_named_by_a_program(tmp_path):
    from .test_run import start

    text = """
import datetime, os, signal
import torchgrad_jax as torch, torchgrad_jax.distributed as d
signal.signal(signal.SIGTERM, signal.SIG_IGN)
d.init_process_group("gloo", timeout=datetime.timedelta(seconds=2))
@torch.compile
def f(x):
    d.all_reduce(x)
    return x
x = f(torch.ones(2))
if d.get_rank() == 1:
    os.kill(os.getpid(), 9)
print(f(x))
"""
    started = start(tmp_path, text, "--shutdown-timeout=4")
    errors = started.communicate(timeout=60)[1]
    assert started.returncode == 1
    assert re.search("rank 1 has closed its connection", errors), errors
