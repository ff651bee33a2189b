"""The largest batch with which a step fits into the memory of its target, found with few compilations."""

import dataclasses

import jax
import pytest

import torchgrad_jax as torch
from tests.targets.test_plans import SMALL
from torchgrad_jax._bridge.compile.plans.batches import batch_of, largest_batch, with_batch
from torchgrad_jax._bridge.compile.plans.plan import Plan

GB = 1 << 30


class Compiler:
    """Plans as a compiler gives them: what is there without samples, what each of them takes, and rounding."""

    def __init__(self, fixed: int, each: int, *, devices: int = 1, rounds_to: int = 1) -> None:
        self.fixed, self.each, self.devices, self.rounds_to = fixed, each, devices, rounds_to
        self.samples: list[int] = []

    def __call__(self, args: object) -> Plan:
        n = batch_of(args)
        self.samples.append(n)
        total = -(-(self.fixed + n * self.each) // self.rounds_to) * self.rounds_to
        return dataclasses.replace(SMALL, memory={"temporary": total}, memory_of_chip=16 * GB, devices=self.devices)


def found(samples: int, **of: int) -> tuple[int, Compiler]:
    compiler = Compiler(**of)
    return largest_batch(compiler, ((torch.empty(samples, 3), torch.empty(samples)), {})), compiler


def test_it_fits_and_one_more_does_not():
    n, compiler = found(64, fixed=4 * GB, each=3 << 20)
    assert n == 4096
    assert compiler.samples == [64, 128, 4096]


def test_it_may_be_smaller_than_the_batch_that_is_there():
    assert found(1024, fixed=4 * GB, each=24 << 20)[0] == 512


def test_no_sample_fits():
    assert found(8, fixed=17 * GB, each=1 << 20)[0] == 0


def test_a_compiler_that_rounds_up_is_asked_again():
    n, compiler = found(64, fixed=4 * GB + 5, each=(3 << 20) + 7, rounds_to=GB // 4)
    assert 4 * GB + 5 + n * ((3 << 20) + 7) <= 16 * GB
    assert n >= 0.8 * 4096
    assert len(compiler.samples) <= 6


def test_a_compiler_that_gives_up_where_memory_is_full():
    class GivesUp(Compiler):
        def __call__(self, args: object) -> Plan:
            plan = super().__call__(args)
            if not plan.fits:
                raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Ran out of memory on HBM")
            return plan

    compiler = GivesUp(4 * GB + 5, (3 << 20) + 7, rounds_to=GB // 4)
    assert 0.8 * 4096 <= largest_batch(compiler, ((torch.empty(64, 3),), {})) <= 4096
    with pytest.raises(jax.errors.JaxRuntimeError, match="Ran out of memory"):
        largest_batch(GivesUp(17 * GB, 1), ((torch.empty(64, 3),), {}))


def test_each_device_gets_the_same_part():
    assert found(64, fixed=4 * GB, each=5 << 20, devices=8)[0] % 8 == 0


def test_a_step_without_a_batch_and_one_that_does_not_grow():
    with pytest.raises(RuntimeError, match="no argument of the step is a tensor with a batch"):
        largest_batch(Compiler(1, 1), ((torch.empty(()), 3), {}))
    with pytest.raises(RuntimeError, match="no batch is the largest"):
        found(4, fixed=GB, each=0)


def test_which_arguments_have_the_batch():
    """The size that most of them begin with; what begins with another one, and what is no tensor, stays."""
    x, y, table = torch.empty(8, 3), torch.empty(8, dtype=torch.int64), torch.empty(100, 4)
    args = ((x, [y, table], "text"), {"z": torch.empty(8, 1, requires_grad=True)})
    assert batch_of(args) == 8
    (x2, (y2, table2), text), named = with_batch(args, 8, 20)
    assert (x2.shape, x2.dtype, y2.shape, y2.dtype) == ((20, 3), x.dtype, (20,), y.dtype)
    assert table2 is table
    assert text == "text"
    assert named["z"].requires_grad
    assert named["z"].shape == (20, 1)
