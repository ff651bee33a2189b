"""Tensors of one example that outlive the `vmap` they were computed in."""

from typing import Any

from tests.programs import Programs, complaint

program = Programs()
test_same_as_torch = program.test()


@program
def used_later(m: Any) -> Any:
    kept: list[Any] = []
    m.func.vmap(lambda x: kept.append(x * 2) or x)(m.ones(2, 2))
    (t,) = kept
    return [
        t.shape,
        complaint(lambda: t + 1),
        complaint(lambda: m.ones(2) + t),
        complaint(lambda: t * t),
        complaint(lambda: m.ones(2, 2) @ t),
    ]
