"""The figures about memory that is used and given back, and the error when it runs out."""

import gc
import math

import jax
import pytest

import torchgrad_jax as torch
from torchgrad_jax._core.arrays.out_of_memory import guarded

TOO_MUCH = 1 << 48
"""Elements: a petabyte."""


def figures(dev):
    return jax.local_devices()[0].memory_stats() or {}


def out_of_memory(dev):
    """What asking for too much raises: on the CPU, as in torch, no more than a RuntimeError."""
    return RuntimeError if dev.type == "cpu" else torch.OutOfMemoryError


def guard(dev):
    """XLA's GPU backend knows how much there is; a machine that lends memory that it has not, does not."""
    if dev.type != "cpu" and not figures(dev):
        pytest.skip("no figures about memory")


@pytest.mark.parametrize("make", [torch.zeros, torch.ones, torch.empty], ids=lambda f: f.__name__)
def test_too_much_is_refused(dev, make):
    guard(dev)
    with pytest.raises(out_of_memory(dev), match=r"[Oo]ut of memory|can't allocate memory"):
        make(TOO_MUCH, device=dev)


def test_too_much_in_an_operator(cuda):
    guard(cuda)
    x = torch.ones(1 << 24, 1)
    w = torch.ones(3, requires_grad=True)
    for run in (lambda x: x + x.t(), torch.compile(lambda x: x + x.t())):
        with pytest.raises(torch.OutOfMemoryError, match="out of memory"):
            run(x)
        torch.cuda.synchronize()
    assert torch.cuda.OutOfMemoryError is torch.OutOfMemoryError
    (w * 2).sum().backward()  # what there was is as it was
    assert (x.sum().item(), w.grad.tolist()) == (1 << 24, [2, 2, 2])


def test_a_step_without_room_changes_nothing(elsewhere):
    guard(elsewhere)
    w = torch.ones(4)

    @torch.compile
    def step(x):
        w.add_(1)
        return x + x.t()

    with pytest.raises(torch.OutOfMemoryError):
        step(torch.ones(1 << 24, 1))
    assert (w.tolist(), w._version) == ([1, 1, 1, 1], 0)


def test_numbers_stay_on_the_accelerator():
    """A number is sent once; -0.0 is not taken for 0.0, nor NaN for anything."""
    seen = []
    kernel = guarded(lambda *args: seen.append(args), torch.device("cuda"))
    for _ in range(2):
        kernel(1.5, 0.0, -0.0, math.nan, 3)
    (sent, zero, minus, nan, whole), (again, *_) = seen
    assert isinstance(sent, jax.Array)
    assert (sent is again, sent.weak_type, float(sent)) == (True, True, 1.5)
    assert (math.copysign(1, zero), math.copysign(1, minus), math.isnan(nan), whole) == (1, -1, True, 3)


def test_figures_follow_tensors(cuda):
    guard(cuda)
    gc.collect()
    before = torch.cuda.memory_allocated()
    x = torch.ones(1 << 22)
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() - before >= 1 << 24
    assert torch.cuda.max_memory_allocated() >= torch.cuda.memory_allocated()
    free, total = torch.cuda.mem_get_info()
    assert 0 < free < total
    del x
    gc.collect()
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() - before < 1 << 24
    assert "bytes_in_use" in torch.cuda.memory_summary()


def test_compiled_steps_overwrite_their_state(cuda):
    guard(cuda)
    w = torch.ones(1 << 22)
    step = torch.compile(lambda: w.mul_(2.0).sum())
    step().item()
    before = torch.cuda.memory_allocated()
    for _ in range(10):
        step().item()
    assert torch.cuda.memory_allocated() - before < 1 << 24


def test_graphs_give_their_memory_back(cuda):
    guard(cuda)
    x = torch.ones(1 << 20, requires_grad=True)
    (x.sin().exp() * x).sum().backward()
    gc.collect()
    before = torch.cuda.memory_allocated()
    for _ in range(5):
        x.grad = None
        (x.sin().exp() * x).sum().backward()
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() - before < 1 << 22
