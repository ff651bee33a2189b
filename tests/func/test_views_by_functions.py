"""Custom Functions that return an argument or a view of it: what may be saved, and whose memory it shares in `vmap`."""

from __future__ import annotations

import itertools

from tests.programs import Programs, complaint

program = Programs()
test_same_as_torch = program.test()


KEPT = {
    "input": lambda i, o: i,
    "output": lambda i, o: o if isinstance(o, tuple) else (o,),
    "other": lambda i, o: i[1:],
}
RETURNED = {"beside": lambda x, y: (x * y, x), "alone": lambda x, y: x, "a view": lambda x, y: (x * y, x.view_as(x))}
RUNS = {
    "plain": lambda m, f, x: f(x, x + 1),
    "recorded": lambda m, f, x: f(x.requires_grad_(), x + 1),
    "vmap": lambda m, f, x: m.vmap(f)(x, x + 1),
    "jvp": lambda m, f, x: m.func.jvp(f, (x, x + 1), (x, x)),
}


@program
def what_is_input_and_output_is_not_saved(m):
    """Of a Function with `setup_context`."""
    found = {}
    for (kept, which), (how, making) in itertools.product(KEPT.items(), RETURNED.items()):
        for save in ("save_for_backward", "save_for_forward"):

            class F(m.autograd.Function):
                generate_vmap_rule = True
                picked, made, saving = staticmethod(which), staticmethod(making), save

                @staticmethod
                def forward(x, y):
                    return F.made(x, y)

                @staticmethod
                def setup_context(ctx, inputs, output):
                    getattr(ctx, F.saving)(*F.picked(inputs, output))

                @staticmethod
                def jvp(ctx, t, u):
                    return (t, t.view_as(t)) if F.saving and isinstance(F.made(t, u), tuple) else t

                @staticmethod
                def backward(ctx, *grads):
                    return grads[0], grads[0]

            for name, run in RUNS.items():
                key = f"{kept} {how} {save} {name}"
                found[key] = complaint(lambda run=run, F=F: run(m, F.apply, m.ones(2, 3)))[1][:60]
    return found


@program
def views_by_functions_inside_of_vmap_share_memory(m):
    """A write to what the Function returned is one to its argument."""

    def function(forward, own):
        class F(m.autograd.Function):
            generate_vmap_rule = not own

            @staticmethod
            def forward(x):
                return forward(x)

            @staticmethod
            def setup_context(ctx, inputs, output):
                pass

            @staticmethod
            def backward(ctx, g):
                return g

        if own:
            F.vmap = staticmethod(lambda info, dims, x: (forward(x), dims[0]))
        return F.apply

    def write(f, at):
        def one(row):
            part = f(row)
            part.add_(10)
            return row

        x = m.arange(12.0).reshape(3, 4)
        changed = m.vmap(one, in_dims=at)(x)
        y = m.arange(12.0).reshape(3, 4)
        result = m.vmap(f, in_dims=at)(y)
        result.mul_(2)
        return changed, x, result, y

    views = {"itself": lambda x: x, "view": lambda x: x.view_as(x)}
    found = {
        f"{name} {own} {at}": write(function(view, own), at)
        for name, view in views.items()
        for own in (True, False)
        for at in (0, 1)
    }
    parts = {"part": lambda x: x[1:], "turned": lambda x: x.view(2, -1).t()}
    return found | {name: write(function(view, False), 0) for name, view in parts.items()}
