"""What the backward of a Function may return, compared with torch."""

from tests.autograd.functions import run_backward
from tests.autograd.programs import leaf
from tests.programs import Programs

program = Programs()
test_same_as_torch = program.test()


@program
def too_few_gradients(m):
    return run_backward(m, lambda ctx, g: g)


@program
def too_many_gradients(m):
    return run_backward(m, lambda ctx, g: (g, g, g))


@program
def extra_nones(m):
    return run_backward(m, lambda ctx, g: (g, g, None, None))


@program
def no_gradients(m):
    return run_backward(m, lambda ctx, g: ())


@program
def none_gradient(m):
    return run_backward(m, lambda ctx, g: None)


@program
def both_none(m):
    return run_backward(m, lambda ctx, g: (None, None))


@program
def gradient_not_a_tensor(m):
    return run_backward(m, lambda ctx, g: (g, 1.0))


@program
def gradient_list(m):
    return run_backward(m, lambda ctx, g: [g, g])


@program
def gradient_for_number(m):
    return run_backward(m, lambda ctx, g: (g, g), lambda ctx, x, k: x * k, (leaf(m, 1.0), 2.0))


@program
def gradient_for_tensor_without_grad(m):
    return run_backward(m, lambda ctx, g: (g, g), None, (leaf(m, 1.0), m.tensor([2.0])))


@program
def wrong_shape(m):
    return run_backward(m, lambda ctx, g: (g, m.ones(3)))


@program
def wrong_shape_expandable(m):
    return run_backward(m, lambda ctx, g: (g, m.ones(3, 2)))


@program
def too_small_shape(m):
    return run_backward(m, lambda ctx, g: (g, m.ones(1)))


@program
def scalar_gradient(m):
    return run_backward(m, lambda ctx, g: (g, m.tensor(1.0)))


@program
def wrong_dtype(m):
    return run_backward(m, lambda ctx, g: (g, m.ones(2, dtype=m.float64)))


@program
def integer_gradient(m):
    return run_backward(m, lambda ctx, g: (g, m.ones(2, dtype=m.int64)))


@program
def complex_gradient(m):
    return run_backward(m, lambda ctx, g: (g, m.ones(2, dtype=m.complex64)))
