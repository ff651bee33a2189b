"""Processes with different numbers of batches, as torch's."""

import importlib

from .processes import Together, complaint

together = Together(2)
test_same_as_torch = together.test()

KINDS = {
    "all": ({}, {}, 2),
    "those that have a batch": ({}, {"divide_by_initial_world_size": False}, 2),
    "unused": ({"find_unused_parameters": True}, {}, 1),
    "static": ({"static_graph": True}, {}, 1),
    "small buckets": ({"bucket_cap_mb": 1e-5}, {}, 1),
    "no batch at all": ({}, {}, 0),
    "switched off": ({}, {"enable": False}, 2),
}


def trained(m, d, options, join, batches):
    rank = d.get_rank()
    m.manual_seed(0)
    model = m.nn.Sequential(m.nn.Linear(3, 4), m.nn.BatchNorm1d(4), m.nn.Linear(4, 1))
    net = m.nn.parallel.DistributedDataParallel(model, **options)
    optimizer = m.optim.SGD(net.parameters(), lr=0.1)
    m.manual_seed(rank + 1)
    losses = []
    with net.join(**join):
        for _ in range(batches + (0 if join.get("enable") is False else 2 * rank)):
            optimizer.zero_grad()
            loss = net(m.randn(5, 3)).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss)
    return losses, list(net.parameters()), list(net.buffers())


@together
def uneven_batches(m, d):
    return {kind: trained(m, d, *options) for kind, options in KINDS.items()}


@together
def errors(m, d):
    join = importlib.import_module(m.__name__ + ".distributed.algorithms.join")
    early = complaint(lambda: trained(m, d, {}, {"throw_on_early_termination": True}, 1))
    return early, complaint(lambda: join.Join([]))
