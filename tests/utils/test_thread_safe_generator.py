"""random.thread_safe_generator: the worker's own generator where the worker is a thread, None everywhere else."""

import threading

import pytest

import torchgrad_jax as torch
from torchgrad_jax.random import thread_safe_generator
from torchgrad_jax.utils.data import DataLoader, Dataset


class Draws(Dataset):
    def __init__(self, *held):
        self.held = held

    def __len__(self):
        return 4

    def __getitem__(self, i):
        generator = thread_safe_generator()
        draw = torch.rand(2, generator=generator)
        return torch.tensor(float(generator is not None)), draw


def loaded(*held, workers):
    torch.manual_seed(3)
    own, draws = zip(*DataLoader(Draws(*held), batch_size=None, num_workers=workers))
    return [bool(x) for x in own], torch.stack(draws)


def test_threads_of_a_loader_have_one_each():
    with pytest.warns(UserWarning, match="are threads"):
        own, draws = loaded(threading.Lock(), workers=2)  # a lock cannot be sent to a process
    assert own == [True] * 4
    assert draws.unique().numel() == 8
    assert torch.equal(loaded(threading.Lock(), workers=2)[1], draws)


def test_the_program_and_processes_have_none():
    assert thread_safe_generator() is None
    assert loaded(workers=0)[0] == [False] * 4
    assert loaded(workers=2)[0] == [False] * 4
    assert torch.thread_safe_generator is thread_safe_generator
