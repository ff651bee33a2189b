"""Work is done in the order of the program, whichever thread and stream it comes from."""

import threading

import jax
import numpy as np
import pytest

import torchgrad_jax as torch


def test_writes_and_reads_keep_their_order(dev):
    """Every value is read as it was when it was asked for, though none of the work may be done yet."""
    x, seen = torch.zeros(256, 256, device=dev), []
    for i in range(20):
        x += 1
        seen.append(x.sum())
        x.mul_(2 if i % 3 == 0 else 1)
        seen.append(x[0, :2].clone())
        x[0, 0] = 0.0
    twin, want = np.zeros((256, 256)), []
    for i in range(20):
        twin += 1
        want.append(twin.sum())
        twin *= 2 if i % 3 == 0 else 1
        want.append(twin[0, :2].copy())
        twin[0, 0] = 0
    for a, b in zip(seen, want):
        np.testing.assert_allclose(a.cpu().numpy(), b, rtol=1e-5)


def test_memory_that_the_host_overwrites_after_sending_it(dev):
    host = torch.zeros(1 << 16, device="cpu")
    sent = []
    for i in range(8):
        host.fill_(i)
        sent.append(host.to(dev, non_blocking=True) * 1)
    assert [x.sum().item() / (1 << 16) for x in sent] == list(range(8))


def test_steps_that_overwrite_their_state_among_reads(dev):
    w = torch.ones(512, device=dev)

    @torch.compile
    def step():
        w.mul_(1.5)
        return w.sum()

    seen = []
    for _ in range(6):
        before = w.clone()
        seen.append((step(), before.max()))
    for i, (total, top) in enumerate(seen):
        assert total.item() == pytest.approx(512 * 1.5 ** (i + 1))
        assert top.item() == pytest.approx(1.5**i)


def test_threads_have_their_own_work(dev):
    found = {}

    def work(k):
        x = torch.full((64, 64), float(k), device=dev, requires_grad=True)
        for _ in range(5):
            y = (x @ x).sum()
            (g,) = torch.autograd.grad(y, x)
        found[k] = g[0, 0].item()

    threads = [threading.Thread(target=work, args=(k,)) for k in range(1, 5)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == {k: 128.0 * k for k in range(1, 5)}


def test_work_of_jax_beside(dev):
    """The arrays of a step of JAX's that are overwritten are not those of tensors."""
    x = torch.ones(1000, device=dev)
    double = jax.jit(lambda a: a * 2, donate_argnums=0)
    copied = double(jax.numpy.array(x.__jax_array__()))
    x += 1
    assert (copied.sum().item(), x.sum().item()) == (2000.0, 2000.0)


def test_streams_are_names_for_one_order(cuda):
    first, second = torch.cuda.Stream(), torch.cuda.Stream(device=cuda, priority=-1)
    assert first != second
    x = torch.ones(100, device=cuda)
    with torch.cuda.stream(first):
        assert torch.cuda.current_stream() == first
        y = x * 2
        done = first.record_event()
    with torch.cuda.stream(second):
        second.wait_event(done)
        second.wait_stream(first)
        z = y + 1
        z.record_stream(second)
    assert torch.cuda.current_stream() == torch.cuda.default_stream()
    torch.cuda.current_stream().wait_stream(second)
    done.synchronize()
    assert (z.sum().item(), done.query(), first.query()) == (300.0, True, True)


def test_events_take_the_time(cuda):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    with pytest.raises(ValueError, match="must be recorded"):
        begin.elapsed_time(end)
    x = torch.ones(512, 512, device=cuda)
    begin.record()
    for _ in range(3):
        x = x @ x / 512
    end.record()
    torch.cuda.synchronize()
    assert begin.elapsed_time(end) > 0 > end.elapsed_time(begin)
    with pytest.raises(ValueError, match="enable_timing"):
        begin.elapsed_time(torch.cuda.Event())


def test_what_there_is_none_of(cuda):
    for make in (
        torch.cuda.CUDAGraph,
        lambda: torch.cuda.Event(interprocess=True),
        lambda: torch.cuda.ExternalStream(0),
        lambda: torch.cuda.graph(None),  # type: ignore[arg-type]
    ):
        with pytest.raises(NotImplementedError):
            make()
