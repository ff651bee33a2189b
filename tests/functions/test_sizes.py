"""Sizes given one by one, as a sequence, or not at all."""

from tests.programs import Programs, first_line

program = Programs()
test_same_as_torch = program.test()

NAMES = ("permute", "reshape", "expand", "repeat", "tile", "flip", "broadcast_to", "sum_to_size")


@program
def methods_without_sizes(m):
    return [first_line(getattr(x, name)) for name in NAMES for x in (m.tensor(2.0), m.ones(2, 3))]


@program
def functions_without_sizes(m):
    x = m.tensor(2.0)
    return [first_line(lambda n=n: getattr(m, n)(x)) for n in ("permute", "reshape", "tile", "flip")]


@program
def empty_sizes(m):
    x = m.tensor(2.0)
    methods = [getattr(x, name)(()) for name in NAMES]
    return [*methods, x.permute(dims=()), x.reshape(shape=()), x.expand(size=()), x.flip(dims=())]


@program
def a_jacobian_of_one_number(m):
    f = m.autograd.functional
    return f.jacobian(lambda x: x * 3, m.tensor(2.0), strategy="forward-mode", vectorize=True)


@program
def sizes_that_are_numbers(m):
    """Functions take a sequence where methods take several numbers; by name both do."""
    x, v = m.arange(12.0).reshape(3, 4), m.arange(3.0)
    calls = [
        lambda: m.reshape(x, -1),
        lambda: x.reshape(shape=12),
        lambda: m.tile(x, 2),
        lambda: x.tile(dims=2),
        lambda: m.broadcast_to(v, 3),
        lambda: v.expand(size=3),
        lambda: m.unflatten(x, 0, 3),
        lambda: m.reshape(x, 3, 4),
        lambda: m.as_strided(x, 3, 1),
        lambda: x.as_strided(3, 1),
        lambda: x.as_strided((3,), 1),
        lambda: x.view(size=12),
        lambda: m.constant_pad_nd(v, 1),
        lambda: m.expand_copy(v, 3),
        lambda: m.view_copy(x, 12),
        lambda: m.flip(v, 0),
        lambda: m.permute(v, 0),
        lambda: m.broadcast_shapes((3,), 2.0),
    ]
    good = [
        x.reshape(-1),
        x.tile(2),
        v.broadcast_to(3),
        v.expand(3),
        x.view(12),
        m.reshape(x, m.Size([12])),
        m.tile(x, [2]),
        m.reshape(x, shape=(4, 3)),
        m.unflatten(x, 0, [3, 1]),
    ]
    return [first_line(c) for c in calls], good
