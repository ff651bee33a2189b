"""Which gradients hooks see, how they lie, and what becomes of them after."""

from __future__ import annotations

from typing import Any

from tests.programs import Programs, complaint

program = Programs()
test_same_as_torch = program.test()


def _looks(g: Any) -> Any:
    return None if g is None else (g.detach().clone(), g.requires_grad)


@program
def gradients_of_what_was_joined(m):
    """A hook on a node that joins tensors sees all their gradients, wherever they lead."""
    found = []
    constant = m.ones(3)
    joins = (
        lambda x, w: m.cat([x, w]),
        lambda x, w: m.cat([x, constant, w]),
        lambda x, w: m.cat([constant, x]),
        lambda x, w: m.stack([x, constant, w]),
        lambda x, w: m.vstack([x, w]),
        lambda x, w: m.hstack([constant, x, w]),
        lambda x, w: x.split(1)[1],
        lambda x, w: x * w,
        lambda x, w: m.where(x > 0, x, w),
    )
    for join in joins:
        for mode in range(5):
            x, w = m.ones(3, requires_grad=True), m.ones(3, requires_grad=True)
            y = join(x, w)
            y.grad_fn.register_hook(lambda given, came, found=found: found.append([_looks(g) for g in given]))
            passes = (
                lambda x, w, y: y.sum().backward(),
                lambda x, w, y: m.autograd.grad(y.sum(), x),
                lambda x, w, y: m.autograd.grad(y.sum(), w),
                lambda x, w, y: m.autograd.grad(y.sum(), y),
                lambda x, w, y: m.autograd.grad(y.sum(), x, create_graph=True),
            )
            found.append(complaint(lambda p=passes[mode], x=x, w=w, y=y: p(x, w, y)))
            found += [_looks(x.grad), _looks(w.grad)]
    return found


@program
def replaced_gradients_are_added(m):
    found = []
    kept: list[Any] = []
    replacements = (
        lambda g: g * 2,
        lambda g: kept.append(g * 2) or kept[-1],
        lambda g: (g * 2).view_as(g),
        lambda g: g,
        lambda g: kept.append((g * 2).detach()) or kept[-1].detach(),
        lambda g: kept.append(g),
        lambda g: None,
    )
    for give in replacements:
        for kind in range(4):
            for late in (False, True):
                w = m.tensor([1.0, -1.0, 0.5], requires_grad=True)
                x = m.ones(2, 3, requires_grad=True)
                u = w * 2
                first = x + w
                summed = w.sum(0)
                y = first + w if late else u + w
                node = y.grad_fn
                if kind == 0:
                    y.register_hook(give)
                elif kind == 1:
                    u.register_hook(give)
                elif kind == 2:
                    node.register_prehook(lambda came, give=give: (give(came[0]),))
                else:
                    node.register_hook(lambda given, came, give=give: tuple(g if g is None else give(g) for g in given))
                out = u.sum() + summed + y.sum()
                found.append(complaint(out.backward))
                found += [_looks(w.grad), _looks(x.grad)]
    return [*found, [_looks(g) for g in kept]]


# --- beside hooks -----------------------------------------------------------------------------------


@program
def data_of_another_shape(m):
    """Gradients go on in the shape that a tensor was recorded with."""
    found = []
    for op in (lambda v: v.cumsum(0), lambda v: v * 2, lambda v: v.clone(), lambda v: v.sin()):
        for create in (False, True):
            w = m.tensor([1.0, 2.0, 3.0], dtype=m.float64, requires_grad=True)
            part = w[:1]
            r = op(part)
            r.data = m.ones(2, 3, dtype=m.float64)
            found.append(complaint((r * part).sum().backward))
            found.append(w.grad)
            q = op(w[:1])
            q.data = m.ones(1, dtype=m.float32)
            found.append(m.autograd.grad((q * 2).sum(), w, create_graph=create)[0].detach())
    return found


@program
def gradients_of_real_parts_that_nobody_asked_for(m):
    functions = (
        lambda r, c: m.where(r > 0, r, c),
        lambda r, c: m.where(r > 0, c, r),
        lambda r, c: c.masked_fill(r > 0, r[0]),
        lambda r, c: m.cat([r, c]),
        lambda r, c: m.stack([r, c]),
        lambda r, c: r * c,
    )
    passes = (
        lambda z, y, r, c: z.backward(),
        lambda z, y, r, c: z.backward(inputs=[y]),
        lambda z, y, r, c: z.backward(inputs=[c]),
        lambda z, y, r, c: z.backward(inputs=[r]),
        lambda z, y, r, c: m.autograd.grad(z, y),
        lambda z, y, r, c: m.autograd.backward([z, (r * r).sum()], inputs=[y]),
    )
    found = []
    for fn in functions:
        for run in passes:
            r = m.ones(2, dtype=m.float64, requires_grad=True)
            c = m.ones(2, dtype=m.complex128, requires_grad=True)
            y = fn(r, c)
            y.retain_grad()
            found.append(complaint(lambda run=run, y=y, r=r, c=c: run(y.imag.sum(), y, r, c)))
            found += [r.grad, c.grad, y.grad]
    return found


@program
def resized_in_inference_mode(m):
    x = m.ones(2, 3, requires_grad=True)
    with m.inference_mode():
        x.resize_(2, 3)
    return x.shape, x.requires_grad, x._version, complaint(lambda: x.resize_(3, 2))


@program
def hooks_on_a_node_that_accumulates_may_return_nothing_else(m):
    """It returns no gradients, so a hook after it has none to replace; one on the tensor returns None."""
    found = []

    def passed(after: Any = None, then: Any = None) -> Any:
        x = m.ones(2, requires_grad=True)
        if after is not None:
            node = (x * 1).grad_fn.next_functions[0][0]
            node.register_hook(after)
        if then is not None:
            x.register_post_accumulate_grad_hook(then)
        (x * 1).sum().backward()
        return x.grad

    one = m.ones(2)
    found += [
        complaint(lambda given=given: passed(lambda gi, go: given))
        for given in (None, (), (None,), (None, None), (one,), [], 1, "a", one)
    ]
    found += [
        complaint(lambda given=given: passed(None, lambda x: given))
        for given in (1, "a", one, m.ones(3), one.double(), (), (one,), [one])
    ]
    found.append(passed(lambda gi, go: (), lambda x: x))
    return found


@program
def what_a_hook_before_a_leaf_returns_is_its_gradient(m):
    found, kept = [], []
    hooks = (
        lambda g: None,
        lambda g: g,
        lambda g: (g[0] * 2,),
        lambda g: (None,),
        lambda g: kept.append(g[0]),
        lambda g: (g[0].expand(2),),
    )
    for hook in hooks:
        for after in (None, lambda gi, go: None):
            x = m.ones(2, requires_grad=True)
            y = x * 2
            node = y.grad_fn.next_functions[0][0]
            node.register_prehook(hook)
            if after is not None:
                node.register_hook(after)
            y.sum().backward()
            found.append(None if x.grad is None else x.grad.clone())
    return found
