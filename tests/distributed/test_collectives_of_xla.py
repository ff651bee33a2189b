"""Compiled functions whose collectives XLA carries out, in one program that the processes run together.

The programs are compiled here and eager in torch: what matters is that the numbers are the same. Between CPUs this has
to be asked for; GPUs and TPUs do it by themselves.
"""

from .processes import Together, complaint

together = Together(2, TORCHGRAD_JAX_COLLECTIVES="xla")
test_same_as_torch = together.test()


def compiled(m, fn):
    """The function as one program, and whether XLA sees its exchanges and has run it; torch runs it as it is."""
    if m.__name__ == "torch":
        return fn, lambda *args: True
    step = m.compile(fn, fullgraph=True)

    def is_together(*args):
        programs = [entry for entries in step.entries.values() for entry in entries]
        return bool(step.lower(*args).collectives()) and programs[0].program.joint.kernel.settled

    return step, is_together


@together
def every_collective_that_xla_has(m, d):
    rank = d.get_rank()

    def program(x):
        found = []
        for op in (d.ReduceOp.SUM, d.ReduceOp.AVG, d.ReduceOp.MAX, d.ReduceOp.MIN, d.ReduceOp.PRODUCT):
            y = x.clone()
            d.all_reduce(y, op=op)
            found.append(y)
        d.all_reduce(bits := x.long(), op=d.ReduceOp.BOR)
        d.all_reduce(turned := m.complex(x, -x))
        parts = [m.zeros_like(x) for _ in range(2)]
        d.all_gather(parts, x)
        for source in (x / 3, x.bfloat16() / 3, x.long(), x > 1.5, m.complex(x, x)):
            d.broadcast(sent := source.clone(), 1)
            found.append(sent)
        d.reduce_scatter(one := m.zeros(1), [x[:1], x[1:]])
        d.reduce_scatter(largest := m.zeros(1), [x[:1], x[1:]], op=d.ReduceOp.MAX)
        d.all_to_all_single(swapped := m.zeros_like(x), x)
        d.all_to_all(exchanged := [m.zeros(1), m.zeros(1)], [x[:1], x[1:]])
        d.reduce(rooted := x.clone(), 1)
        d.barrier()
        return found, bits, turned, parts, one, largest, swapped, exchanged, rooted

    run, is_together = compiled(m, program)
    x = m.tensor([1.0, 2.0]) * (rank + 1)
    results = [run(x), run(x + 1)]
    # What `reduce` leaves elsewhere than at the root is nobody's business.
    return [(found, rooted if rank == 1 else None) for *found, rooted in results], is_together(x)


def model(m):
    m.manual_seed(0)
    layers = m.nn.Linear(3, 4, bias=False), m.nn.BatchNorm1d(4), m.nn.Tanh(), m.nn.Linear(4, 1)
    return m.nn.Sequential(*layers)


@together
def steps_of_ddp_with_a_batch_of_another_size_in_one_process(m, d):
    """Where one process has another program, all call back for that step, and run together again later."""
    rank = d.get_rank()
    net = m.nn.parallel.DistributedDataParallel(model(m))
    optimizer = m.optim.AdamW(net.parameters(), lr=0.05)
    schedule = m.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)

    def step(x, y):
        optimizer.zero_grad()
        loss = (net(x) - y).square().mean()
        loss.backward()
        m.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    run, is_together = compiled(m, step)
    m.manual_seed(rank + 5)
    found = []
    for i in range(6):
        rows = 3 if i == 3 and rank == 1 else 5
        x, y = m.randn(rows, 3), m.randn(rows, 1)
        found.append(run(x, y))
        schedule.step()
        d.all_reduce(found[-1])
    return found, is_together(x, y), net.state_dict()


@together
def what_xla_does_not_have_calls_back(m, d):
    rank = d.get_rank()

    def program(x):
        d.all_reduce(x)
        got = m.zeros_like(x)
        d.send(x, 1) if rank == 0 else d.recv(got, 0)
        return x * (rank + 1), got

    run, _ = compiled(m, program)
    return [run(m.ones(2) * (rank + i)) for i in range(3)]


@together
def groups_of_other_processes(m, d):
    rank = d.get_rank()
    alone = d.new_group([0])

    def program(x):
        if rank == 0:
            d.all_reduce(x, group=alone)
        d.all_reduce(y := x + 1)
        return x, y

    run, _ = compiled(m, program)
    return [run(m.ones(2) * (rank + i)) for i in range(3)]


@together
def what_is_written_is_each_processes_own(m, d):
    table = m.arange(4.0)

    def program(x, i):
        d.all_reduce(y := x * 2)
        x.add_(1)
        return y + table[i]

    run, is_together = compiled(m, program)
    x, found = m.ones(2) * d.get_rank(), []
    for i in (1, 3):
        found += [run(x, m.tensor([i, 0])), x.clone()]
    return found, is_together(x, m.tensor([1, 0]))


@together
def an_index_out_of_range_in_all_processes(m, d):
    def program(x, i):
        d.all_reduce(y := x * 2)
        return y[i]

    run, _ = compiled(m, program)
    x = m.arange(3.0) + d.get_rank()
    before = run(x, m.tensor([1]))
    wrong = complaint(lambda: run(x, m.tensor([5])))
    return before, wrong, run(x, m.tensor([2]))
