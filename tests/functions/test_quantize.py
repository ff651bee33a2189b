"""Numbers rounded to a grid, with gradients that go straight through; compared with torch."""

from functools import partial

from tests.programs import Programs, attempt

program = Programs()
test_same_as_torch = program.test()


def numbers(m, dtype=None):
    values = [1.6, -0.6, -0.5, -1.1, 0.9, -2.3, 1.7, -0.8, 0.3, -0.25, 1.5, -2.1]
    return m.tensor(values, dtype=dtype or m.float32).reshape(3, 4)


def passed(m, fn, x, *args):
    x = x.clone().requires_grad_()
    y = fn(x, *args)
    y.backward(m.arange(1.0, 13.0, dtype=y.dtype).reshape(x.shape))
    return y.detach(), y.stride(), x.grad, y.grad_fn.name(), y.grad_fn._saved_mask


@program
def per_tensor(m):
    fn, x = m.fake_quantize_per_tensor_affine, numbers(m)
    return (
        passed(m, fn, x, 0.3, 1, -2, 3),
        passed(m, fn, x.t(), 0.25, 0, -8, 7),
        passed(m, fn, x.double(), 0.3, 1, -2, 3),
        passed(m, fn, x.bfloat16(), 0.3, 1, -2, 3),
        passed(m, fn, x, m.tensor(0.3), m.tensor(1, dtype=m.int32), -2, 3),
        passed(m, fn, x, m.tensor([0.3]), m.tensor([1.7]), -2, 3),
        passed(m, fn, x, m.tensor(0.3), 1, -2, 3),
    )


@program
def per_channel(m):
    fn, x = m.fake_quantize_per_channel_affine, numbers(m)
    scale = m.tensor([0.1, 0.2, 0.3])
    whole, parts = m.tensor([0, 1, -1], dtype=m.int32), m.tensor([0.0, 1.0, -1.5])
    return (
        passed(m, fn, x, scale, whole, 0, -2, 3),
        passed(m, fn, x, scale, parts, 0, -2, 3),
        passed(m, fn, x.t(), scale, whole, 1, -2, 3),
        passed(m, fn, x.double(), scale, whole, 0, -2, 3),
        passed(m, fn, x.half(), scale, parts.half(), 0, -2, 3),
        fn(x, scale, parts + 9, 0, -2, 3),
    )


@program
def beyond_every_integer(m):
    x = m.tensor([float("nan"), float("inf"), -float("inf"), 1e30])
    scale, zero = m.full((4,), 0.1), m.zeros(4, dtype=m.int32)
    return (
        m.fake_quantize_per_tensor_affine(x, 0.3, 1, -2, 3),
        m.fake_quantize_per_channel_affine(x, scale, zero, 0, -2, 3),
    )


@program
def refusals(m):
    x, scale = numbers(m), m.tensor([0.1, 0.2, 0.3])
    zero = m.tensor([0, 1, 1], dtype=m.int32)
    one, two = m.fake_quantize_per_tensor_affine, m.fake_quantize_per_channel_affine
    return [
        attempt(partial(f, *given))
        for f, *given in (
            (one, x.long(), 0.3, 1, -2, 3),
            (one, x, 0.3, 9, -2, 3),
            (one, x, 0.3, 1, 3, -2),
            (one, x, m.tensor([0.3, 0.2]), m.tensor(1), -2, 3),
            (one, x, m.tensor(0.3, requires_grad=True), m.tensor(1), -2, 3),
            (two, x, scale, zero.long(), 0, -2, 3),
            (two, x, scale.double(), zero, 0, -2, 3),
            (two, x, scale[:2], zero[:2], 0, -2, 3),
            (two, x, scale[:2], zero, 0, -2, 3),
            (two, x, scale, zero, 5, -2, 3),
            (two, x, scale, zero, -2, -2, 3),
            (two, x, scale, zero, 0, 3, -2),
            (two, x, scale, zero + 8, 0, -2, 3),
            (two, x, scale[None], zero, 0, -2, 3),
            (two, x.int(), scale, zero, 0, -2, 3),
        )
    ]
