"""Pipelines whose stages are in several processes."""

import importlib

PARTS = 4


def pipelining(m):
    """The module with stages and schedules."""
    return importlib.import_module(f"{m.__name__}.distributed.pipelining")


def data(m):
    """A batch and what should come out of it, the same in all processes."""
    draws = m.Generator().manual_seed(3)
    return m.randn(8, 4, generator=draws), m.randn(8, 4, generator=draws)


def layers(m, n):
    m.manual_seed(0)
    return [m.nn.Sequential(m.nn.Linear(4, 4), m.nn.Tanh()) for _ in range(n)]


def trained(m, d, name, n, group=None):
    """Outputs, losses and gradients of two steps of `n` stages, dealt out to the processes in turn or along a V."""
    pipe, rank, size, (x, y) = pipelining(m), d.get_rank(), d.get_world_size(), data(m)
    every, own = layers(m, n), [*range(rank, n, size)]
    if "V" in name:
        own = [rank, n - 1 - rank]
    stages = [pipe.PipelineStage(every[i], i, n, m.device("cpu"), group=group) for i in own]
    given = stages[0] if n == size else stages
    schedule = getattr(pipe, name)(given, PARTS, loss_fn=m.nn.functional.mse_loss)
    params = [p for i in own for p in every[i].parameters()]
    optimizer, found = m.optim.SGD(params, lr=0.1), []
    for _ in range(2):
        optimizer.zero_grad()
        losses = []
        out = schedule.step(*([x] if 0 in own else []), **({"target": y, "losses": losses} if n - 1 in own else {}))
        optimizer.step()
        found.append([None if out is None else out.detach(), losses, [p.grad.clone() for p in params]])
    return found


def stages_of_processes(m, d):
    several = ["Interleaved1F1B", "LoopedBFS", "InterleavedZeroBubble", "ZBVZeroBubble", "DualPipeV"]
    group = d.new_group(list(range(d.get_world_size())))
    one = [trained(m, d, name, d.get_world_size(), group) for name in ("ScheduleGPipe", "Schedule1F1B")]
    twice = 2 * d.get_world_size()
    return one, [trained(m, d, f"Schedule{name}", twice) for name in several]


def results_of_several_tensors(m, d):
    """Stages that give several tensors, one of which needs no gradient; and a batch without gradients."""
    pipe, rank, last = pipelining(m), d.get_rank(), d.get_world_size() - 1
    m.manual_seed(0)

    class Masked(m.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = m.nn.Linear(4, 4)

        def forward(self, x, mask):
            return self.layer(x) * mask if rank == last else (self.layer(x), mask)

    model, (x, y) = Masked(), data(m)
    stage = pipe.PipelineStage(model, rank, last + 1, m.device("cpu"))
    schedule = pipe.ScheduleGPipe(stage, 2, loss_fn=lambda out, wanted: (out - wanted).square().sum())
    args = [x, (y > 0).float()] if rank == 0 else []
    named = {"target": y} if rank == last else {}
    out = schedule.step(*args, **named)
    # Torch's eval() divides them once more.
    gradients = [p.grad.clone() for p in model.parameters()]
    again = schedule.eval(*args, **named)
    shown = [None if t is None else t.detach() for t in (out, again)]
    return shown, gradients
