"""Objects that go from one process to another: what arrives, what is copied, and when memory is used again."""

from __future__ import annotations

import queue
import sys
import threading
from typing import Any

import numpy as np
import pytest

import torchgrad_jax as tg
from torchgrad_jax.multiprocessing import _carrying, _queue
from torchgrad_jax.multiprocessing._memory import _MOST, Pool
from torchgrad_jax.multiprocessing._queue import Event, Queue


def there_and_back(obj: Any) -> Any:
    return _carrying.loads(_carrying.dumps(obj))


@pytest.mark.parametrize(
    "dtype", ["bool", "uint8", "int8", "int64", "float16", "bfloat16", "float32", "float64", "complex64", "complex128"]
)
@pytest.mark.parametrize("n", [0, 3, 40_000])
def test_dtypes(dtype: str, n: int) -> None:
    x = (tg.arange(n) % 100).to(getattr(tg, dtype))
    y = there_and_back(x)
    assert y.dtype is x.dtype
    assert y.shape == x.shape
    assert y.equal(x)


def test_views_and_attributes() -> None:
    whole = tg.arange(24.0).reshape(2, 3, 4)
    parameter = tg.nn.Parameter(whole[0].clone())
    parameter.note = "kept"
    views = [whole, whole.transpose(0, 2), whole[1, ::2], whole.expand(2, 2, 3, 4), whole.view(tg.int32), parameter]
    found = there_and_back(views)
    for old, new in zip(views, found):
        assert (new.stride(), new.storage_offset(), type(new)) == (old.stride(), old.storage_offset(), type(old))
        assert new.requires_grad == old.requires_grad
        assert new.equal(old)
    assert found[5].note == "kept"
    found[0].zero_()
    assert not found[1].any()
    assert not found[4].any()
    assert found[5].any()
    conjugate = there_and_back(tg.tensor([1 + 2j]).conj())
    assert conjugate.is_conj()
    assert conjugate.tolist() == [1 - 2j]


def test_a_small_part_of_a_large_storage_travels_alone() -> None:
    whole = tg.arange(1_000_000.0).reshape(1000, 1000)
    pickled = _carrying.dumps([whole[5, ::2], whole[6, :3]])
    assert sum(len(x) for x in pickled.apart) < 10_000
    one, other = _carrying.loads(pickled)
    assert (one.stride(), one.shape, one[1].item(), other.tolist()) == ((2,), (500,), 5002.0, [6000.0, 6001.0, 6002.0])
    assert one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()


def test_through_a_queue() -> None:
    queue_, values = Queue(), [1, "two", tg.ones(50_000), np.arange(30_000), b"x" * 200_000, [tg.zeros(2)] * 500]
    for value in values:
        queue_.put(value)
    found = [queue_.get() for _ in values]
    assert found[:2] == values[:2]
    assert found[2].equal(values[2])
    assert (found[3] == values[3]).all()
    assert found[4] == values[4]
    assert len(found[5]) == 500
    found[3][0] = 7  # the receiver's own
    with pytest.raises(queue.Empty):
        queue_.get(timeout=0.01)
    assert queue_.empty()


@pytest.mark.skipif(sys.platform != "linux", reason="packets of other systems' sockets have no end")
def test_a_queue_that_nobody_writes_to_any_more_ends() -> None:
    queue_ = Queue()
    queue_.put(1)
    queue_.only_reads()
    assert queue_.get() == 1
    with pytest.raises(EOFError):
        queue_.get()


def test_many_small_arrays_in_one_message() -> None:
    queue_ = Queue()
    queue_.put([np.full(5000, i) for i in range(5000)])
    found = queue_.get()
    assert [int(x[-1]) for x in found] == list(range(5000))


def test_memory_is_used_again_when_nobody_holds_it() -> None:
    queue_ = Queue()
    for i in range(5):
        queue_.put(np.full(100_000, i))
        assert queue_.get()[-1] == i
    assert len(queue_.pool._segments) == 1
    queue_.put(np.full(100_000, 5))
    kept = queue_.get()
    view = kept[10:]
    del kept
    for i in range(3):
        queue_.put(np.full(100_000, i))
        queue_.get()
    assert (view == 5).all()
    assert len(queue_.pool._segments) == 2
    queue_.put(tg.full((100_000,), 6.0))
    tensor = queue_.get()[1:]
    for i in range(3):
        queue_.put(tg.full((100_000,), float(i)))
        queue_.get()
    assert (tensor == 6).all().item()


def test_a_program_that_keeps_everything_gets_copies_in_the_end() -> None:
    queue_, kept = Queue(), []
    for i in range(_MOST + 10):
        queue_.put(np.full(10_000, i))
        kept.append(queue_.get())
    assert len(queue_.pool._segments) == _MOST
    assert all((x == i).all() for i, x in enumerate(kept))


def test_a_place_that_is_given_up_is_used_again() -> None:
    pool = Pool()
    for _ in range(4):
        array = pool.empty((100, 100), np.dtype(np.float32))
        array[:] = 1
        del array
    assert len(pool._segments) == 1
    array = pool.empty((100, 100), np.dtype(np.float32))
    array[:] = 3
    packet = _queue.Packet(_carrying.dumps(array), pool)
    assert [s.is_idle() for s in packet.segments] == [False]
    assert packet.segments == pool._segments  # sent where it lies
    again = _queue.Packet(_carrying.dumps(array), pool)
    assert again.segments != packet.segments  # once: the receiver may give it back at any time


def test_what_nobody_writes_to_is_copied_once() -> None:
    queue_, same = Queue(), tg.ones(100_000) * 2
    kept = []
    for i in range(4):
        queue_.put([same, tg.full((100_000,), float(i))])
        kept.append(queue_.get())
    assert len(queue_.pool._segments) == 5
    kept[0][0].zero_()
    assert [x[0].sum().item() for x in kept] == [0, 200_000, 200_000, 200_000]
    assert [x[1][-1].item() for x in kept] == [0, 1, 2, 3]
    kept[1][0].numpy()[:] = 5
    assert kept[2][0][0].item() == 2
    del kept
    for i in range(20):
        other = tg.full((100_000,), float(i))
        queue_.put(other)
        assert queue_.get().sum().item() == i * 100_000
    assert len(queue_.pool._segments) <= 6


def test_a_full_queue_does_not_hold_up_the_sender() -> None:
    queue_ = Queue()
    for i in range(5000):
        queue_.put((i, "x" * 100))
    assert [queue_.get()[0] for i in range(5000)] == list(range(5000))


def test_events() -> None:
    event = Event()
    assert not event.wait(0.01)
    threading.Timer(0.01, event.set).start()
    assert event.wait(60)
    event.set()
    assert event.is_set()
    event.clear()
    assert not event.is_set()
