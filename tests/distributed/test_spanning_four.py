"""FSDP with tensor parallelism, and groups of a mesh, over four processes, as torch's with gloo."""

from . import spanning
from .processes import Together

together = Together(4, TORCHGRAD_JAX_DISTRIBUTED="1")
test_same_as_torch = together.test()


@together
def both(m, d):
    return spanning.both(m, d)


@together
def groups_of_a_mesh(m, d):
    return spanning.groups_of_a_mesh(m, d)


@together
def checkpoint_of_sizes_that_do_not_divide(m, d):
    return spanning.checkpoint_of_sizes_that_do_not_divide(m, d)
