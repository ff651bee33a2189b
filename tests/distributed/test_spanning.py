"""FSDP, tensor parallelism, DTensors and their checkpoints over two processes, as torch's with gloo."""

import pytest

from torchgrad_jax import nn
from torchgrad_jax.distributed import _groups
from torchgrad_jax.distributed.fsdp import fully_shard

from . import spanning
from .processes import Together

together = Together(2)
test_same_as_torch = together.test()


@together
def fully_sharded(m, d):
    return spanning.fully_sharded(m, d)


@together
def tensor_parallel(m, d):
    return spanning.tensor_parallel(m, d)


@together
def tensors_over_a_mesh(m, d):
    return spanning.tensors_over_a_mesh(m, d)


@together
def values_of_one_process(m, d):
    return spanning.values_of_one_process(m, d)


@together
def parts_of_the_processes(m, d):
    return spanning.parts_of_the_processes(m, d)


@together
def gradients_of_parts(m, d):
    return spanning.gradients_of_parts(m, d)


@together
def writes_to_parts(m, d):
    return spanning.writes_to_parts(m, d)


@together
def meshes_of_groups(m, d):
    return spanning.meshes_of_groups(m, d)


@together
def forwards_of_each_process(m, d):
    return spanning.forwards_of_each_process(m, d)


@together
def parameters_that_are_not_split(m, d):
    return spanning.parameters_that_are_not_split(m, d)


@together
def parameters_that_differ(m, d):
    return spanning.parameters_that_differ(m, d)


@together
def unequal_parts(m, d):
    return spanning.unequal_parts(m, d)


@together
def parameters_in_unequal_parts(m, d):
    return spanning.parameters_in_unequal_parts(m, d)


@together
def summands(m, d):
    return spanning.summands(m, d)


@together
def layers_that_give_summands(m, d):
    return spanning.layers_that_give_summands(m, d)


@together
def operators_that_give_summands(m, d):
    return spanning.operators_that_give_summands(m, d)


@together
def meshes_that_differ(m, d):
    return spanning.meshes_that_differ(m, d)


def test_a_module_is_not_sharded_in_each_process_alone(monkeypatch):
    class Two:
        def size(self):
            return 2

    two = Two()
    monkeypatch.setattr(_groups.group, "WORLD", two)
    monkeypatch.setattr(_groups, "_groups", [two])
    with pytest.raises(RuntimeError, match=r"after torch.distributed.init_process_group\('xla'\)"):
        fully_shard(nn.Linear(2, 2))
