"""ZeroRedundancyOptimizer of two processes, step by step as torch's with gloo."""

import importlib

from .processes import Together, complaint

together = Together(2)
test_same_as_torch = together.test()


def zero(m, *args, **kwargs):
    optim = importlib.import_module(m.__name__ + ".distributed.optim")
    return optim.ZeroRedundancyOptimizer(*args, **kwargs)


def parameters(m):
    shapes = ((2,), (3, 4), (5,), (1, 2), (3,))
    return [((m.arange(m.Size(s).numel()) * 3 + i) % 5 - 2.0).reshape(s).requires_grad_() for i, s in enumerate(shapes)]


def train(m, optimizer, ps, steps=2):
    """The parameters after each step; all processes have the same gradients."""
    found = []
    for step in range(steps):
        optimizer.zero_grad()
        sum((p.sin() * (i + 1 + step)).sum() for i, p in enumerate(ps)).backward()
        optimizer.step()
        found.append([p.detach().clone() for p in ps])
    return found


OPTIMIZERS = {"SGD": {"lr": 0.1, "momentum": 0.9}, "Adam": {"lr": 0.01, "amsgrad": True}, "AdamW": {}}


@together
def steps_and_shares(m, d):
    found = {}
    for name, options in OPTIMIZERS.items():
        ps = parameters(m)
        optimizer = zero(m, ps, getattr(m.optim, name), **options)
        found[name] = [
            train(m, optimizer, ps),
            [[list(p.shape) for p in g["params"]] for g in optimizer.optim.param_groups],
            sorted(optimizer.param_groups[0]),
        ]
    return found


@together
def groups_with_options_of_their_own(m, d):
    ps = parameters(m)
    groups = [{"params": ps[:2], "lr": 0.5}, {"params": ps[2:4]}]
    optimizer = zero(m, groups, m.optim.SGD, lr=0.1, momentum=0.5)
    scheduler = m.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    found = train(m, optimizer, ps)
    scheduler.step()
    optimizer.add_param_group({"params": ps[4:], "lr": 2.0})
    found += train(m, optimizer, ps)
    rates = [[g["lr"] for g in o.param_groups] for o in (optimizer, optimizer.optim)]
    return found, rates


@together
def state_at_one_process(m, d):
    ps = parameters(m)
    optimizer = zero(m, ps, m.optim.Adam, lr=0.1)
    train(m, optimizer, ps)
    early = complaint(optimizer.state_dict)
    optimizer.consolidate_state_dict(to=1)
    late = complaint(optimizer.state_dict)
    state = [optimizer.state_dict() if d.get_rank() else None]
    d.broadcast_object_list(state, src=1)
    others = parameters(m)
    for p, q in zip(ps, others):
        q.data.copy_(p.data)
    again = zero(m, others, m.optim.Adam, lr=7.0)
    again.load_state_dict(state[0])
    plain = parameters(m)
    alone = m.optim.Adam(plain)
    alone.load_state_dict(optimizer.state_dict() if d.get_rank() else alone.state_dict())
    if d.get_rank():
        found = optimizer.state_dict()
        saved = {i: [s["exp_avg"].clone(), s["step"].clone()] for i, s in found["state"].items()}
        return early, late, saved, found["param_groups"], train(m, again, others)
    return early, late, train(m, again, others)


@together
def closures(m, d):
    ps = parameters(m)
    optimizer = zero(m, ps, m.optim.SGD, lr=0.1)

    def loss():
        optimizer.zero_grad()
        found = sum((p**2).sum() for p in ps)
        found.backward()
        return found

    return optimizer.step(loss).detach(), [p.detach().clone() for p in ps]


@together
def wrong_parameters(m, d):
    sgd = m.optim.SGD
    return [
        complaint(lambda: zero(m, [], sgd, lr=1)),
        complaint(lambda: zero(m, [1], sgd, lr=1))[0],
        complaint(lambda: zero(m, 3, sgd, lr=1))[0],
        complaint(lambda: zero(m, m.ones(1), sgd, lr=1))[0],
        complaint(lambda: zero(m, [{}], sgd, lr=1)),
    ]


@together
def what_is_not_built_says_so(m, d):
    if m.__name__ == "torch":
        return True
    ps = parameters(m)
    options = ("parameters_as_bucket_view", "overlap_with_ddp")
    said = [complaint(lambda o=o: zero(m, ps, m.optim.SGD, **{o: True}, lr=1)) for o in options]
    said.append(complaint(zero(m, ps, m.optim.SGD, lr=1).join_hook))
    return all(kind == "NotImplementedError" for kind, _ in said)
