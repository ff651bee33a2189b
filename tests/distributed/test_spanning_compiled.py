"""FSDP over two processes whose blocks are compiled, a compiled step, and sizes that two do not divide."""

from . import spanning
from .processes import Together

together = Together(2)
test_same_as_torch = together.test()


@together
def compiled_blocks(m, d):
    return spanning.compiled_blocks(m, d)


@together
def sizes_that_do_not_divide(m, d):
    return spanning.sizes_that_do_not_divide(m, d)
