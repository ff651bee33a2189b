"""Programs over meshes that span processes: each process feeds and sees its own part, as with torch."""

import copy
import importlib
import os
import tempfile
import warnings

from tests.programs import complaint


def parts(m):
    """The modules that the programs use: meshes, tensors over them, FSDP, tensor parallelism, checkpoints."""
    names = ("device_mesh", "tensor", "fsdp", "tensor.parallel", "checkpoint")
    return [importlib.import_module(f"{m.__name__}.distributed.{name}") for name in names]


def trained(m, model, group_of_data, clip=False):
    """Losses, norms and gradients of inputs of three steps on data of this group's own."""
    optimizer = m.optim.Adam(model.parameters(), lr=0.05)
    m.manual_seed(3 + group_of_data)
    batches = [(m.randn(3, 4), m.randn(3, 2)) for _ in range(3)]
    found = []
    for x, y in batches:
        optimizer.zero_grad()
        x.requires_grad_()
        loss = (model(x) - y).square().sum()
        loss.backward()
        norm = m.nn.utils.clip_grad_norm_(model.parameters(), 1.0) if clip else None
        optimizer.step()
        found.append([loss.item(), None if norm is None else whole(norm).item(), x.grad])
    return found, optimizer


def whole(t):
    """All of a tensor, whether it is over a mesh or not."""
    return t.full_tensor() if hasattr(t, "full_tensor") else t


def network(m):
    m.manual_seed(0)
    return m.nn.Sequential(m.nn.Linear(4, 8), m.nn.Tanh(), m.nn.Linear(8, 2))


def fully_sharded(m, d):
    meshes, _, fsdp, _, dcp = parts(m)
    mesh = meshes.init_device_mesh("cpu", (d.get_world_size(),))
    model = network(m)
    for layer in (model[0], model[2], model):
        fsdp.fully_shard(layer, mesh=mesh)
    found, optimizer = trained(m, model, d.get_rank(), clip=True)
    weight = model[0].weight
    state = {"model": model.state_dict(), "optim": optimizer.state_dict()}
    box = [tempfile.mkdtemp() if d.get_rank() == 0 else None]
    d.broadcast_object_list(box, 0)
    dcp.save(state, checkpoint_id=box[0])
    before = whole(weight).detach().clone()
    with m.no_grad():
        for p in model.parameters():
            p.zero_()
    dcp.load({"model": model.state_dict()}, checkpoint_id=box[0])
    return (
        found,
        list(weight.shape),
        weight.to_local().detach(),
        before,
        whole(weight.grad),
        m.equal(whole(weight).detach(), before),
        sorted(os.listdir(box[0])),
    )


def tensor_parallel(m, d):
    meshes, _, _, parallel, _ = parts(m)
    model = network(m)
    mesh = meshes.init_device_mesh("cpu", (d.get_world_size(),))
    plan = {"0": parallel.ColwiseParallel(), "2": parallel.RowwiseParallel()}
    parallel.parallelize_module(model, mesh, plan)
    return trained(m, model, 0)[0]


def groups_of_a_mesh(m, d):
    """Sums along each dimension of a mesh, of numbers that are not parts of one tensor."""
    meshes = parts(m)[0]
    functional = importlib.import_module(f"{m.__name__}.distributed._functional_collectives")
    mesh = meshes.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    line = meshes.init_device_mesh("cpu", (4,))
    found = []
    for group in (mesh.get_group("tp"), mesh["dp"].get_group(), mesh.get_group(0), line.get_group()):
        x = m.tensor([10.0 ** d.get_rank()])
        d.all_reduce(x, group=group)
        found.append((d.get_process_group_ranks(group), group.rank(), x))
    one = m.tensor([10.0 ** d.get_rank()])
    in_place = [functional.all_reduce(one, "sum", g) for g in (mesh["tp"], (mesh, 0))]
    same = mesh.get_group("tp") is mesh["tp"].get_group(), line.get_group() is d.group.WORLD
    return found, [functional.wait_tensor(x) for x in in_place], same, len(mesh.get_all_groups())


def both(m, d):
    meshes, _, fsdp, parallel, _ = parts(m)
    model = network(m)
    mesh = meshes.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    plan = {"0": parallel.ColwiseParallel(), "2": parallel.RowwiseParallel()}
    parallel.parallelize_module(model, mesh["tp"], plan)
    fsdp.fully_shard(model, mesh=mesh["dp"])
    return trained(m, model, d.get_rank() // 2)[0]


def tensors_over_a_mesh(m, d):
    meshes, tensors, *_ = parts(m)
    mesh, rank = meshes.init_device_mesh("cpu", (2,)), d.get_rank()
    x = tensors.distribute_tensor(m.arange(8.0).reshape(4, 2), mesh, [tensors.Shard(0)])
    own = (m.ones(2, 2) * (rank + 1)).requires_grad_()
    y = (tensors.DTensor.from_local(own, mesh, [tensors.Shard(0)]) * x).to_local()
    (y * (rank + 1)).sum().backward()
    columns = x.redistribute(placements=[tensors.Shard(1)])
    return x.to_local(), whole(x), str(x), columns.to_local(), y.detach(), own.grad, whole(x.sum())


def summands(m, d):
    """Tensors that are reductions of what the processes have: what they say, what becomes of them, and gradients."""
    meshes, tensors, *_ = parts(m)
    mesh = meshes.init_device_mesh("cpu", (d.get_world_size(),))
    everywhere, rows, found = [tensors.Replicate()], [tensors.Shard(0)], []

    def made(op="sum"):
        own = (m.arange(8.0).reshape(4, 2) + 1) * (d.get_rank() + 1)
        own.requires_grad_(op == "sum")
        return tensors.DTensor.from_local(own, mesh, [tensors.Partial(op)]), own

    def added_up(t):
        local = t.to_local().detach().clone()
        d.all_reduce(local)
        return local

    for op in ("sum", "avg", "max", "min", "product"):
        t = made(op)[0].detach()
        views = t.t(), t[0], t.view(8), t.redistribute(placements=[tensors.Partial(op)])
        found.append([str(v.placements) for v in (t, *views)])
        found += [whole(t), t.redistribute(placements=everywhere).to_local()]
    for placements in (everywhere, rows):
        t, own = made()
        there = t.redistribute(placements=placements)
        (there.to_local() * (d.get_rank() + 2)).sum().backward()
        found.append([str(t.placements), str(there.placements), there.detach().to_local(), own.grad])
    t, own = made()
    again = tensors.DTensor.from_local(t.to_local() * 3, mesh, [tensors.Partial()])
    (whole(again) * m.arange(8.0).reshape(4, 2)).sum().backward()
    found += [added_up(t), whole(again).detach(), own.grad]
    t = made()[0].detach()
    t.add_(t)
    found += [str(t.placements), whole(t), added_up(t), str(m.nn.Parameter(t).placements)]
    replicated = tensors.distribute_tensor(m.ones(2), mesh, everywhere)
    refused = [
        complaint(lambda t=t: t.redistribute(placements=[tensors.Partial()])) for t in (replicated, made("max")[0])
    ]
    return found, refused


def layers_that_give_summands(m, d):
    """A layer split by rows that leaves its products to be added up: adding them up adds no product twice."""
    meshes, tensors, _, parallel, _ = parts(m)
    mesh, n, found = meshes.init_device_mesh("cpu", (d.get_world_size(),)), m.nn, []

    class Block(n.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            return self.inner(x)

    joined = parallel.PrepareModuleOutput(
        output_layouts=tensors.Partial(), desired_output_layouts=tensors.Shard(0), use_local_output=False
    )
    for local in (True, False):
        m.manual_seed(0)
        model = Block(n.Sequential(n.Linear(4, 8), n.Linear(8, 3)))
        last = parallel.RowwiseParallel(output_layouts=tensors.Partial(), use_local_output=local)
        plan = {"inner": joined, "inner.0": parallel.ColwiseParallel(), "inner.1": last}
        parallel.parallelize_module(model, mesh, plan)
        out = model(m.randn(4, 4))
        whole(out).square().sum().backward()
        found.append([str(out.placements), whole(out).detach(), [whole(p.grad) for p in model.parameters()]])
    return found


def meshes_that_differ(m, d):
    """What takes tensors of two meshes says so, whichever way the call is answered."""
    meshes, tensors, *_ = parts(m)
    size = d.get_world_size()
    ranks = (list(range(size)), list(reversed(range(size))))
    x, y = (tensors.distribute_tensor(m.ones(4, 4), meshes.DeviceMesh("cpu", r), [tensors.Shard(0)]) for r in ranks)
    calls = {
        "an operator": lambda a, b: a + b,
        "a list": lambda a, b: m.cat([a, b]),
        "a write": lambda a, b: a.clone().add_(b),
        "a choice": lambda a, b: m.where(a > 0, a, b),
        "a layer": lambda a, b: m.nn.functional.linear(a, b),
        "three operands": lambda a, b: m.addcmul(a, b, b),
    }
    found = []
    for fn in calls.values():
        fn(x, x.clone())
        found.append([complaint(lambda fn=fn: fn(x, y))[0] for _ in range(2)])
        words = "Cannot run", "on inputs with different meshes"  # torch has others for lists of tensors
        found.append(m.__name__ == "torch" or all(w in complaint(lambda fn=fn: fn(x, y))[1] for w in words))
    return found


def values_of_one_process(m, d):
    """Processes that have drawn different numbers: all take those of the first."""
    meshes, tensors, _, parallel, _ = parts(m)
    mesh = meshes.init_device_mesh("cpu", (2,))
    m.manual_seed(d.get_rank())
    placements = ([tensors.Shard(0)], [tensors.Shard(1)], [tensors.Replicate()])
    found = [tensors.distribute_tensor(m.randn(4, 2), mesh, p).to_local() for p in placements]
    where = importlib.import_module(f"{m.__name__}.distributed.tensor._utils")
    found += [where.compute_local_shape_and_global_offset((4, 2), mesh, p) for p in placements]
    layer = tensors.distribute_module(m.nn.Linear(3, 2), mesh)
    model = m.nn.Sequential(m.nn.Linear(4, 8), m.nn.Tanh(), m.nn.Linear(8, 2))
    plan = {"0": parallel.ColwiseParallel(), "2": parallel.RowwiseParallel()}
    parallel.parallelize_module(model, mesh, plan)
    own = (m.ones(2) * (d.get_rank() + 1)).requires_grad_()
    checked = tensors.DTensor.from_local(own, mesh, [tensors.Replicate()], run_check=True).to_local()
    checked.sum().backward()
    return found, whole(layer.weight).detach(), trained(m, model, 0)[0], checked.detach(), own.grad


def parts_of_the_processes(m, d):
    """Layers that take the rows of each process, and code between layers that sees this process's part."""
    meshes, tensors, _, parallel, _ = parts(m)
    mesh, model = meshes.init_device_mesh("cpu", (2,)), network(m)
    first = parallel.ColwiseParallel(input_layouts=tensors.Shard(0))
    last = parallel.RowwiseParallel(output_layouts=tensors.Shard(0))
    parallel.parallelize_module(model, mesh, {"0": first, "2": last})
    shapes = []
    model[1].register_forward_hook(lambda _, x, y: shapes.append((tuple(x[0].shape), tuple(y.shape))))
    found = trained(m, model, d.get_rank())[0]
    prepared = m.nn.Sequential(m.nn.Linear(4, 4))
    split, all_of_it = tensors.Shard(0), tensors.Replicate()
    style = parallel.PrepareModuleOutput(output_layouts=all_of_it, desired_output_layouts=split)
    parallel.parallelize_module(prepared, mesh, {"0": style})
    return found, shapes, prepared(m.ones(2, 4)).detach()


def writes_to_parts(m, d):
    """A DTensor and what `to_local` gave are one memory: what is written to one of them is in the other."""
    meshes, tensors, fsdp, _, _ = parts(m)
    mesh = meshes.init_device_mesh("cpu", (2,))
    rows = tensors.distribute_tensor(m.zeros(8, 3), mesh, [tensors.Shard(0)])
    part = rows.to_local()
    part.fill_(d.get_rank() + 1)
    rows.add_(1)
    part[0] = 7 + d.get_rank()
    part.view(-1)[4:6].mul_(2)
    if d.get_rank() == 0:
        rows.to_local()[3] = 5
    columns = rows.t().to_local()
    columns.add_(10)
    model = fsdp.fully_shard(network(m), mesh=mesh)
    with m.no_grad():
        for p in model.parameters():
            m.nn.init.constant_(p.to_local(), 0.1 * (d.get_rank() + 1))
    weight = model[0].weight.to_local()
    before = weight.detach().clone()
    found, _ = trained(m, model, d.get_rank())
    for p in model.parameters():
        p.grad.to_local().clamp_(max=0.01)
    whole_parameters = [whole(p) for p in model.parameters()]
    gradients = [whole(p.grad) for p in model.parameters()]
    copied = copy.deepcopy(part).zero_()
    return whole(rows), part, copied, found, before, weight, whole_parameters, gradients


def meshes_of_groups(m, d):
    """Meshes of groups that a program has made itself."""
    mesh_type = parts(m)[0].DeviceMesh
    both, (alone, _) = d.new_group([0, 1]), d.new_subgroups(1)
    line = mesh_type.from_group(both, "cpu", mesh_dim_names=("x",))
    grid = mesh_type.from_group([both, alone], "cpu", mesh=[[0], [1]], mesh_dim_names=("dp", "tp"))
    same = [mesh.get_group(name) is g for mesh, name, g in ((line, "x", both), (grid, "dp", both), (grid, "tp", alone))]
    refused = complaint(lambda: mesh_type.from_group([both, alone], "cpu"))
    data_parallel = m.nn.parallel.DistributedDataParallel
    averages = data_parallel(network(m), device_mesh=line)
    averages(m.ones(1, 4) + d.get_rank()).sum().backward()
    wrong = [
        complaint(lambda more=more: data_parallel(network(m), **more))[0]
        for more in ({"device_mesh": line, "process_group": both}, {"device_mesh": grid})
    ]
    return same, list(grid.shape), refused, [p.grad for p in averages.parameters()], wrong


def modules_that_see_their_batch(m):
    """Modules whose results depend on what else is in the batch, and what they get."""
    nn = m.nn

    class Batch(nn.Module):
        def __init__(self, layer, fn):
            super().__init__()
            self.layer, self.fn = layer, fn
            self.register_buffer("calls", m.zeros(1))

        def forward(self, *args):
            self.calls.add_(1)
            return self.fn(self.layer, *args)

    def each_row(f, x):
        return m.stack([f(row) * (i + 1) for i, row in enumerate(x)])

    own = lambda *shape: m.randn(*shape)  # noqa: E731
    return {
        "sequence first": (nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0), own(5, 2, 4)),
        "states": (nn.LSTM(4, 6, batch_first=True), own(2, 5, 4)),
        "batch norm": (nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)), own(3, 4)),
        "size": (Batch(nn.Linear(4, 4), lambda f, x: f(x) / len(x)), own(3, 4)),
        "rows": (Batch(nn.Linear(4, 4), each_row), own(3, 4)),
        "pairs": (Batch(nn.Linear(4, 4), lambda f, x: f(x) @ f(x).t()), own(3, 4)),
        "branch": (Batch(nn.Linear(4, 4), lambda f, x: f(x) * (2 if f(x).sum() > 0 else 3)), own(3, 4)),
        "positions": (Batch(nn.Linear(4, 4), lambda f, x, at: f(x) + at[:, None]), own(2, 3, 4), m.arange(3)),
        "one row": (nn.Linear(4, 4), own(4)),
    }


def forwards_of_each_process(m, d):
    """Each process runs a sharded module on its own batch, of whatever shape: no process sees another's rows."""
    meshes, _, fsdp, _, _ = parts(m)
    mesh, found = meshes.init_device_mesh("cpu", (d.get_world_size(),)), {}
    m.manual_seed(0)
    for name, (model, *args) in modules_that_see_their_batch(m).items():
        fsdp.fully_shard(model, mesh=mesh)
        args = [x * (d.get_rank() + 1) if x.is_floating_point() else x for x in args]
        out = model(*args)
        first = out[0] if isinstance(out, tuple) else out
        first.square().mean().backward()
        buffers = [b for b in model.buffers() if b.is_floating_point()]
        found[name] = out, [whole(p.grad) for p in model.parameters()], buffers
    sizes = fsdp.fully_shard(m.nn.Linear(4, 2), mesh=mesh)
    sizes(m.ones(2 + d.get_rank(), 4)).sum().backward()
    return found, whole(sizes.weight.grad)


def parameters_that_are_not_split(m, d):
    """Ignored parameters, whose gradients a program averages itself, and frozen ones."""
    meshes, tensors, fsdp, _, _ = parts(m)
    mesh, model = meshes.init_device_mesh("cpu", (2,)), network(m)
    model[2].bias.requires_grad_(False)
    fsdp.fully_shard(model, mesh=mesh, ignored_params={model[0].weight})
    m.manual_seed(d.get_rank())
    model(m.randn(3, 4)).square().sum().backward()
    ignored = model[0].weight.grad
    if not isinstance(ignored, tensors.DTensor):
        d.all_reduce(ignored, op=d.ReduceOp.AVG)
    return [None if p.grad is None else whole(p.grad) for p in model.parameters()]


def parameters_that_differ(m, d):
    """Processes that begin with other parameters are told so; torch's go on with a mixture of them."""
    meshes, _, fsdp, _, _ = parts(m)
    m.manual_seed(d.get_rank())
    layer, mesh = m.nn.Linear(4, 2), meshes.init_device_mesh("cpu", (2,))
    said = complaint(lambda: fsdp.fully_shard(layer, mesh=mesh))
    return "weight has other values in other processes" in str(said) or m.__name__ == "torch"


def odd_network(m, change=lambda block: block):
    """A network with sizes that 2 and 4 do not divide: a vocabulary of 13, a width of 9, and 19 hidden features."""

    class Block(m.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.up, self.down = (m.nn.LayerNorm(9), m.nn.Linear(9, 19), m.nn.Linear(19, 9))

        def forward(self, h):
            return h + self.down(m.nn.functional.gelu(self.up(self.norm(h))))

    m.manual_seed(0)
    return m.nn.Sequential(m.nn.Embedding(13, 9), change(Block()), m.nn.Linear(9, 13))


def odd_losses(m, d, model, mesh, steps, wrap=lambda step: step):
    """The loss of each step over the batches, of 3 rows, of all places along a mesh; of all of them at once if None."""
    optimizer = m.optim.AdamW(model.parameters(), lr=0.01)
    places = 1 if mesh is None else mesh.size()
    at = 0 if mesh is None else mesh.get_local_rank()

    @wrap
    def step(x, y):
        optimizer.zero_grad()
        loss = m.nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
        loss.backward()
        optimizer.step()
        return loss.detach()

    m.manual_seed(5)
    batches = [m.randint(13, (2, 3 * places, 5)) for _ in range(steps)]
    losses = m.stack([step(*batch[:, 3 * at : 3 * at + 3]) for batch in batches])
    if mesh is not None:
        d.all_reduce(losses, group=mesh.get_group())
    return losses / places


def sizes_that_do_not_divide(m, d):
    """FSDP and tensor parallelism: the losses are those of one process."""
    meshes, tensors, fsdp, parallel, _ = parts(m)
    mesh, found = meshes.init_device_mesh("cpu", (d.get_world_size(),)), []
    model = odd_network(m)
    for layer in (model[1], model):
        fsdp.fully_shard(layer, mesh=mesh)
    found.append(odd_losses(m, d, model, mesh, 10))
    plan = {
        "0": parallel.RowwiseParallel(input_layouts=tensors.Replicate()),
        "1.up": parallel.ColwiseParallel(use_local_output=False),
        "1.down": parallel.RowwiseParallel(),
        "2": parallel.ColwiseParallel(output_layouts=tensors.Replicate()),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # parameters stay whole
        model = parallel.parallelize_module(odd_network(m), mesh, plan)
    return [*found, odd_losses(m, d, model, None, 10), odd_losses(m, d, odd_network(m), None, 10)]


def compiled_blocks(m, d):
    """FSDP whose blocks are compiled, in each way to say so, and a compiled step. torch's are not compiled."""
    meshes, _, fsdp, *_ = parts(m)
    mesh = meshes.init_device_mesh("cpu", (d.get_world_size(),))
    compiled = m.compile if m.__name__ == "torchgrad_jax" else lambda fn: fn

    def in_place(block):
        if m.__name__ == "torchgrad_jax":
            block.compile()
        return block

    def sharded(block):
        return fsdp.fully_shard(block, mesh=mesh)

    ways = {
        "in place": lambda b: sharded(in_place(b)),
        "wrapped": lambda b: sharded(compiled(b)),
        "afterwards": lambda b: compiled(sharded(b)),
    }
    found = {}
    for way, change in ways.items():
        found[way] = odd_losses(m, d, sharded(odd_network(m, change)), mesh, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it runs eagerly
        found["step"] = odd_losses(m, d, sharded(odd_network(m)), mesh, 2, compiled)
    return found


def checkpoint_of_sizes_that_do_not_divide(m, d):
    """Parameters that every process has whole, read from files in another order by each process."""
    meshes, _, fsdp, _, dcp = parts(m)
    mesh = meshes.init_device_mesh("cpu", (d.get_world_size(),))

    def made(seed):
        m.manual_seed(seed)
        model = m.nn.Sequential(m.nn.Linear(8, 12), m.nn.Linear(12, 6), m.nn.Linear(6, 5))
        return fsdp.fully_shard(model, mesh=mesh)

    box = [tempfile.mkdtemp() if d.get_rank() == 0 else None]
    d.broadcast_object_list(box, 0)
    dcp.save(made(0).state_dict(), checkpoint_id=box[0])
    model = made(1)
    state = model.state_dict()
    dcp.load(state, checkpoint_id=box[0])
    model.load_state_dict(state)
    return [whole(p) for p in model.parameters()]


def gradients_of_parts(m, d):
    """What each process computes of a part or of all of a tensor: its gradient may be a summand of the whole one."""
    meshes, tensors, *_ = parts(m)
    mesh = meshes.init_device_mesh("cpu", (2,))
    rows, all_of_it = tensors.Shard(0), tensors.Replicate()
    summands, average = tensors.Partial(), tensors.Partial("avg")
    found = []

    def own(t):
        weight = m.arange(t.numel()).reshape(t.shape) + 10.0 * d.get_rank()
        return (t * weight).sum()

    def leaf(placement):
        return tensors.distribute_tensor(m.ones(4, 3), mesh, [placement]).requires_grad_()

    def parted(t, given):
        own((t * 2).to_local(grad_placements=given)).backward()
        return whole(t.grad)

    def gathered(t, given):
        own((t * 2).full_tensor(grad_placements=given)).backward()
        return whole(t.grad)

    def made(placement, given):
        local = m.ones(2, 3).requires_grad_()
        more = {} if given is None else {"grad_placements": given}
        t = tensors.DTensor.from_local(local, mesh, [placement], **more)
        weight = tensors.distribute_tensor(m.arange(t.numel()).reshape(t.shape) + 1.0, mesh, [all_of_it])
        whole((t.redistribute(placements=[all_of_it]) * weight).sum()).backward()
        return local.grad

    for given in (None, [all_of_it], [summands], [average]):
        found.append(parted(leaf(all_of_it), given))
        found += [gathered(leaf(p), given) for p in (rows, all_of_it)]
        found += [made(p, given) for p in (all_of_it, summands)]
    found += [parted(leaf(rows), given) for given in (None, [rows])]
    found.append(type(complaint(lambda: parted(leaf(all_of_it), [rows]))).__name__)
    return found


def unequal_parts(m, d):
    """Tensors that the processes do not divide: what each has of them, reads and writes, and of views of them."""
    meshes, tensors, *_ = parts(m)
    mesh, rank, rows = meshes.init_device_mesh("cpu", (2,)), d.get_rank(), [tensors.Shard(0)]

    def made(placement=rows, leaf=False):
        return tensors.distribute_tensor(m.arange(35.0).reshape(5, 7), mesh, placement).requires_grad_(leaf)

    def seen(t):
        return str(tuple(t.placements)), list(t.shape), t.to_local().detach().clone(), whole(t).detach().clone()

    found = [seen(made(p)) for p in (rows, [tensors.Shard(1)])]
    found += [seen(made().redistribute(placements=[p])) for p in (tensors.Shard(1), tensors.Replicate())]
    x = made()
    found += [seen(v) for v in (x.t(), x[:, 2], x[1:3], x.unsqueeze(0), x.narrow(1, 2, 3), x.view(5, 1, 7))]
    found += [seen(t) for t in (copy.deepcopy(x), m.nn.Parameter(x), m.zeros_like(x), m.full_like(x, 2.0))]
    part = x.to_local()
    part.fill_(rank + 1)
    x.add_(1)
    part[0] = 7
    if rank == 0:
        x.to_local()[1] = 5  # which waits for no other process
    found += [seen(x), part]
    for size in (1, 2, 3):
        found += [seen(f(size, 2, device_mesh=mesh, placements=rows)) for f in (tensors.zeros, tensors.ones)]
    own = m.ones(3 - rank, 2).requires_grad_()
    joined = tensors.DTensor.from_local(own, mesh, rows, shape=m.Size((5, 2)), stride=(2, 1))
    joined.to_local().mul(rank + 2).sum().backward()
    leaf, other = made(leaf=True), made([tensors.Replicate()], leaf=True)
    (leaf.to_local() * (rank + 1)).sum().backward()
    (other.redistribute(placements=rows).to_local() * (rank + 1)).sum().backward()
    return found, seen(joined), own.grad, seen(leaf.grad), whole(other.grad)


def parameters_in_unequal_parts(m, d):
    """What a step of FSDP makes of parameters that the processes do not divide: each has the part that torch's has."""
    meshes, tensors, fsdp, *_ = parts(m)
    mesh, model = meshes.init_device_mesh("cpu", (d.get_world_size(),)), odd_network(m)
    for layer in (model[1], model):
        fsdp.fully_shard(layer, mesh=mesh)
    optimizer = m.optim.Adam(model.parameters(), lr=0.01)
    model(m.arange(15).reshape(3, 5) % 13).square().sum().backward()
    norm = m.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    state = [s["exp_avg"] for s in optimizer.state_dict()["state"].values()]
    kept = [*model.parameters(), *[p.grad for p in model.parameters()], *state]
    kinds = [isinstance(t, tensors.DTensor) for t in (norm, *kept)]
    return kinds, whole(norm), [t.to_local().detach() for t in kept]


def operators_that_give_summands(m, d):
    """What each process has of a result that all of them add up, average or compare, and what programs make of it."""
    meshes, tensors, *_ = parts(m)
    functions, n, found = m.nn.functional, d.get_world_size(), []
    mesh = meshes.init_device_mesh("cpu", (n,))
    split, other, everywhere = tensors.Shard(0), tensors.Shard(1), tensors.Replicate()
    calls = {
        "sum": lambda x, y: x.sum(),
        "sum of rows": lambda x, y: x.sum(0),
        "sum of columns": lambda x, y: x.sum(1, keepdim=True),
        "mean": lambda x, y: x.mean(),
        "mean of rows": lambda x, y: x.mean(0),
        "largest": lambda x, y: x.amax(0),
        "smallest": lambda x, y: x.min(),
        "product": lambda x, y: (x / 8).prod(0),
        "some": lambda x, y: (x > 8).any(),
        "loss": lambda x, y: functions.mse_loss(x, y),
        "loss as a sum": lambda x, y: functions.l1_loss(x, y, reduction="sum"),
        "matmul": lambda x, y: x.t() @ y,
        "linear": lambda x, y: functions.linear(x, y),
        "bmm": lambda x, y: m.bmm(x.unsqueeze(0), y.unsqueeze(0).transpose(1, 2)),
        "mv": lambda x, y: x @ y[0],
        "times a number": lambda x, y: -x.sum() * 2 / 3,
        "plus a number": lambda x, y: x.sum() + 1,
        "plus another": lambda x, y: x.sum(0) + y.sum(0),
        "times another": lambda x, y: x.sum() * y.sum(),
        "stacked": lambda x, y: m.stack([x.sum(), y.sum()]),
        "seen otherwise": lambda x, y: x.sum(0).view(2, 4).t(),
        "another dtype": lambda x, y: x.sum().double(),
        "changed": lambda x, y: x.sum().mul_(2),
        "not linear": lambda x, y: x.sum(0).relu(),
        "split as before": lambda x, y: x.softmax(1).exp() if x.placements[0] == split else x.softmax(0),
    }
    values = m.arange(64.0).reshape(8, 8) / 16 - 1, m.arange(64.0).reshape(8, 8).flip(0) / 32 - 1
    for first, second in ((split, split), (other, other), (other, everywhere), (everywhere, everywhere)):
        for name, call in calls.items():
            x, y = (tensors.distribute_tensor(v, mesh, [p]) for v, p in zip(values, (first, second), strict=True))
            out = call(x, y)
            found.append((name, str(out.placements), out.to_local(), whole(out)))
    x = tensors.distribute_tensor(values[0], mesh, [split]).requires_grad_()
    total = x.square().sum().to_local()
    d.all_reduce(total)
    loss = x.square().sum() * 3
    (whole(loss) + x.mean().redistribute(placements=[everywhere]).to_local()).backward()
    return found, total.detach(), whole(x.grad)


def summands_along_two_dimensions(m, d):
    """Results that one dimension of a mesh splits, and another one adds up."""
    meshes, tensors, *_ = parts(m)
    mesh, found = meshes.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp")), []
    values = m.arange(64.0).reshape(8, 8) / 16 - 1
    split = tensors.Shard(0), tensors.Shard(1), tensors.Replicate()
    for first, second in ((split[0], split[1]), (split[0], split[0]), (split[2], split[1])):
        x = tensors.distribute_tensor(values, mesh, [first, second])
        for out in (x.sum(), x.sum(0), x.mean(0), x.sum(0)[2:6], x.sum(0).view(8, 1), x.t() @ x, -x.sum(1)):
            found.append((str(out.placements) if out.shape != (4,) else "", whole(out)))
            if out.shape != (4,):
                found.append(out.to_local())
    return found


def meshes_of_the_same_devices(m, d):
    """Two meshes of the same devices: tensors meet if both meshes are equal, wherever they were made."""
    meshes, tensors, *_ = parts(m)
    line, again = (meshes.init_device_mesh("cpu", (4,)) for _ in range(2))
    grid, named = (
        meshes.init_device_mesh("cpu", s, mesh_dim_names=n) for s, n in (((2, 2), ("a", "b")), ((4,), ("c",)))
    )

    def made(mesh):
        return tensors.distribute_tensor(m.ones(4, 4), mesh, [tensors.Shard(0)] * mesh.ndim)

    calls = (
        lambda x, y: x + y,
        lambda x, y: x @ y,
        lambda x, y: x.clone().add_(y),
        lambda x, y: x.clone().copy_(y),
        lambda x, y: x.clone()[0].copy_(y[0]),
        lambda x, y: m.where(x > 0, x, y),
        lambda x, y: m.stack([x, y]),
        lambda x, y: m.equal(x, y),
    )
    found = []
    for call in calls:
        call(made(line), made(again))
        call(made(grid["a"]), made(grid["a"]))
        found.append([complaint(lambda c=call, o=o: c(made(line), made(o)))[0] for o in (grid, named)])
    if m.__name__ != "torch":
        text = complaint(lambda: made(line).clone().copy_(made(grid)))[1]
        assert "copy_ on inputs with different meshes: got (dim_0=4)" in text, text
    return found
