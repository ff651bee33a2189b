"""SyncBatchNorm of three processes, as BatchNorm of their joined batch in one process of torch."""

import warnings

from .processes import Together, complaint

together = Together(3)
test_same_as_torch = together.test()


def joined(m, sizes, shape, dtype="float32"):
    """The batches of all processes, one after another."""
    n = sum(sizes)
    flat = m.arange(m.ones(n, *shape).numel(), dtype=m.float32)
    return ((flat * flat * 0.37 + 2.5 * flat) % 7 - 3).reshape(n, *shape).to(getattr(m, dtype))


def rows(d, sizes):
    rank = d.get_rank()
    return slice(sum(sizes[:rank]), sum(sizes[: rank + 1]))


def layer(m, ndim, kind, **options):
    """BatchNorm where torch runs it on the joined batch, and SyncBatchNorm where each process has its own part."""
    names = {2: "BatchNorm1d", 3: "BatchNorm1d", 4: "BatchNorm2d", 5: "BatchNorm3d"}
    made = getattr(m.nn, names[ndim] if kind == "one" else "SyncBatchNorm")(3, **options)
    with m.no_grad():
        for i, p in enumerate(made.parameters()):
            p.copy_(m.tensor([0.5, -1.0, 2.0]) + i)
    return made


def kind_of(m):
    return "one" if m.__name__ == "torch" else "sync"


def summed(m, d, values):
    """The sums over all processes, of what only has a part in each."""
    if kind_of(m) == "sync":
        for v in values:
            d.all_reduce(v)
    return values


def step(m, d, bn, batch, sizes, where=None):
    """What a forward and a backward give this process: its rows, and the gradients of the whole."""
    mine, one = rows(d, sizes) if where is None else where, kind_of(m) == "one"
    x = (batch if one else batch[mine].clone()).detach().requires_grad_()
    factors = joined(m, [len(batch)], batch.shape[1:], "float64").cos().to(batch.dtype)
    y = bn(x)
    (y * (factors if one else factors[mine])).sum().backward()
    grads = summed(m, d, [p.grad.clone() for p in bn.parameters()])
    part = mine if one else slice(None)
    return [y.detach()[part].clone(), x.grad[part].clone(), grads, list(bn.state_dict().values())]


SIZES = {"equal": [2, 2, 2], "different": [4, 1, 2], "one value each": [1, 1, 1], "none in one": [3, 0, 2]}
OPTIONS = {
    "plain": {},
    "average": {"momentum": None},
    "untracked": {"track_running_stats": False},
    "without": {"affine": False},
    "no offset": {"bias": False},
    "large": {"momentum": 1.0, "eps": 0.5},
}


@together
def training_steps_with_any_sizes(m, d):
    found = {}
    for name, sizes in SIZES.items():
        for shape in ((3,), (3, 2), (3, 2, 2), (3, 1, 2, 2)):
            bn = layer(m, len(shape) + 1, kind_of(m))
            found[name, shape] = step(m, d, bn, joined(m, sizes, shape), sizes)
    return found


@together
def training_steps_that_are_compiled(m, d):
    """A compiled layer, and a whole step whose forward has too few values."""
    compiled = m.compile if kind_of(m) == "sync" else lambda fn: fn
    found = {}
    for name, sizes in SIZES.items():
        bn = compiled(layer(m, 3, kind_of(m)))
        found[name] = [step(m, d, bn, joined(m, sizes, (3, 2)) * i, sizes) for i in (1, 2)]
    alone = compiled(layer(m, 2, kind_of(m)))
    only = kind_of(m) == "one" or d.get_rank() == 1
    said = str(complaint(lambda: alone(m.ones(1 if only else 0, 3))))
    return found, "Expected more than 1 value per channel when training" in said


@together
def training_steps_with_any_options(m, d):
    found = {}
    for name, options in OPTIONS.items():
        bn = layer(m, 3, kind_of(m), **options)
        found[name] = [step(m, d, bn, joined(m, [1, 2, 3], (3, 2)) + k, [1, 2, 3]) for k in range(3)]
        found[name, "evaluated"] = bn.eval()(joined(m, [4], (3, 2))).detach()
    return found


@together
def other_dtypes(m, d):
    found = []
    for dtype in ("float64", "bfloat16", "float16"):
        sizes = [2, 1, 2]
        for own in (None, getattr(m, dtype)):
            if own is None and dtype == "float64":
                continue
            bn = layer(m, 2, kind_of(m), dtype=own)
            found.append(step(m, d, bn, joined(m, sizes, (3,), dtype), sizes)[:2])
            found.append([t.dtype == v.dtype for t, v in zip(bn.parameters(), bn.buffers())])
    return found


@together
def strides_are_those_of_batch_norm(m, d):
    x = joined(m, [2], (3, 4, 5))
    inputs = [x, x.to(memory_format=m.channels_last), x.transpose(2, 3), joined(m, [3], (2, 4, 5)).transpose(0, 1)]
    inputs += [joined(m, [2], (3, 4, 5, 2)).to(memory_format=m.channels_last_3d), joined(m, [3], (2,)).t()]
    found = []
    for given in inputs:
        one = layer(m, given.dim(), "one")(given)
        bn = layer(m, given.dim(), kind_of(m))
        found.append([bn(given).stride() == one.stride(), list(one.stride())])
    return found


@together
def second_gradients(m, d):
    sizes, bn = [2, 1, 2], layer(m, 2, kind_of(m), dtype=m.float64)
    one, mine = kind_of(m) == "one", rows(d, [2, 1, 2])
    batch = joined(m, sizes, (3,), "float64")
    x = (batch if one else batch[mine].clone()).requires_grad_()
    (g,) = m.autograd.grad((bn(x) ** 3).sum(), x, create_graph=True)
    (again,) = m.autograd.grad((g**2).sum(), x)
    return g.detach()[mine if one else slice(None)], again[mine if one else slice(None)]


@together
def evaluation_exchanges_nothing(m, d):
    bn = m.nn.SyncBatchNorm(3).eval()
    if d.get_rank() == 1:
        found = bn(joined(m, [2], (3,)))
        free = m.nn.SyncBatchNorm(3, track_running_stats=False).eval()
        return found.detach(), free(joined(m, [2], (3,))).detach(), bn.num_batches_tracked
    return None


@together
def groups_of_processes(m, d):
    pair, single = d.new_group([0, 2]), d.new_group([1])
    rank = d.get_rank()
    if rank == 1:
        if kind_of(m) == "one":
            bn = layer(m, 2, "one")
        else:
            bn = layer(m, 2, "sync", process_group=single)
        x = joined(m, [3], (3,))
        outside = None
        if kind_of(m) == "sync":
            bn.process_group = pair  # as BatchNorm, for a process that is not in the group
            outside = bn(x).detach()
            bn.reset_running_stats()
            bn.process_group = single
        else:
            outside = bn(x).detach()
            bn.reset_running_stats()
        return outside, bn(x).detach(), list(bn.state_dict().values())
    sizes = [2, 0, 1]
    batch = joined(m, sizes, (3,), "float64")
    one = kind_of(m) == "one"
    options = {"dtype": m.float64} | ({} if one else {"process_group": pair})
    bn = layer(m, 2, kind_of(m), **options)
    x = (batch if one else batch[rows(d, sizes)].clone()).requires_grad_()
    y = bn(x)
    (y**3).sum().backward()
    part = rows(d, sizes) if one else slice(None)
    return y.detach()[part], x.grad[part], list(bn.state_dict().values())


def network(m):
    m.manual_seed(0)
    nn = m.nn
    net = nn.Sequential(
        nn.Conv2d(1, 3, 2),
        nn.BatchNorm2d(3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(12, 4),
        nn.BatchNorm1d(4),
        nn.Tanh(),
        nn.Linear(4, 2),
    )
    with m.no_grad():
        for i, p in enumerate(net.parameters()):
            n = p.numel()
            p.copy_(((m.arange(n) * 7 + i) % 11 - 5.0).reshape(p.shape) / 8)
    return net


@together
def data_parallel_training_is_that_of_the_joined_batch(m, d):
    net = network(m)
    one, model = kind_of(m) == "one", net
    if not one:
        net = m.nn.SyncBatchNorm.convert_sync_batchnorm(net)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = m.nn.parallel.DistributedDataParallel(net, bucket_cap_mb=1e-6)
    optimizer = m.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    steps = []
    # In some steps a process has a size that it has not seen before, and the others have.
    for sizes in ([2, 2, 2], [2, 2, 2], [2, 3, 1], [3, 2, 1], [2, 2, 2], [1, 4, 1]):
        batch = joined(m, sizes, (1, 3, 3))
        out = model(batch if one else batch[rows(d, sizes)])
        # The mean over processes of this is the mean over the joined batch.
        loss = (out**2).sum() / sum(sizes) * (1 if one else d.get_world_size())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        steps.append([t.clone() for t in net.state_dict().values()])
    return steps


@together
def wrong_inputs(m, d):
    sync, x = m.nn.SyncBatchNorm, m.ones(2, 3)
    found = [complaint(lambda: sync(3)(m.ones(3))), complaint(lambda: sync(3)(m.ones(2, 0)))]
    if kind_of(m) == "one":
        found.append(complaint(lambda: m.nn.BatchNorm1d(2)(x)))
        found.append(complaint(lambda: m.nn.BatchNorm1d(2, track_running_stats=False)(x)))
        return [*found, ["NotImplementedError"], ["ValueError"]]
    found.append(complaint(lambda: sync(2)(x)))
    found.append(complaint(lambda: sync(2, track_running_stats=False)(x)))
    found.append(complaint(lambda: sync(3)(x.int()))[:1])
    found.append(complaint(lambda: sync(3)(x[: 1 if d.get_rank() == 2 else 0]))[:1])
    return found
