"""What transforms say of functions that return no tensors, or not only tensors."""

from __future__ import annotations

from typing import Any

import pytest

RESULTS = {
    "nothing": lambda x: None,
    "number": lambda x: 3,
    "text": lambda x: "s",
    "empty tuple": lambda x: (),
    "empty list": lambda x: [],
    "empty dict": lambda x: {},
    "empty inside": lambda x: ([], {}),
    "number inside": lambda x: [x * 1, 3],
    "nothing inside": lambda x: (x * 1, None),
    "deep inside": lambda x: (x * 1, [x * 1, {"k": 4.0}]),
    "nothing twice": lambda x: (None, None),
    "number beside a scalar": lambda x: (x.sum(), 3),
    "vector": lambda x: x * 1,
    "one of one": lambda x: (x.sum(),),
    "integers": lambda x: x.long(),
}
TRANSFORMS = {
    "vmap": lambda F, f, x: F.vmap(f)(x),
    "grad": lambda F, f, x: F.grad(f)(x),
    "grad aux": lambda F, f, x: F.grad(f, has_aux=True)(x),
    "grad_and_value": lambda F, f, x: F.grad_and_value(f)(x),
    "grad_and_value aux": lambda F, f, x: F.grad_and_value(f, has_aux=True)(x),
    "vjp": lambda F, f, x: F.vjp(f, x)[0],
    "vjp aux": lambda F, f, x: F.vjp(f, x, has_aux=True)[2],
    "jvp": lambda F, f, x: F.jvp(f, (x,), (x,)),
    "jvp aux": lambda F, f, x: F.jvp(f, (x,), (x,), has_aux=True),
    "jvp strict": lambda F, f, x: F.jvp(f, (x,), (x,), strict=True),
    "jvp of jvp": lambda F, f, x: F.jvp(lambda x: F.jvp(f, (x,), (x,)), (x,), (x,)),
    "jacrev": lambda F, f, x: F.jacrev(f)(x),
    "jacrev in chunks": lambda F, f, x: F.jacrev(f, chunk_size=2)(x),
    "jacrev aux": lambda F, f, x: F.jacrev(f, has_aux=True)(x),
    "jacfwd": lambda F, f, x: F.jacfwd(f)(x),
    "jacfwd aux": lambda F, f, x: F.jacfwd(f, has_aux=True)(x),
    "hessian": lambda F, f, x: F.hessian(f)(x),
    "vmap of vjp": lambda F, f, x: F.vmap(lambda x: F.vjp(f, x)[0])(x),
    "vmap of jvp": lambda F, f, x: F.vmap(lambda x: F.jvp(f, (x,), (x,)))(x),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_same_errors(transform: str, same: Any) -> None:
    def run(m: Any) -> Any:
        def outcome(f: Any) -> Any:
            try:
                return TRANSFORMS[transform](m.func, f, m.tensor([1.0, 2.0, 3.0]))
            except (RuntimeError, ValueError, TypeError) as error:
                return type(error).__name__, str(error).splitlines()[0]

        return {name: outcome(f) for name, f in RESULTS.items()}

    same(run, transform)
