"""Checkpoints that keep some results, compared with torch."""

import functools

import pytest

from tests.programs import Programs
from tests.utils.checkpointed import error, leaf, module, tg

program = Programs()
test_same_as_torch = program.test()


@program
def selective_values(m):
    c = module(m)
    x = m.arange(4.0).reshape(2, 2).requires_grad_()
    save = [m.ops.aten.mm.default, m.ops.aten.sin.default]
    y = c.checkpoint(
        lambda a: ((a @ a).sin() @ a).exp(),
        x,
        use_reentrant=False,
        context_fn=functools.partial(c.create_selective_checkpoint_contexts, save),
    )
    y.sum().backward()
    return y, x


@program
def selective_policy(m):
    c = module(m)
    asked = []

    def policy(ctx, op, *args, **kwargs):
        asked.append((str(op), tuple(ctx.op_output.shape), ctx.is_recompute, len(args)))
        return op == m.ops.aten.mm.default

    x = m.ones(2, 2, requires_grad=True)
    y = c.checkpoint(
        lambda a: (a @ a).sin() * 2,
        x,
        use_reentrant=False,
        context_fn=lambda: c.create_selective_checkpoint_contexts(policy),
    )
    y.sum().backward()
    return x, asked


@program
def selective_once(m):
    c = module(m)
    x = leaf(m, 0.5)
    y = c.checkpoint(
        lambda a: a.sin().exp(),
        x,
        use_reentrant=False,
        context_fn=lambda: c.create_selective_checkpoint_contexts([m.ops.aten.sin.default]),
    )
    y.sum().backward(retain_graph=True)
    return x, error(y.sum().backward)


@program
def selective_mismatch(m):
    c = module(m)
    x, calls = leaf(m, 0.5), []

    def f(a):
        calls.append(1)
        return (a.sin() if len(calls) == 1 else a.cos()).exp()

    y = c.checkpoint(
        f, x, use_reentrant=False, context_fn=lambda: c.create_selective_checkpoint_contexts([m.ops.aten.sin.default])
    )
    return error(y.sum().backward)


@program
def selective_mutated(m):
    c = module(m)
    outs = []
    for allowed in (False, True):
        kept = []

        def f(a, kept=kept):
            b = a * 2
            kept.append(b)
            return b.sin().sin()

        x = leaf(m, 0.5)
        y = c.checkpoint(
            f,
            x,
            use_reentrant=False,
            context_fn=lambda allowed=allowed: c.create_selective_checkpoint_contexts(
                [m.ops.aten.mul.Tensor], allow_cache_entry_mutation=allowed
            ),
        )
        with m.no_grad():
            kept[0].mul_(1)
        outs.append((error(y.sum().backward), x))
    return outs


@program
def selective_arguments(m):
    c = module(m)
    names = [p.name for p in c.CheckpointPolicy], [p.value for p in c.CheckpointPolicy]
    packet = error(lambda: c.create_selective_checkpoint_contexts([m.ops.aten.mm]))
    return names, packet[0], "change it to" in packet[1], error(lambda: c.create_selective_checkpoint_contexts(3))


@program
def operators_as_objects(m):
    mm = m.ops.aten.mm
    return (
        str(mm),
        str(mm.default),
        mm.default is mm.default,
        mm.default.name(),
        mm.default(m.ones(1, 2), m.ones(2, 1)),
        str(m.ops.aten.add.Tensor),
        m.ops.aten.add.Tensor.name(),
        mm.default.overloadpacket is mm,
    )


@pytest.mark.parametrize("path", ["no_such_operator", "mm.no_such_overload"])
def test_unknown_operators_say_so(path):
    with pytest.raises(AttributeError, match="no_such"):
        functools.reduce(getattr, path.split("."), tg.ops.aten)
