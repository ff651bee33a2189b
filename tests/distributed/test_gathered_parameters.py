"""Parameters that `fully_shard` gathers in each of two processes: which gradients come back, and when memory is free.

The reference is the module as it was, on the batches of all processes: a parameter gets the average of its gradients.
PyTorch is not asked, since it has no parameters of several dtypes in one group, and no second derivative.
"""

import copy
import gc

import jax
import pytest

from .processes import Together, complaint
from .spanning import parts, whole

together = Together(2)
N = 48
"""The width of a layer whose memory is looked at: no other array is as wide."""


@pytest.mark.parametrize("rank", range(2))
def test_in_each_process(rank):
    found = together.results("torchgrad_jax", __name__)[rank]
    assert {name: result for name, result in found.items() if result is not True} == {}
    assert len(found) == len(together)


def sharding(m, d, **options):
    """What shards a module over all processes."""
    meshes, _, fsdp, *_ = parts(m)
    mesh = meshes.init_device_mesh("cpu", (d.get_world_size(),))
    return lambda module: fsdp.fully_shard(module, mesh=mesh, **options)


def averages(models, loss, batches):
    """The average over the batches of each parameter's gradient, with a copy of a module for each batch."""
    found = {}
    for model, x in zip(models, batches, strict=True):
        loss(model(x)).backward()
        for name, p in model.named_parameters():
            if p.grad is not None:
                found[name] = found.get(name, 0) + p.grad / len(batches)
    return found


def check_averages(m, d, model, shard, loss=lambda y: y.square().mean()):
    """Sharded, a module has the average of the gradients of the plain one, each split as its parameter is."""
    m.manual_seed(1)
    batches = [m.randn(3 + r, 4) for r in range(d.get_world_size())]
    want = averages([copy.deepcopy(model) for _ in batches], loss, batches)
    loss(shard(model)(batches[d.get_rank()])).backward()
    for name, p in model.named_parameters():
        assert (p.grad is None) == (name not in want), name
        if p.grad is not None:
            assert m.allclose(whole(p.grad), want[name], rtol=1e-4, atol=1e-5), name
            assert p.grad.placements == p.placements, name


def one_of_each(m, dtype=None, around=lambda f, x: f(x)):
    """A module with parameters of many kinds in one group; its middle is called by `around`."""
    nn = m.nn

    class OneOfEach(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.across, self.down = nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 3)
            self.tied = self.across.weight
            self.scalar = nn.Parameter(m.tensor(1.5))
            self.odd = nn.Parameter(m.arange(3.0) + 1)
            self.unused = nn.Parameter(m.ones(4))
            self.fixed = nn.Parameter(m.full((8,), 0.7), requires_grad=False)
            self.other = nn.Parameter(m.tensor([1.0, 3.0, 0.5, 2.0], dtype=dtype))

        def middle(self, h):
            return h + self.across(h) @ self.tied.t() * self.scalar

        def forward(self, x):
            h = around(self.middle, m.tanh(self.up(x)) * self.fixed)
            return self.down(h) * self.odd + self.other.abs().sum().to(h.dtype)

    m.manual_seed(0)
    return OneOfEach()


@together
def kinds_of_parameters(m, d):
    _, tensors, *_ = parts(m)

    def along_the_last(p):
        return tensors.Shard(1) if p.ndim == 2 and p.shape[1] % 2 == 0 else None

    for keeps, dtype in ((None, m.float64), (True, m.complex64), (True, None), (False, m.bfloat16)):
        choose = along_the_last if keeps else None
        shard = sharding(m, d, reshard_after_forward=keeps, shard_placement_fn=choose)
        check_averages(m, d, one_of_each(m, dtype), shard)
    return True


@together
def recomputed_layers(m, d):
    checkpoint = m.utils.checkpoint.checkpoint
    for reentrant in (False, True):
        model = one_of_each(m, around=lambda f, x, re=reentrant: checkpoint(f, x, use_reentrant=re))
        shard = sharding(m, d, reshard_after_forward=True)
        check_averages(m, d, model, lambda whole, f=shard: (f(whole.across), f(whole))[1])
    return True


def module_of(m, fn):
    """A module that calls a function with its parameter, eight numbers, and its input."""

    class Module(m.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = m.nn.Parameter(m.arange(8.0).view(2, 4) / 8)

        def forward(self, x):
            return fn(self.w, x)

    return Module()


@together
def parameters_that_are_returned(m, d):
    for fn in (lambda w, x: w, lambda w, x: w.t()[1:], lambda w, x: w[0] * x):
        check_averages(m, d, module_of(m, fn), sharding(m, d, reshard_after_forward=True))
    kept = sharding(m, d, reshard_after_forward=True)(module_of(m, lambda w, x: [w.detach()]))
    return bool((kept(None)[0] == m.arange(8.0).view(2, 4) / 8).all())


@together
def parameters_that_the_module_writes_to(m, d):
    def doubled(w, x):
        with m.no_grad():
            w.mul_(2)
        return (x * w[0]).sin() * w[1]

    check_averages(m, d, module_of(m, doubled), sharding(m, d, reshard_after_forward=True))
    return True


@together
def a_backward_pass_after_an_update(m, d):
    """The backward pass computes with the values of its forward pass, as they were before the step."""
    model = sharding(m, d, reshard_after_forward=True)(one_of_each(m))
    optimizer = m.optim.AdamW(model.parameters(), lr=0.1)
    x = m.ones(2, 4) * (d.get_rank() + 1)
    model(x).square().sum().backward()
    loss = model(x).square().sum()
    late = model(x).square().sum()
    before = whole(m.autograd.grad(loss, [model.up.weight])[0])
    optimizer.step()
    return before.equal(whole(m.autograd.grad(late, [model.up.weight])[0]))


@together
def a_parameter_that_is_split_no_longer(m, d):
    model = sharding(m, d)(m.nn.Linear(4, 2))
    model.weight = m.nn.Parameter(m.ones(2, 4))
    return "weight" in str(complaint(lambda: model(m.ones(1, 4))))


@together
def second_derivatives(m, d):
    """The gradient of the norm of the averaged gradients."""
    model = one_of_each(m)
    plain, batches = copy.deepcopy(model), [m.ones(2, 4) * (r + 1) for r in range(2)]
    sharding(m, d)(model)
    found = []
    for net, loss in (
        (plain, sum(plain(x).square().mean() for x in batches) / 2),
        (model, model(batches[d.get_rank()]).square().mean()),
    ):
        params = [p for p in net.parameters() if p.requires_grad]
        grads = m.autograd.grad(loss, params, create_graph=True, allow_unused=True)
        sum(g.square().sum() for g in grads if g is not None).backward()
        found.append({name: p.grad for name, p in net.named_parameters()})
    for name, want in found[0].items():
        got = found[1][name]
        assert (got is None) == (want is None), name
        assert got is None or m.allclose(whole(got), want, rtol=1e-4), name
    return True


@together
def parameters_that_one_process_uses(m, d):
    """The process that does not use a parameter counts as zero; what nobody uses gets no gradient."""
    nn, rank = m.nn, d.get_rank()

    class Branches(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.left, self.right, self.nobody = (nn.Linear(4, 4) for _ in range(4))

        def forward(self, x, left):
            return (self.left if left else self.right)(self.first(x))

    m.manual_seed(0)
    plain = Branches()
    model = sharding(m, d, reshard_after_forward=True)(copy.deepcopy(plain))
    batches = [m.ones(2, 4) * (r + 1) for r in range(2)]
    sum(plain(x, r == 0).square().mean() / 2 for r, x in enumerate(batches)).backward()

    def step(x, left):
        model(x, left).square().mean().backward()

    for run in (step, m.compile(step)):
        model.zero_grad()
        run(batches[rank], rank == 0)
        for (name, p), q in zip(model.named_parameters(), plain.parameters(), strict=True):
            assert (p.grad is None) == (q.grad is None), name
            assert q.grad is None or m.allclose(whole(p.grad), q.grad), name
    return True


@together
def a_module_that_runs_while_it_runs(m, d):
    """By its own call, and by a method that runs as a forward does; also where a checkpoint runs it again."""
    checkpoint, fsdp = m.utils.checkpoint.checkpoint, parts(m)[2]

    class Again(m.nn.Linear):
        def encode(self, x):
            return super().forward(x).tanh()

        def forward(self, x, again=True):
            x = checkpoint(self.encode, x, use_reentrant=False)
            return self(x, again=False) if again else self.encode(x)

    def shard(model):
        model = sharding(m, d, reshard_after_forward=True)(model)
        fsdp.register_fsdp_forward_method(model, "encode")
        return model

    m.manual_seed(0)
    check_averages(m, d, Again(4, 4), shard)
    return True


@together
def layers_that_only_one_process_uses(m, d):
    """Both processes complain: XLA would exchange the parameters of one layer for those of the other."""
    m.manual_seed(0)
    rank, x = d.get_rank(), m.ones(2, 4, requires_grad=True)
    found = []
    for reshards in (False, True):
        model = m.nn.Sequential(*[m.nn.Linear(4, 4) for _ in range(2)])
        for part in (*model, model):
            sharding(m, d, reshard_after_forward=reshards)(part)
        found.append(str(complaint(lambda model=model: model[rank](x))))
        results = [layer(x).sum() for layer in model]
        found.append(str(complaint(lambda results=results: results[rank].backward())))
    assert all("Detected mismatch between collectives" in text for text in found), found
    return ["gathering" in text for text in found] == [True, False, True, True]


def layers_in_memory():
    """How many whole matrices of a layer this process has."""
    gc.collect()
    found = [a for a in jax.live_arrays() if a.shape == (N, N) and len(a.sharding.device_set) == 1]
    return len({a.unsafe_buffer_pointer() for a in found})


def in_memory_of_a_step(m, d, keeps):
    """How many layers are whole after each of three, forward and backward, in the second step."""
    shard = sharding(m, d, reshard_after_forward=keeps)
    m.manual_seed(0)
    model = m.nn.Sequential(*[m.nn.Linear(N, N, bias=False) for _ in range(3)])
    for part in (*model, model):
        shard(part)
    optimizer = m.optim.SGD(model.parameters(), lr=0.1)
    found = []
    for layer in model:
        layer.register_forward_hook(lambda *_: found.append(layers_in_memory()))
        layer.register_full_backward_hook(lambda *_: found.append(layers_in_memory()))
    for _ in range(2):  # JAX may still have the memory of the first values
        found.clear()
        model(m.ones(2, N, requires_grad=True)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    assert len(found) == 6
    return found


@together
def memory_between_forward_and_backward(m, d):
    """One layer is whole at a time, unless the program wants all of them to stay."""
    assert max(in_memory_of_a_step(m, d, None)) <= 1
    assert max(in_memory_of_a_step(m, d, True)) <= 1
    assert max(in_memory_of_a_step(m, d, False)) >= 3
    return True
