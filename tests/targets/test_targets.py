"""Programs for TPUs and GPUs that are not here; `make targets` installs the compilers."""

import json
import re

import pytest

import torchgrad_jax as torch
import torchgrad_jax.nn.functional as F
from tests.targets.conftest import COMPILERS
from torchgrad_jax import interop, nn
from torchgrad_jax._core.jax.kernel_archives import unpacked
from torchgrad_jax._core.jax.programs_ahead import key_of, kind_of
from torchgrad_jax.distributed.device_mesh import init_device_mesh
from torchgrad_jax.distributed.fsdp import fully_shard
from torchgrad_jax.distributed.tensor import Shard, distribute_tensor

pytestmark = pytest.mark.usefixtures("tpu")


def model(device):
    layers = [nn.Linear(64, 128), nn.GELU(), nn.LayerNorm(128), nn.Dropout(0.1), nn.Linear(128, 10)]
    return nn.Sequential(*layers).to(device=device)


def training(device):
    m = model(device)
    opt = torch.optim.AdamW(m.parameters(), lr=1e-3)

    @torch.compile
    def step(x, y):
        opt.zero_grad()
        loss = F.cross_entropy(m(x), y)
        loss.backward()
        opt.step()
        return loss

    return step, torch.randn(32, 64, device=device), torch.randint(0, 10, (32,), device=device)


def test_tensors_on_a_target_are_shapes(tpu):
    with tpu:
        x = torch.ones(3, 2, device="tpu", requires_grad=True)
        y = (x @ x.t()).sum()
        y.backward()
        assert (y.shape, x.grad.shape, str(x.grad.device)) == ((), (3, 2), "tpu:0")
        assert str(x.detach()) == "tensor(..., device='tpu:0', size=(3, 2))"
        assert torch.accelerator.device_count() == 4
        assert not torch.cuda.is_available()
        with pytest.raises(RuntimeError, match=r"a tensor on tpu:0 has no values here"):
            y.item()
        with pytest.raises(RuntimeError, match="same device"):
            x + torch.ones(3, 2)
    assert torch.ones(2).sum().item() == 2.0


def test_a_model_that_is_here_moves_there_and_keeps_its_parameters(tpu):
    m = nn.Linear(3, 2)
    weight = m.weight
    with tpu:
        m.to("tpu")
        assert m.weight is weight
        assert str(weight.device) == "tpu:0"


def test_the_memory_of_a_training_step_by_what_it_is_for(tpu):
    with tpu:
        step, x, y = training("tpu")
        plan = step.plan(x, y)
    numbers = sum(p.numel() for p in model("cpu").parameters())
    assert plan.memory["parameters"] == 4 * numbers
    assert plan.memory["optimizer"] == pytest.approx(8 * numbers, abs=64)
    assert plan.memory["arguments"] == 32 * 64 * 4 + 32 * 8
    assert plan.fits
    assert plan.flops == pytest.approx(3 * 2 * 32 * (64 * 128 + 128 * 10), rel=0.35)
    assert plan.limited_by == "memory"
    assert plan.emulated == []
    json.loads(plan.to_json())


def test_shapes_alone_and_meta_give_the_program_of_the_target(tpu):
    texts = []
    for device in ("tpu", "meta"):
        with tpu:
            step, x, y = training(device)
            step(x, y)
            texts.append(step.lower(x, y).as_text())
    assert texts[0] == texts[1]


def test_lowering_changes_nothing_here(tpu):
    step, x, y = training("cpu")
    before = step(x, y).item()
    with tpu:
        step.lower(x, y)
        there, *batch = training("tpu")
        there.lower(*batch)
    counts = dict(step.counts)
    assert step(x, y).item() < before
    assert step.counts["traced"] == counts["traced"]


def test_autocast_and_attention_are_those_of_the_target(gpu):
    def run(q):
        with torch.autocast("cuda", torch.bfloat16):
            return F.scaled_dot_product_attention(q @ q.new_ones(64, 64), q, q, is_causal=True).float().sum()

    with gpu, torch.no_grad():
        q = torch.randn(2, 4, 128, 64, device="cuda")
        text = torch.compile(run).lower(q).as_text()
    assert "bf16" in text


def test_sharded_training_exchanges_between_devices(tpu):
    with tpu:
        mesh = init_device_mesh("tpu", (4,))
        m = model("tpu").to(torch.bfloat16)
        fully_shard(m, mesh=mesh)
        opt = torch.optim.SGD(m.parameters(), lr=0.1)

        @torch.compile
        def step(x):
            opt.zero_grad()
            loss = m(x).float().square().mean()
            loss.backward()
            opt.step()
            return loss

        x = distribute_tensor(torch.randn(64, 64, dtype=torch.bfloat16, device="tpu"), mesh, [Shard(0)])
        plan = step.plan(x)
    numbers = sum(p.numel() for p in model("cpu").parameters())
    assert plan.memory["parameters"] == pytest.approx(2 * numbers / 4, rel=0.02)
    assert plan.memory["arguments"] == 64 * 64 * 2 / 4
    assert {e.kind for e in plan.exchanges} & {"all-gather", "all-reduce", "reduce-scatter"}


def test_loaders_shuffle_on_this_machine_what_lies_on_the_target(tpu):
    data = torch.utils.data
    with tpu, torch.device("tpu"):
        first, second = data.random_split(data.TensorDataset(torch.randn(10, 2)), [6, 4])
        batches = [x for (x,) in data.DataLoader(first, 2, shuffle=True)]
    assert {*first.indices, *second.indices} == {*range(10)}
    assert [(x.shape, str(x.device)) for x in batches] == [((2, 2), "tpu:0")] * 3


def test_a_step_with_buckets_is_planned_for_the_sizes_that_it_is_padded_to(tpu):
    def scaled(x, length_mask):
        return ((x @ x.new_ones(64, 64)).tanh() * length_mask[:64]).sum()

    with tpu:
        step = torch.compile(scaled, buckets={"length": (64, 1 << 20)}, shapes={"x": "_, length"})
        x = torch.randn(8, 50, device="tpu")
        plan = step.plan(x)
        assert plan.memory["arguments"] == 8 * 64 * 4 + 64
        assert step.largest_batch(torch.randn(1 << 18, 50, device="tpu")) > 1 << 20


def test_convolutions_count_as_arithmetic_of_a_gpu(gpu):
    """In groups and with strides, forward and backward: XLA's own count knows nothing of cuDNN's."""
    with gpu:
        first, second = nn.Conv2d(8, 16, 3, 2, 1, groups=2), nn.Conv2d(16, 32, 1)
        net = nn.Sequential(first, nn.ReLU(), second).to("cuda")

        @torch.compile
        def step(x):
            loss = net(x).square().sum()
            loss.backward()
            return loss.detach()

        x = torch.randn(4, 8, 32, 32, device="cuda")
        places = 4 * 16 * 16
        once, twice = 2 * places * first.weight.numel(), 2 * places * second.weight.numel()
        plan = step.plan(x)
    assert plan.flops == pytest.approx(2 * once + 3 * twice, rel=0.1)  # nobody wants the gradient of `x`


def test_a_name_that_there_is_not(tpu):
    with pytest.raises(ValueError, match=r"there is no hardware of the name 'v9:2x2'.*h100:8"):
        interop.target("v9:2x2")


SCRIPT = """
import sys, torch
from torch import nn
device = torch.accelerator.current_accelerator() or "cpu"
m = nn.Linear(8, int(sys.argv[1])).to(device)
opt = torch.optim.SGD(m.parameters(), lr=0.1)
{decorator}
def step(x):
    opt.zero_grad()
    loss = m(x).square().mean()
    loss.backward()
    opt.step()
    return loss
for i in range(10):
    print("loss", step(torch.randn(4, 8).to(device)).item())
"""


@pytest.mark.parametrize("decorator, found", [("@torch.compile", True), ("", False)])
def test_the_command_plans_a_script(tmp_path, monkeypatch, decorator, found):
    from tests.targets.test_plans import run_plan

    monkeypatch.setenv("PYTHONPATH", str(COMPILERS), prepend=":")
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.format(decorator=decorator))
    file = tmp_path / "plan.json"
    cache = tmp_path / "cache"
    done = run_plan(str(script), "--on", "v5e:2x2", "--json", str(file), "--cache", str(cache), "--", "16")
    if found:
        (plan,) = json.loads(file.read_text())
        assert plan["memory"]["parameters"] == 4 * (8 * 16 + 16)
        assert re.search(r"^fits +yes", done.stdout, re.MULTILINE), done
        (program,) = (cache / "programs").iterdir()
        assert program.name.startswith("jit_torch.compiled_step-ahead-")
    else:
        assert done.returncode == 1
        assert "has no values here" in done.stderr


class OnTheMachine:
    """A device as JAX describes it where it is. There, the plugin for GPUs gives the version of its own CUDA."""

    class client:
        platform_version = "PJRT C API\ncuda 12090"

    def __init__(self, there):
        self.platform, self.device_kind = there.platform, there.device_kind


def test_a_program_has_the_key_that_the_machine_computes(gpu, tmp_path):
    """All that a key holds is known here: the module, the versions, the kind of device."""
    with gpu:
        step, x, y = training("cuda")
        step.save(tmp_path / "step.bin", x, y)
        module = step.lower(x, y).as_jax().compiler_ir("stablehlo")
    archive = unpacked((tmp_path / "step.bin").read_bytes())
    assert [*archive.programs] == [key_of(module, kind_of(OnTheMachine(gpu.devices[0])))]
    assert archive.kind["platform"] == "gpu, NVIDIA H100 80GB HBM3"
    with pytest.raises(RuntimeError, match=r"they were made for another platform: gpu, NVIDIA H100.*here is cpu"):
        step.load(tmp_path / "step.bin")


def test_the_key_for_tpus_holds_the_version_of_their_compiler(tpu):
    kind = kind_of(tpu.devices[0])
    assert kind["platform"] == "tpu, TPU v5 lite"
    assert "cl/" in kind["libtpu"]
