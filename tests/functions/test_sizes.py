"""Sizes given one by one, as a sequence, or not at all."""

from tests.programs import Programs, complaint

program = Programs()
test_same_as_torch = program.test()

NAMES = ("permute", "reshape", "expand", "repeat", "tile", "flip", "broadcast_to", "sum_to_size")


@program
def methods_without_sizes(m):
    return [complaint(getattr(x, name)) for name in NAMES for x in (m.tensor(2.0), m.ones(2, 3))]


@program
def functions_without_sizes(m):
    x = m.tensor(2.0)
    return [complaint(lambda n=n: getattr(m, n)(x)) for n in ("permute", "reshape", "tile", "flip")]


@program
def empty_sizes(m):
    x = m.tensor(2.0)
    methods = [getattr(x, name)(()) for name in NAMES]
    return [*methods, x.permute(dims=()), x.reshape(shape=()), x.expand(size=()), x.flip(dims=())]


@program
def a_jacobian_of_one_number(m):
    f = m.autograd.functional
    return f.jacobian(lambda x: x * 3, m.tensor(2.0), strategy="forward-mode", vectorize=True)
