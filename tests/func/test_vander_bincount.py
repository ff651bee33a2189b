"""`vander` and `bincount` of each example of a batch."""

import warnings
from typing import Any

from tests.programs import Programs

program = Programs()
test_same_as_torch = program.test()


@program
def powers(m: Any) -> Any:
    batch, vander = m.arange(8.0).reshape(2, 4) / 8, m.vander
    with warnings.catch_warnings():  # torch runs one example after the other, and says so
        warnings.simplefilter("ignore")
        return [
            m.func.vmap(vander)(batch),
            m.func.vmap(lambda x: vander(x, 3, True))(batch),
            m.func.vmap(lambda x: vander(x, 1))(batch),
            m.func.vmap(vander)(m.arange(8).reshape(2, 4)),
            m.func.jacfwd(vander)(batch[0]),
            m.func.vmap(lambda y: vander(batch[0]) + y)(m.ones(2)),
        ]


@program
def counts(m: Any) -> Any:
    batch, count = m.tensor([[0, 1, 1], [2, 3, 3]]), m.bincount
    out = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for f in (
            lambda i: count(i, minlength=4),
            lambda i: count(i, i * 0.5, minlength=4),
            lambda i: count(i + 1, minlength=6),
            lambda i: count(i, minlength=2),
            lambda i: count(i),
        ):
            try:
                out.append(m.func.vmap(f)(batch))
            except RuntimeError as e:
                out.append(str(e))
        out.append(m.func.vmap(count)(batch[:1]))
    return [*out, count(m.zeros(0, dtype=m.int64)), count(batch[1])]
