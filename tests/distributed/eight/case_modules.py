"""What users do with split modules and tensors besides training: state, copies, meta, precision, vmap, hooks."""

import copy
import io
import pickle
import warnings
from typing import Any

import pytest

import torchgrad_jax as torch
from tests.distributed.eight.training import PLAN, Net, batch, both, grid, line, network, sharded, wrapped
from torchgrad_jax import nn
from torchgrad_jax.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_model_state_dict,
    set_state_dict,
)
from torchgrad_jax.distributed.device_mesh import init_device_mesh
from torchgrad_jax.distributed.fsdp import (
    CPUOffloadPolicy,
    FSDPModule,
    FullOptimStateDictConfig,
    FullyShardedDataParallel,
    MixedPrecision,
    MixedPrecisionPolicy,
    ShardingStrategy,
    StateDictType,
    fully_shard,
    register_fsdp_forward_method,
)
from torchgrad_jax.distributed.fsdp.wrap import ModuleWrapPolicy, always_wrap_policy
from torchgrad_jax.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_module, distribute_tensor
from torchgrad_jax.distributed.tensor._parts import kept_of
from torchgrad_jax.distributed.tensor.experimental import context_parallel, context_parallel_unshard, local_map
from torchgrad_jax.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

FULL = ShardingStrategy.FULL_SHARD


def whole(t: Any) -> Any:
    return t.detach().full_tensor() if isinstance(t, DTensor) else t.detach()


def equal_parameters(a: Any, b: Any) -> bool:
    pairs = zip(a.parameters(), b.parameters(), strict=True)
    return all(torch.equal(whole(p), whole(q)) for p, q in pairs)


def single() -> Any:
    torch.manual_seed(0)
    return Net()


def parts(module: Any) -> list[Any]:
    return [p.placements for p in module.parameters()]


def test_state_of_a_plain_module_loads_and_comes_back():
    net, split = network(), sharded(Net().double())
    before = parts(split)
    split.load_state_dict(net.state_dict())
    assert parts(split) == before
    assert equal_parameters(net, split)
    other = Net().double()
    other.load_state_dict(split.state_dict())
    assert equal_parameters(net, other)


def test_saved_state_is_whole_and_loads_into_any_placement():
    file = io.BytesIO()
    torch.save(sharded(network()).state_dict(), file)
    file.seek(0)
    split = both(PLAN)(Net().double())
    split.load_state_dict(torch.load(file))
    assert equal_parameters(network(), split)
    assert all(isinstance(p, DTensor) for p in split.parameters())


def test_state_of_the_wrapper_has_the_names_inside():
    split = wrapped(FULL)(network())
    assert list(split.state_dict()) == list(network().state_dict())
    assert not any(isinstance(t, DTensor) for t in split.state_dict().values())
    with FullyShardedDataParallel.state_dict_type(split, StateDictType.SHARDED_STATE_DICT):
        assert all(isinstance(t, DTensor) for t in split.state_dict().values())
    outer = nn.ModuleDict({"inside": split})
    assert "inside.embedding.weight" in outer.state_dict()
    outer.load_state_dict({f"inside.{k}": v * 2 for k, v in network().state_dict().items()})
    assert torch.equal(whole(split.up.weight), network().up.weight.detach() * 2)


def test_whole_state_by_options():
    split = sharded(network())
    state = get_model_state_dict(split, options=StateDictOptions(full_state_dict=True))
    assert not any(isinstance(t, DTensor) for t in state.values())
    assert all(isinstance(t, DTensor) for t in get_model_state_dict(split).values())
    other = both(PLAN)(Net().double())
    set_model_state_dict(other, state, options=StateDictOptions(full_state_dict=True))
    assert equal_parameters(split, other)
    assert all(isinstance(p, DTensor) for p in other.parameters())


def test_state_of_an_optimizer_goes_around():
    split = wrapped(FULL)(network())
    optimizer = torch.optim.AdamW(split.parameters())
    split(batch()[0]).sum().backward()
    optimizer.step()
    state = FullyShardedDataParallel.optim_state_dict(split, optimizer)
    assert not isinstance(state["state"]["up.weight"]["exp_avg"], DTensor)
    held = optimizer.state[split.up.weight]["exp_avg"]
    FullyShardedDataParallel.optim_state_dict_to_load(split, optimizer, state, load_directly=True)
    loaded = optimizer.state[split.up.weight]["exp_avg"]
    with FullyShardedDataParallel.state_dict_type(split, StateDictType.SHARDED_STATE_DICT):
        parts_of = FullyShardedDataParallel.optim_state_dict(split, optimizer)
        gathered = FullyShardedDataParallel.full_optim_state_dict(split, optimizer, None, False)
    assert FullyShardedDataParallel.get_state_dict_type(nn.Linear(1, 1)) is None
    outer = nn.ModuleDict({"inside": split})
    assert "inside.up.weight" in FullyShardedDataParallel.optim_state_dict(outer, optimizer)["state"]
    assert isinstance(parts_of["state"]["up.weight"]["exp_avg"], DTensor)
    assert not isinstance(gathered["state"]["up.weight"]["exp_avg"], DTensor)
    assert loaded is not held
    assert loaded.placements == split.up.weight.placements
    assert torch.equal(loaded.full_tensor(), held.full_tensor())


@pytest.mark.parametrize("spread", [sharded, both(PLAN)], ids=["fsdp", "fsdp-tensor-parallel"])
def test_modules_on_meta_are_filled_split(spread: Any):
    with torch.device("meta"):
        net = Net()
    spread(net)
    before = parts(net)
    net.to_empty(device="cpu")
    torch.manual_seed(0)
    for part in net.modules():
        if hasattr(part, "reset_parameters"):
            part.reset_parameters()
    assert [tuple(p.sharding.spec) for p in net.parameters()] == [
        tuple(p.sharding.spec) for p in spread(single()).parameters()
    ]
    assert len(before) == len(parts(net))
    assert equal_parameters(net, single())


def test_the_wrapper_fills_modules_on_meta():
    with torch.device("meta"):
        net = Net()
    torch.manual_seed(0)
    split = FullyShardedDataParallel(net)
    assert equal_parameters(split, single())
    assert split.up.weight.placements == (Shard(0),)


SURVIVES: dict[str, Any] = {
    "deepcopy": copy.deepcopy,
    "to(dtype)": lambda net: net.to(torch.float32),
    "half": lambda net: net.bfloat16(),
    "requires_grad_": lambda net: net.requires_grad_(False),
    "apply": lambda net: net.apply(lambda part: None),
    "init": lambda net: (nn.init.normal_(net.up.weight), net)[1],
    "load": lambda net: (net.load_state_dict(network().state_dict()), net)[1],
    "compile": lambda net: (torch.compile(lambda: net.up.weight.data.mul_(2))(), net)[1],
    "zero_grad": lambda net: (net.zero_grad(set_to_none=False), net)[1],
    "deepcopy of a copy": lambda net: copy.deepcopy(copy.deepcopy(net)),
}


@pytest.mark.parametrize("what", list(SURVIVES))
def test_placements_survive(what: str):
    net = both(PLAN)(network())
    before = [p.sharding for p in net.parameters()]
    after: Any = SURVIVES[what](net)
    assert FSDPModule in type(after).__mro__
    for p, there in zip(after.parameters(), before, strict=True):
        assert p.sharding.is_equivalent_to(there, p.ndim)
    assert after(batch()[0]).shape == (8, 4, 16)


def test_precision_of_a_forward():
    seen = []

    class Seen(nn.Linear):
        def forward(self, x: Any) -> Any:
            seen.append((self.weight.dtype, x.dtype))
            return super().forward(x)

    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, output_dtype=torch.float32)
    net = fully_shard(Seen(8, 16), mp_policy=policy)
    out = net(torch.ones(8, 8))
    out.sum().backward()
    assert seen == [(torch.bfloat16, torch.bfloat16)]
    assert out.dtype is net.weight.dtype is net.weight.grad.dtype is torch.float32
    with pytest.raises(RuntimeError):
        net(torch.ones(8, 3))
    assert net.weight.dtype is torch.float32


def inside(net: Any, precision: Any) -> Any:
    return nn.Sequential(FullyShardedDataParallel(net, mixed_precision=precision))


LOW = MixedPrecision(param_dtype=torch.bfloat16)
DTYPES: dict[str, tuple[Any, Any, Any, list[str]]] = {
    "outermost": (LOW, None, lambda net: net, ["bfloat16"] * 3),
    "no-batch-norm": (LOW, ModuleWrapPolicy({nn.Linear}), lambda net: net, ["bfloat16", "float32", "bfloat16"]),
    "no-batch-norm-function": (LOW, always_wrap_policy, lambda net: net, ["bfloat16", "float32", "bfloat16"]),
    "inside": (
        MixedPrecision(),
        None,
        lambda net: inside(net, MixedPrecision(torch.bfloat16, cast_forward_inputs=True)),
        ["bfloat16"] * 3,
    ),
    "inside-without-a-cast": (MixedPrecision(), None, lambda net: inside(net, LOW), ["RuntimeError"]),
    "no-cast": (
        MixedPrecision(torch.bfloat16, cast_root_forward_inputs=False),
        None,
        lambda net: net,
        ["RuntimeError"],
    ),
}
"""Precision, policy, how the network is wrapped before, and the dtypes of what its parts give, as in torch 2.13."""


@pytest.mark.parametrize("case", list(DTYPES))
def test_dtypes_inside_of_the_wrapper(case: str):
    precision, policy, build, want = DTYPES[case]
    seen: list[str] = []
    middle = nn.BatchNorm1d(8) if "batch-norm" in case else nn.ReLU()
    net = nn.Sequential(nn.Linear(8, 8), middle, nn.Linear(8, 8))
    for part in net:
        part.register_forward_hook(lambda m, i, out: seen.append(str(out.dtype).split(".")[1]))
    whole_net = FullyShardedDataParallel(build(net), mixed_precision=precision, auto_wrap_policy=policy)
    try:
        whole_net(torch.ones(8, 8)).sum().backward()
    except RuntimeError:
        seen.append("RuntimeError")
    assert seen == want
    assert all(p.dtype is torch.float32 for p in net.parameters())


def test_a_wider_reduction_is_not_promised():
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    with pytest.warns(UserWarning, match="reduce_dtype=torch.float32 has no effect"):
        fully_shard(nn.Linear(8, 8), mp_policy=policy)


@pytest.mark.parametrize("reshard", [True, False])
def test_parameters_are_gathered_once_per_forward_where_that_is_wanted(reshard: bool):
    class Seen(nn.Linear):
        def forward(self, x: Any) -> Any:
            seen.append(self.weight.placements)  # type: ignore[attr-defined]
            return super().forward(x)

    seen: list[Any] = []
    net = fully_shard(Seen(8, 16), reshard_after_forward=reshard)
    net(torch.ones(8, 8)).sum().backward()
    net.set_reshard_after_forward(not reshard)
    net(torch.ones(8, 8))
    split = [(Shard(0),), (Replicate(),)]
    assert seen == (split if reshard else split[::-1])
    assert net.weight.placements == net.weight.grad.placements == (Shard(0),)


def test_what_a_sharded_module_can_be_asked():
    net = sharded(network())
    assert isinstance(net, Net)
    assert isinstance(net, FSDPModule)
    assert isinstance(net.up, nn.Linear)
    net.unshard()
    assert net.head.weight.placements == (Replicate(),)
    net.reshard()
    assert net.head.weight.placements == (Shard(0),)
    net.set_requires_gradient_sync(False)
    for _ in range(2):
        net.eval()(batch()[0]).sum().backward()
    plain = network().eval()
    (plain(batch()[0]).sum() * 2).backward()
    torch.testing.assert_close(whole(net.up.weight.grad), plain.up.weight.grad)
    net.zero_grad()
    net.set_gradient_divide_factor(1.0)
    net(batch()[0]).sum().backward()
    torch.testing.assert_close(whole(net.up.weight.grad), plain.up.weight.grad * 4)
    assert type(net)().__class__ is Net


def test_other_methods_run_as_forward_does():
    class Two(nn.Linear):
        def other(self, x: Any) -> Any:
            return self.weight.dtype, self(x)

    net = fully_shard(Two(8, 8), mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16))
    register_fsdp_forward_method(net, "other")
    assert net.other(torch.ones(8, 8))[0] is torch.bfloat16
    assert net.weight.dtype is torch.float32


def test_odd_sizes_and_batches_are_right_too():
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(8, 6), nn.Linear(6, 3))
    net = fully_shard(copy.deepcopy(plain))
    assert parts(net) == [(Shard(1),), (Replicate(),), (Replicate(),), (Replicate(),)]
    x = torch.randn(5, 8)
    torch.testing.assert_close(net(x).full_tensor(), plain(x))


def test_vmap_over_a_split_batch():
    mesh = line()
    x = distribute_tensor(torch.randn(16, 4), mesh, [Shard(0)])
    w = distribute_tensor(torch.randn(4, 3), mesh)

    def loss(w: Any, row: Any) -> Any:
        return torch.tanh(row @ w).sum()

    each = torch.func.vmap(torch.func.grad(loss), (None, 0))(w, x)
    assert each.placements == (Shard(0),)
    want = torch.func.vmap(torch.func.grad(loss), (None, 0))(whole(w), whole(x))
    torch.testing.assert_close(each.full_tensor(), want)


@pytest.mark.parametrize(
    ("call", "of_images", "compiled"),
    [
        ("conv2d", (Replicate(), Shard(2)), False),
        ("conv2d", (Shard(3), Replicate()), True),
        ("conv_transpose2d", (Shard(2), Replicate()), True),
    ],
    ids=["eager", "compiled", "transposed"],
)
def test_convolutions_along_what_one_axis_of_several_splits(call: str, of_images: Any, compiled: bool):
    """XLA adds up the sums of too many devices; a backward pass is a program of its own from the twentieth time on."""
    mesh, function = grid(), getattr(nn.functional, call)

    def run(x: Any, w: Any) -> Any:
        y = function(x, w, padding=1)
        return (y, *torch.autograd.grad(y.pow(2).sum(), (x, w)))

    torch.manual_seed(0)
    x = torch.randn(4, 2, 8, 8, dtype=torch.float64, requires_grad=True)
    w = torch.randn(2, 2, 3, 3, dtype=torch.float64, requires_grad=True)
    want = run(x, w)
    program = torch.compile(run) if compiled else run
    for of_kernel in [(Replicate(), Replicate()), (Replicate(), Shard(0))]:
        for _ in range(1 if compiled else 22):
            got = program(distribute_tensor(x, mesh, of_images), distribute_tensor(w, mesh, of_kernel))
        for a, b in zip(got, want, strict=True):
            torch.testing.assert_close(whole(a), whole(b))


@pytest.mark.parametrize(
    "copied", [lambda m: m, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))], ids=["itself", "copied", "pickled"]
)
def test_what_gradients_are_divided_by_goes_with_a_copy(copied: Any):
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
    net = copy.deepcopy(plain)
    fully_shard(net[0])
    fully_shard(net).set_gradient_divide_factor(2.0)
    net, x = copied(net), torch.randn(8, 8)
    for module in (plain, net):
        module(x).sum().backward()
    for p, q in zip(net.parameters(), plain.parameters(), strict=True):
        assert q.grad is not None
        torch.testing.assert_close(whole(p.grad), q.grad * 4)


@pytest.mark.parametrize(
    "view",
    [lambda w: w[0], lambda w: w[:3].t(), lambda w: w[:, :3], lambda w: w[1:, 0]],
    ids=["row", "transposed", "columns", "column"],
)
def test_leaves_that_are_views_of_a_split_tensor(view: Any):
    """Their gradients lie as they do: what splits the whole tensor may not divide them."""
    w = distribute_tensor(torch.arange(64.0).view(8, 8), line(), [Shard(1)])
    leaf, plain = (view(t.detach()).requires_grad_() for t in (w, whole(w)))
    for x in (leaf, plain):
        optimizer = torch.optim.Adam([x], lr=0.5)
        (x * x).sum().backward()
        optimizer.load_state_dict(optimizer.state_dict())
        optimizer.step()
        if x.is_contiguous():
            nn.utils.vector_to_parameters(nn.utils.parameters_to_vector([x]) * 2, [x])
    torch.testing.assert_close(whole(leaf.grad), plain.grad)
    torch.testing.assert_close(whole(leaf), plain.detach())


def test_gradients_through_moves():
    mesh = line()
    leaf = distribute_tensor(torch.arange(16.0).view(8, 2), mesh, [Shard(0)]).requires_grad_()
    seen = []
    leaf.register_hook(lambda g: seen.append(g.sum().item()))
    moved = leaf.redistribute(mesh, [Replicate()])
    (moved.to_local() * 2).sum().backward()
    (leaf.full_tensor() * 3).sum().backward()
    assert seen == [32.0, 48.0]
    assert leaf.grad is not None
    assert leaf.grad.placements == (Shard(0),)
    assert leaf.grad.full_tensor().tolist() == [[5.0, 5.0]] * 8


def test_moves_inside_of_a_compiled_function():
    mesh = line()
    x = distribute_tensor(torch.arange(128.0).view(8, 16), mesh, [Shard(0)])
    move = torch.compile(lambda t: (t + 1).redistribute(mesh, [Shard(1)]) * 2)
    assert move(x).placements == (Shard(1),)
    torch.testing.assert_close(whole(move(x)), whole((x + 1) * 2))
    summed = torch.compile(lambda t: ((t + 1).full_tensor() * t.to_local()).sum())
    torch.testing.assert_close(whole(summed(x)), whole(((x + 1) * x).sum()))
    with pytest.raises(RuntimeError, match="give device_mesh"):
        torch.compile(lambda t: t.redistribute(placements=[Shard(1)]))(x)
    with pytest.raises(AttributeError, match="inside of a compiled function"):
        torch.compile(lambda t: t.placements)(x)


def test_asking_where_a_result_lies_changes_nothing():
    x = distribute_tensor(torch.ones(8, 2), line(), [Shard(0)]).requires_grad_()
    for _ in range(5):  # walked, and then compiled
        x.grad = None
        y = torch.tanh(x)
        assert y.placements == (Shard(0),)
        (y * 2).sum().backward()
        assert x.grad is not None
        torch.testing.assert_close(x.grad.full_tensor(), 2 - 2 * torch.tanh(torch.ones(8, 2)) ** 2)


def attention(x: Any, net: Any, causal: bool) -> Any:
    q, k, v = (part.unflatten(-1, (2, 4)).transpose(1, 2) for part in net(x).chunk(3, -1))
    out = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
    return out.transpose(1, 2).flatten(2)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_attention_over_split_sequences(causal: bool, compiled: bool):
    torch.manual_seed(0)
    net, mesh = nn.Linear(8, 24).double(), line()
    x, y = torch.randn(2, 16, 8).double(), torch.randn(2, 16, 8).double()
    want = attention(x, net, causal)
    nn.functional.mse_loss(want, y).backward()
    gradient = net.weight.grad.clone()
    net.zero_grad()

    def step(x: Any, y: Any) -> Any:
        out = attention(x, net, causal)
        nn.functional.mse_loss(out, y).backward()
        return out

    run = torch.compile(step) if compiled else step
    with context_parallel(mesh, buffers=[x, y], buffer_seq_dims=[1, 1], no_restore_buffers={y}):
        assert x.placements == (Shard(1),)
        out = run(x, y)
        assert out.placements == (Shard(1),)
    assert not isinstance(x, DTensor)
    assert isinstance(y, DTensor)
    (whole_out,) = context_parallel_unshard(mesh, [out], [1])
    torch.testing.assert_close(whole_out, want.detach())
    torch.testing.assert_close(whole(net.weight.grad), gradient)


def test_to_local_shares_memory():
    x = distribute_tensor(torch.zeros(8, 2), line(), [Shard(0)])
    x.to_local().add_(1)
    assert x.full_tensor().sum().item() == 16.0
    assert len(x.addressable_shards) == 8


def test_functions_without_a_module_are_deprecated():
    net, mesh = nn.Linear(4, 4), line()

    def double(inputs: Any, mesh: Any) -> Any:
        return (inputs[0] * 2,)

    def alone(outputs: Any) -> Any:
        return outputs

    with pytest.warns(FutureWarning, match="Deprecating input_fn"):
        distribute_module(net, mesh, None, double)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="should take in 3 arguments, but got 1"):
        distribute_module(nn.Linear(4, 4), mesh, None, None, alone)  # type: ignore[arg-type]
    x = torch.ones(8, 4)
    torch.testing.assert_close(whole(net(x)), whole(nn.functional.linear(x * 2, net.weight, net.bias)))


def test_local_map_sees_what_a_device_has():
    mesh, seen = line(), []
    x = distribute_tensor(torch.arange(16.0).view(8, 2), mesh, [Shard(0)]).requires_grad_()

    def double(part: Any) -> Any:
        seen.append(tuple(part.shape))
        return part * 2, part.sum(0)

    both_parts = local_map(double, out_placements=([Shard(0)], [Partial()]))
    doubled, total = both_parts(x)
    assert set(seen) == {(1, 2)}
    assert doubled.placements == (Shard(0),)
    assert total.tolist() == [56.0, 64.0]
    (doubled.sum() + total.sum()).backward()
    assert x.grad is not None
    assert x.grad.full_tensor().tolist() == [[3.0, 3.0]] * 8


def test_meshes_and_their_slices_are_pickled():
    mesh = grid()
    for m in (mesh, mesh["tp"], mesh["dp"]):
        assert pickle.loads(pickle.dumps(m)) == m
        assert copy.deepcopy(m) == m


@pytest.mark.parametrize("n", [2, 400], ids=["held-by-numpy", "held-by-jax"])
def test_one_device_is_a_mesh_too(n: int):
    mesh = init_device_mesh("cpu", (1,))
    x = distribute_tensor(torch.ones(4, n), mesh, [Shard(0)])
    y = x * 2
    assert isinstance(y, DTensor)
    assert y.placements == (Shard(0),)
    assert y.sum().full_tensor().item() == 8 * n
    layer = fully_shard(nn.Linear(n, 4), mesh=mesh)
    assert parts(layer) == [(Shard(0),)] * 2


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_axes_of_one_device_are_named_in_placements(compiled: bool):
    mesh = init_device_mesh("cpu", (8, 1), mesh_dim_names=("dp", "tp"))
    net: Any = parallelize_module(nn.Sequential(nn.Linear(16, 8)), mesh["tp"], {"0": ColwiseParallel()})
    fully_shard(net, mesh=mesh["dp"])
    optimizer = torch.optim.AdamW(net.parameters())

    def step() -> None:
        optimizer.zero_grad()
        net(torch.ones(8, 16)).square().sum().backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.1)
        optimizer.step()

    before, run = parts(net), torch.compile(step) if compiled else step
    assert all(row[1].is_shard(0) for row in before)
    for _ in range(3):
        run()
    assert parts(net) == before
    for p, row in zip(net.parameters(), before, strict=True):
        found = [p.grad, optimizer.state[p]["exp_avg"], optimizer.state[p]["exp_avg_sq"]]
        assert [t.placements for t in found] == [row] * 3


def test_a_program_over_devices_reads_numbers_anew():
    w = nn.Parameter(distribute_tensor(torch.zeros(8), line(), [Shard(0)]))
    scale = torch.tensor(2.0)
    memory, optimizer = scale.numpy(), torch.optim.SGD([w], lr=0.5)

    @torch.compile
    def step() -> None:
        optimizer.zero_grad()
        w.data.zero_()
        (w * -scale).sum().backward()
        optimizer.step()

    found = []
    for rate, factor in ((0.5, 2.0), (0.5, 2.0), (0.5, 4.0), (0.25, 4.0), (0.0, 4.0), (0.5, -0.0)):
        optimizer.param_groups[0]["lr"], memory[...] = rate, factor
        step()
        found.append(w.detach().full_tensor()[0].item())
    assert found == [1.0, 1.0, 2.0, 1.0, 0.0, 0.0]
    assert step.counts["traced"] <= 2


def test_the_state_of_an_optimizer_is_set_in_a_wrapped_network():
    """`set_state_dict` looked for names with the wrapper in them, which no dictionary has."""
    plain, net = network(), FullyShardedDataParallel(network())
    before, after = (torch.optim.AdamW(each.parameters(), lr=0.01) for each in (plain, net))
    plain(batch()[0]).sum().backward()
    before.step()
    model, state = get_state_dict(plain, before)
    set_state_dict(net, after, model_state_dict=model, optim_state_dict=state)
    for p, q in zip(plain.parameters(), net.parameters(), strict=True):
        found = after.state[q]["exp_avg"].full_tensor()
        torch.testing.assert_close(found, before.state[p]["exp_avg"])
        torch.testing.assert_close(q.full_tensor(), p)


def test_a_saved_state_does_not_follow_the_steps_of_an_optimizer():
    """Two optimizers that were loaded from one dictionary had their counts of steps in common."""
    wrapper, count = FullyShardedDataParallel, 3
    nets = [wrapped(FULL)(network()) for _ in range(count)]
    optimizers = [torch.optim.AdamW(net.parameters(), lr=0.01) for net in nets]

    def train(k: int) -> list[float]:
        torch.manual_seed(5)
        losses = []
        for _ in range(2):
            loss = nets[k](batch()[0]).square().mean()
            loss.backward()
            optimizers[k].step()
            optimizers[k].zero_grad()
            losses.append(loss.item())
        return losses

    train(0)
    weights, state = nets[0].state_dict(), wrapper.optim_state_dict(nets[0], optimizers[0])
    for net, optimizer in zip(nets[1:], optimizers[1:]):
        net.load_state_dict(weights)
        optimizer.load_state_dict(wrapper.optim_state_dict_to_load(net, optimizer, state))
    losses = [train(k) for k in range(count)]
    assert losses[1] == losses[0], losses
    assert losses[2] == losses[0]


class Odd(nn.Module):
    """Sizes that eight devices do not divide: a vocabulary, hidden features, biases, a sequence and a batch."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.norm = nn.Embedding(13, 6), nn.LayerNorm(6)
        self.up, self.down = nn.Linear(6, 9), nn.Linear(9, 6, bias=False)
        self.head = nn.Linear(6, 13)

    def forward(self, tokens: Any) -> Any:
        x = self.embedding(tokens)
        return self.head(self.down(torch.tanh(self.up(self.norm(x)))))


def odd_loss(net: Any) -> Any:
    tokens = torch.arange(15).view(3, 5) % 13
    return nn.functional.cross_entropy(net(tokens).flatten(0, 1), tokens.flatten())


ODD_PLAN: dict[str, Any] = {
    "embedding": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
    "norm": SequenceParallel(),
    "up": ColwiseParallel(input_layouts=Shard(1)),
    "down": RowwiseParallel(output_layouts=Shard(1)),
    "head": ColwiseParallel(input_layouts=Shard(1), use_local_output=False),
}
ODD_WAYS: dict[str, tuple[Any, int]] = {
    "fsdp": (fully_shard, 0),
    "fsdp-along-a-dimension": (
        lambda net: fully_shard(net, shard_placement_fn=lambda p: Shard(0)),
        len(list(Odd().parameters())),
    ),
    "fsdp-of-old": (FullyShardedDataParallel, 0),
    "tensor-parallel": (lambda net: parallelize_module(net, line(), ODD_PLAN), 6),
    "both": (lambda net: fully_shard(parallelize_module(net, grid()["tp"], ODD_PLAN), mesh=grid()["dp"]), 6),
}
"""How a network is spread, and of how many parameters the program asked for more than the devices can do."""


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("way", list(ODD_WAYS))
def test_sizes_that_the_devices_do_not_divide_train_as_on_one(way: str, compiled: bool):
    spread, asked = ODD_WAYS[way]
    torch.manual_seed(0)
    plain = Odd().double()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        net = spread(copy.deepcopy(plain))
    found = [str(w.message) for w in said]
    assert sum("into unequal parts" in text for text in found) == asked, found
    for each, is_compiled in ((plain, False), (net, compiled)):
        optimizer = torch.optim.SGD(each.parameters(), lr=0.5)

        def step(each: Any = each, optimizer: Any = optimizer) -> None:
            optimizer.zero_grad()
            odd_loss(each).backward()
            optimizer.step()

        run = torch.compile(step) if is_compiled else step
        run()
        run()
    again = Odd().double()
    again.load_state_dict({k: v.full_tensor() if isinstance(v, DTensor) else v for k, v in net.state_dict().items()})
    for p, q, held in zip(plain.parameters(), again.parameters(), net.parameters(), strict=True):
        torch.testing.assert_close(q, p)
        assert len(held.addressable_shards) == 8


def test_a_compiled_module_is_sharded_as_the_module_that_is_called():
    plain = nn.Linear(8, 8)
    module: Any = torch.compile(copy.deepcopy(plain))
    fully_shard(module, mesh=line())
    assert FSDPModule in type(module).__mro__
    assert type(module._orig_mod) is nn.Linear
    assert module.weight.placements == (Shard(0),)
    x = torch.ones(8, 8)
    torch.testing.assert_close(module(x).full_tensor(), plain(x))


def test_tensors_are_split_into_unequal_parts():
    x = torch.arange(48.0).view(6, 8)
    rows = distribute_tensor(x, line(), [Shard(0)])
    columns = distribute_tensor(x.t(), grid()["dp"]).redistribute(placements=[Shard(1)])
    for t in (rows, columns, rows.t()):
        assert t.placements[0] == Shard(1 if t is not rows else 0)
        torch.testing.assert_close(t.full_tensor(), x if t is rows else x.t())
    rows.mul_(2)
    torch.testing.assert_close((rows + columns.t()).full_tensor(), 3 * x)
    assert [part.data.shape for part in kept_of(rows)[0].addressable_shards] == [(1, 8)] * 8


ERRORS: dict[str, tuple[type[Exception], str, Any]] = {
    "other-mesh": (
        ValueError, "lies on DeviceMesh.* and cannot be placed on another mesh",
        lambda: fully_shard(parallelize_module(nn.Linear(8, 8), line(), ColwiseParallel()), mesh=grid()["dp"]),
    ),
    "twice": (AssertionError, "only be applied to a module once", lambda: fully_shard(sharded(network()))),
    "container": (ValueError, "do not implement forward", lambda: fully_shard(nn.ModuleList([nn.Linear(8, 8)]))),
    "offload": (
        NotImplementedError, "CPUOffloadPolicy", lambda: fully_shard(network(), offload_policy=CPUOffloadPolicy())
    ),
    "narrow-gradients": (
        NotImplementedError, "keep_low_precision_grads",
        lambda: FullyShardedDataParallel(
            network(), mixed_precision=MixedPrecision(torch.bfloat16, keep_low_precision_grads=True)
        ),
    ),
    "three-dimensions": (
        ValueError, "expects a 1D or 2D DeviceMesh",
        lambda: fully_shard(network(), mesh=init_device_mesh("cpu", (2, 2, 2))),
    ),
    "hybrid-on-a-line": (
        ValueError, "needs a mesh of two dimensions",
        lambda: FullyShardedDataParallel(network(), sharding_strategy=ShardingStrategy.HYBRID_SHARD),
    ),
    "style": (
        NotImplementedError, "only support nn.Linear and nn.Embedding",
        lambda: parallelize_module(nn.LayerNorm(8), line(), ColwiseParallel()),
    ),
    "no-tensor": (
        AssertionError, "expecting input to be a torch.Tensor!",
        lambda: parallelize_module(
            nn.Identity(), line(), PrepareModuleInput(input_layouts=Shard(0), desired_input_layouts=Replicate())
        )(3),
    ),
    "ignored-twice": (
        ValueError, "both ignored_modules and ignored_states",
        lambda: FullyShardedDataParallel(network(), ignored_modules=[], ignored_states=[]),
    ),
    "details-of-another-kind": (
        RuntimeError, "Expected state_dict_config of type .*FullStateDictConfig.* but got .*FullOptim",
        lambda: FullyShardedDataParallel.set_state_dict_type(
            wrapped(FULL)(network()), StateDictType.FULL_STATE_DICT, FullOptimStateDictConfig()  # type: ignore[arg-type]
        ),
    ),
    "plan": (TypeError, "Expect Union", lambda: parallelize_module(network(), line(), 3)),
    "meshes-of-other-devices": (
        RuntimeError, r"different meshes: got \(dim_0=8\) over the devices \[0, .* and \(dim_0=4\) over",
        lambda: distribute_tensor(torch.ones(8), line(), [Shard(0)])
        + distribute_tensor(torch.ones(8), init_device_mesh("cpu", (4,)), [Shard(0)]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", list(ERRORS))
def test_errors(case: str):
    kind, said, run = ERRORS[case]
    with pytest.raises(kind, match=said):
        run()
