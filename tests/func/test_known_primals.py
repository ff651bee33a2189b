"""Forward mode in a batch of tangents: the primals are the same for all of them, and Python may read their values."""

from collections.abc import Callable
from typing import Any

from tests.programs import Programs, complaint

program = Programs()
test_same_as_torch = program.test()


def _written_where_positive(x: Any) -> Any:
    y = x.clone()
    y[y > 0] = 1.0
    return y * x


def _until_small(x: Any) -> Any:
    y = x
    while y.abs().max() > 0.5:
        y = y * 0.5
    return y


FUNCTIONS: tuple[Callable[[Any], Any], ...] = (
    lambda x: x[x > 0] ** 2,
    lambda x: x**2 if x.sum() > 0 else x,
    lambda x: x * x.max().item(),
    lambda x: x[int(x.argmax())] ** 2,
    lambda x: x.abs().unique() * 1.0,
    lambda x: x.masked_select(x < 2).exp(),
    _written_where_positive,
    _until_small,
)


def _x(m: Any) -> Any:
    return m.tensor([1.0, -2.0, 3.0])


@program
def jacobians(m: Any) -> Any:
    return [m.func.jacfwd(f)(_x(m)) for f in FUNCTIONS[:4] + FUNCTIONS[5:6] + FUNCTIONS[6:]]


@program
def hessians(m: Any) -> Any:
    fs = FUNCTIONS[:4] + FUNCTIONS[6:]
    return [m.func.hessian(lambda x, f=f: f(x).sum())(_x(m)) for f in fs]


@program
def jacobians_of_jacobians(m: Any) -> Any:
    fs = FUNCTIONS[:4] + FUNCTIONS[6:]
    return [m.func.jacfwd(m.func.jacfwd(f))(_x(m)) + 0.0 for f in fs]


@program
def many_directions(m: Any) -> Any:
    fs = FUNCTIONS[:4] + FUNCTIONS[6:]
    return [m.func.vmap(lambda t, f=f: m.func.jvp(f, (_x(m),), (t,)))(m.eye(3)) for f in fs]


@program
def functional(m: Any) -> Any:
    def of(f: Any) -> Any:
        return m.autograd.functional.jacobian(f, _x(m), strategy="forward-mode", vectorize=True).detach()

    return [of(f) for f in FUNCTIONS[:4]]


@program
def places_of_nonzero(m: Any) -> Any:
    return m.func.jacfwd(lambda x: m.nonzero(x > 0).sum() * x)(_x(m))


@program
def captured_values(m: Any) -> Any:
    a = m.tensor([2.0, 3.0])
    return m.func.vmap(lambda x: m.func.jacfwd(lambda a: a * a if a.sum() > 4 else a)(a) * x)(m.ones(3, 1))


@program
def what_differs_is_not_known(m: Any) -> Any:
    def truth(x: Any) -> Any:
        return complaint(lambda: bool(x.sum() > 0))

    told = []
    m.func.vmap(lambda x: (told.append(truth(x)), x)[1])(m.ones(2, 2))
    m.func.vmap(lambda t: (told.append(truth(m.func.jvp(m.sin, (_x(m),), (t,))[1])), t)[1])(m.eye(3))
    return told
