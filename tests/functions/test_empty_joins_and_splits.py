"""Joining and splitting nothing, on the CPU and without data, against torch."""

from __future__ import annotations

from tests.programs import Programs

program = Programs()
test_same_as_torch = program.test()


def shapes(found):
    return [list(t.shape) for t in found]


@program
def empty_vectors_are_joined_along_any_dimension(m):
    out = []
    for device in ("cpu", "meta"):
        for dim in (0, 1, -2, 5):
            x, y = (m.zeros(0, device=device, requires_grad=True) for _ in range(2))
            z = m.cat([x, y], dim)
            z.sum().backward()
            out.append([list(z.shape), z.grad_fn.name(), list(x.grad.shape), list(y.grad.shape)])
    return out, m.cat([m.zeros(0), m.zeros(0, dtype=m.int64)], 3).dtype


@program
def chunks_of_nothing_are_as_many_as_were_asked_for(m):
    x, y = m.zeros(0, 3), m.zeros(2, 0)
    return [
        [shapes(chunk(t.to(device), 3, dim)) for device in ("cpu", "meta")]
        for chunk in (m.chunk, m.unsafe_chunk)
        for t, dim in ((x, 0), (y, 1), (x, 1))
    ]
