"""Pipelines over sub-meshes of one process train as the whole module does."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import torchgrad_jax as torch
from torchgrad_jax import nn
from torchgrad_jax.distributed.device_mesh import DeviceMesh
from torchgrad_jax.distributed.fsdp import fully_shard
from torchgrad_jax.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

SCHEDULES = {"GPipe": ScheduleGPipe, "1F1B": Schedule1F1B}
N = 4
PARTS = 8


def layers() -> list[Any]:
    torch.manual_seed(0)
    sizes = [6, 8, 8, 8, 4]
    return [nn.Sequential(nn.Linear(a, b), nn.Tanh()).double() for a, b in pairwise(sizes)]


def batches() -> list[tuple[Any, Any]]:
    draws = torch.Generator().manual_seed(1)
    made = lambda n: torch.randn(16, n, generator=draws, dtype=torch.float64)  # noqa: E731
    return [(made(6), made(4)) for _ in range(3)]


def stages(parts: list[Any], sharded: bool) -> list[PipelineStage]:
    made = []
    for i, part in enumerate(parts):
        mesh = DeviceMesh("cpu", [2 * i, 2 * i + 1])
        if sharded:
            fully_shard(part, mesh=mesh)
        made.append(PipelineStage(part, i, N, mesh))
    return made


def by_itself() -> tuple[list[Any], list[Any]]:
    net = nn.Sequential(*layers())
    optimizer = torch.optim.Adam(net.parameters(), 0.01)
    seen = []
    for x, y in batches():
        optimizer.zero_grad()
        out = net(x)
        nn.functional.mse_loss(out, y).backward()
        optimizer.step()
        seen.append(out.tolist())
    return seen, [(p.tolist(), p.grad.tolist()) for p in net.parameters()]


@pytest.mark.parametrize("sharded", [False, True], ids=["replicated", "fsdp"])
@pytest.mark.parametrize("name", list(SCHEDULES))
def test_trains_as_the_whole(name: str, sharded: bool):
    parts = layers()
    row = stages(parts, sharded)
    params = [p for part in parts for p in part.parameters()]
    optimizers = [torch.optim.Adam(params, 0.01)]
    if sharded:
        optimizers = [torch.optim.Adam(part.parameters(), 0.01) for part in parts]
    schedule = SCHEDULES[name](row, PARTS, loss_fn=nn.functional.mse_loss)
    outputs = []
    for x, y in batches():
        for optimizer in optimizers:
            optimizer.zero_grad()
        losses: list[Any] = ["an old one"]
        out = schedule.step(x, target=y, losses=losses)
        assert len(losses) == PARTS
        mean = sum(loss.item() for loss in losses) / PARTS
        np.testing.assert_allclose(mean, nn.functional.mse_loss(out, y).item())
        for optimizer in optimizers:
            optimizer.step()
        outputs.append(out.tolist())
    want, params_then = by_itself()
    np.testing.assert_allclose(outputs, want, rtol=1e-9)
    for p, (value, grad) in zip(params, params_then, strict=True):
        np.testing.assert_allclose(p.tolist(), value, rtol=1e-9)
        np.testing.assert_allclose(p.grad.tolist(), grad, rtol=1e-7, atol=1e-12)
    for i, part in enumerate(parts):
        used = {d.id for p in part.parameters() for d in p.sharding.device_set}
        assert used == {2 * i, 2 * i + 1}
    kept = [stage.peak for stage in row]
    assert kept == ([PARTS] * N if name == "GPipe" else [4, 3, 2, 1])
    assert not any(stage.inputs or stage.outputs for stage in row)


def test_without_gradients():
    parts = layers()
    x, y = batches()[0]
    schedule = ScheduleGPipe(stages(parts, False), PARTS, loss_fn=nn.functional.mse_loss)
    losses: list[Any] = []
    out = schedule.eval(x, target=y, losses=losses)
    assert not out.requires_grad
    assert len(losses) == PARTS
    np.testing.assert_allclose(out.tolist(), nn.Sequential(*layers())(x).tolist())
    np.testing.assert_allclose(schedule.eval(x).tolist(), out.tolist())


def test_one_stage_on_an_ordinary_device():
    (part, *_), (x, _) = layers(), batches()[0]
    y = torch.zeros(16, 8, dtype=torch.float64)
    stage = PipelineStage(part, 0, 1, torch.device("cpu"))
    Schedule1F1B(stage, 4, loss_fn=nn.functional.mse_loss).step(x, target=y)
    got = part[0].weight.grad.tolist()
    part.zero_grad()
    nn.functional.mse_loss(part(x), y).backward()
    np.testing.assert_allclose(got, part[0].weight.grad.tolist())


def test_bad_input_leaves_nothing_behind():
    parts = layers()
    row = stages(parts, False)
    schedule = Schedule1F1B(row, PARTS, loss_fn=nn.functional.mse_loss)
    x, y = batches()[0]
    with pytest.raises(AssertionError, match="Tensor size 3 is smaller than num_chunks"):
        schedule.step(x[:3], target=y[:3])
    with pytest.raises(ValueError, match="needs target="):
        schedule.step(x)
    with pytest.raises(RuntimeError):
        schedule.step(x[:, :5], target=y)
    assert not any(stage.inputs or stage.outputs for stage in row)
    schedule.step(x, target=y)
    with pytest.raises(ValueError, match="needs all 4 stages"):
        ScheduleGPipe(row[:2], PARTS)
    with pytest.raises(ValueError, match="Stage index 2 is out of range of 2"):
        PipelineStage(parts[0], 2, 2, torch.device("cpu"))
