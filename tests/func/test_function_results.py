"""Custom Functions that return, view or write to their input, under every transform: values, errors, versions."""

from __future__ import annotations

from typing import Any

import pytest

FORWARDS = {
    "as it is": lambda x: x,
    "written": lambda x: x.mul_(2),
    "same shape": lambda x: x.view_as(x),
    "flat": lambda x: x.view(-1),
    "beside a new one": lambda x: (x, x * 2),
    "detached": lambda x: x.detach(),
}
TRANSFORMS = {
    "none": lambda u, f, x: f(x.requires_grad_()),
    "grad": lambda u, f, x: u.grad(lambda x: f(x).sum())(x),
    "jvp": lambda u, f, x: u.jvp(f, (x,), (x.clone(),)),
    "jacrev": lambda u, f, x: u.jacrev(f)(x),
    "jacfwd": lambda u, f, x: u.jacfwd(f)(x),
    "hessian": lambda u, f, x: u.hessian(lambda x: f(x).sum())(x),
    "vmap": lambda u, f, x: u.vmap(f)(x),
    "vmap along 1": lambda u, f, x: u.vmap(f, 1)(x),
    "vmap of a leaf": lambda u, f, x: u.vmap(f)(x.requires_grad_()),
    "vmap twice": lambda u, f, x: u.vmap(u.vmap(f), 1)(x),
    "vmap of grad": lambda u, f, x: u.vmap(u.grad(lambda x: f(x).sum()))(x),
    "vmap of jvp": lambda u, f, x: u.vmap(lambda x: u.jvp(f, (x,), (x.clone(),)))(x),
    "vmap of jacrev": lambda u, f, x: u.vmap(u.jacrev(f))(x),
    "grad of vmap": lambda u, f, x: u.grad(lambda x: u.vmap(f)(x).sum())(x),
    "jvp of vmap": lambda u, f, x: u.jvp(u.vmap(f), (x,), (x.clone(),)),
    "grad of grad": lambda u, f, x: u.grad(lambda x: u.grad(lambda x: f(x).sum())(x).sum())(x),
    "jvp of grad": lambda u, f, x: u.jvp(u.grad(lambda x: f(x).sum()), (x,), (x.clone(),)),
    "jvp of jvp": lambda u, f, x: u.jvp(lambda x: u.jvp(f, (x,), (x.detach().clone(),))[1], (x,), (x.clone(),)),
}
OTHER_TEXTS = ("hessian", "jvp of vmap", "grad of grad", "jvp of grad", "jvp of jvp")
"""Where both refuse to write to the argument of a nested transform itself, or torch alone does."""


def _function(m: Any, kind: str, rule: str) -> Any:
    forward_of = FORWARDS[kind]

    class F(m.autograd.Function):
        generate_vmap_rule = rule == "generated"

        @staticmethod
        def forward(x):
            return forward_of(x)

        @staticmethod
        def setup_context(ctx, inputs, output):
            if kind == "written":
                ctx.mark_dirty(*inputs)
            ctx.shape = inputs[0].shape

        @staticmethod
        def backward(ctx, *g):
            return ((g[0] + g[1] * 2 if len(g) == 2 else g[0]) * (2 if kind == "written" else 1)).view(ctx.shape)

        @staticmethod
        def jvp(ctx, t):
            return forward_of(t)

        if rule == "own":

            @staticmethod
            def vmap(info, in_dims, x):
                if kind == "flat":
                    return x.movedim(in_dims[0], 0).reshape(info.batch_size, -1), 0
                dims = (in_dims[0], in_dims[0]) if kind == "beside a new one" else in_dims[0]
                return F.apply(x), dims

    return F


@pytest.mark.parametrize("raw", [False, True], ids=["of a copy", "of the example"])
@pytest.mark.parametrize("rule", ["own", "generated"])
@pytest.mark.parametrize("kind", FORWARDS)
def test_results_that_lie_in_an_input(kind: str, rule: str, raw: bool, same: Any) -> None:
    def run(m: Any) -> Any:
        function = _function(m, kind, rule)

        def f(x: Any) -> Any:
            found = function.apply(x if raw else x * 1)
            found = found[0] * found[1] if isinstance(found, tuple) else found
            return found * x.view(found.shape)

        def outcome(transform: Any) -> Any:
            x = m.arange(1.0, 7.0).view(2, 3)
            try:
                found = transform(m.func, f, x)
            except RuntimeError as error:
                return str(error).splitlines()[0]
            return found, x.detach().clone(), x._version

        skipped: tuple[str, ...] = ()
        if kind == "written":
            skipped = OTHER_TEXTS if raw else ()
            # torch generates one for primals that are the same for all columns.
            if rule == "generated":
                skipped += ("jacfwd", "hessian")
        return {name: outcome(t) for name, t in TRANSFORMS.items() if name not in skipped}

    same(run, f"{kind} {rule} {raw}")


def test_versions_of_what_was_written(same: Any) -> None:
    def run(m: Any) -> Any:
        function = _function(m, "written", "own")
        seen = []

        def f(x: Any) -> Any:
            y = x * 1
            found = function.apply(y)
            seen.append([y._version, found is y, found._is_view()])
            return (found * x).sum()

        x = m.arange(1.0, 7.0).view(2, 3)
        m.func.grad(f)(x)
        m.func.vmap(m.func.grad(f))(x)
        m.func.jvp(f, (x,), (x,))
        return seen

    same(run)


@pytest.mark.parametrize("rule", ["own", "of operators", "generated"])
def test_whose_tangents(rule: str, same: Any) -> None:
    """Forward mode inside of `vmap` is the Function's jvp for an example; around it, what the rule computes."""

    def run(m: Any) -> Any:
        class F(m.autograd.Function):
            generate_vmap_rule = rule == "generated"

            @staticmethod
            def forward(x):
                return x * 2

            @staticmethod
            def setup_context(ctx, inputs, output):
                ctx.save_for_forward(*inputs)

            @staticmethod
            def backward(ctx, g):
                return g * 10

            @staticmethod
            def jvp(ctx, t):
                return t * 100 * (1 + t.dim()) + ctx.saved_tensors[0] * 0

            if rule != "generated":

                @staticmethod
                def vmap(info, in_dims, x):
                    return F.apply(x) if rule == "own" else x * 2, in_dims[0]

        u, x = m.func, m.arange(1.0, 7.0).view(2, 3)
        return {
            "vmap of jvp": u.vmap(lambda x: u.jvp(F.apply, (x,), (x * 1,)))(x),
            "along 1": u.vmap(lambda x: u.jvp(F.apply, (x,), (x * 1,)), 1, 1)(x),
            "same tangent": u.vmap(lambda x: u.jvp(F.apply, (x,), (m.ones(3),)))(x),
            "same primal": u.vmap(lambda x: u.jvp(F.apply, (m.ones(3),), (x,)))(x),
            "jvp of vmap": u.jvp(u.vmap(F.apply), (x,), (x * 1,)),
            "both": u.vmap(lambda x: u.jvp(u.vmap(F.apply), (x,), (x * 1,)))(x),
            "vmap twice": u.vmap(u.vmap(lambda x: u.jvp(F.apply, (x,), (x * 1,))))(x),
            "jacfwd": u.jacfwd(F.apply)(x),
            "vmap of jacfwd": u.vmap(u.jacfwd(F.apply))(x),
            "reverse over forward": u.jacrev(u.jacfwd(lambda x: F.apply(x * x).sum()))(x),
            "forward over reverse": u.hessian(lambda x: F.apply(x * x).sum())(x),
            "gradient outside": u.grad(lambda x: u.jvp(u.vmap(F.apply), (x * x,), (x,))[1].sum())(x),
        }

    same(run, rule)
