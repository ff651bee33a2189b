"""Custom Functions with arguments that can only be given by name, under transforms."""

from __future__ import annotations

from typing import Any

import pytest

TRANSFORMS = {
    "none": lambda u, f, x: f(x),
    "vmap": lambda u, f, x: u.vmap(f)(x),
    "vmap twice": lambda u, f, x: u.vmap(u.vmap(f))(x),
    "grad": lambda u, f, x: u.grad(lambda x: f(x).sum())(x),
    "jvp": lambda u, f, x: u.jvp(f, (x,), (x,)),
}


@pytest.mark.parametrize("setup", [True, False])
def test_same_errors(setup: bool, same: Any) -> None:
    def run(m: Any) -> Any:
        class F(m.autograd.Function):
            generate_vmap_rule = True

            if setup:

                @staticmethod
                def forward(x, *, w=None):  # type: ignore[reportRedeclaration]
                    return x * w

                @staticmethod
                def setup_context(ctx, inputs, output):
                    pass

            else:

                @staticmethod
                def forward(ctx, x, *, w=None):
                    return x * w

        def outcome(transform: Any) -> Any:
            try:
                return transform(m.func, lambda x: F.apply(x, w=m.ones(())), m.ones(2, 3))
            except TypeError:  # its text names functions of torch's own
                return "TypeError"
            except (NotImplementedError, RuntimeError) as error:
                return type(error).__name__, str(error).splitlines()[0]

        return {name: outcome(t) for name, t in TRANSFORMS.items()}

    same(run, f"setup {setup}")
